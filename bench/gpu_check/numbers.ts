// Checks of what is computed: ops and training on the device against the CPU.
import { op as opNamed } from "../../core/models/user/op.ts";
import { packParameters } from "../../core/train/arena.ts";
import { LossScaler } from "../../core/train/precision.ts";
import { cudaCapability, setNumerics } from "../../ffi/cuda.ts";
import { NativeError } from "../../ffi/errors.ts";
import { fill_, ones, toDevice, toNumbers } from "../../ffi/make.ts";
import * as op from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { type Check, judged, losses, relative, settings, SMALL, within } from "./check.ts";

type Op = readonly [shapes: readonly (readonly number[])[], run: (...inputs: Tensor[]) => Tensor];

const OPS: Readonly<Record<string, Op>> = {
  linear: [[[64, 128], [96, 128], [96]], (x, w, b) => op.linear(x, w, b)],
  conv2d: [[[4, 8, 32, 32], [16, 8, 3, 3], [16]], (x, w, b) => op.conv2d(x, w, b, [1, 1], [1, 1])],
  batch_norm: [
    [[8, 16, 16, 16], [16], [16]],
    (x, w, b) => op.batchNorm(x, w, b, null, null, true, 0.1, 1e-5, true),
  ],
  sdpa: [
    [[2, 4, 64, 32], [2, 4, 64, 32], [2, 4, 64, 32]],
    (q, k, v) => op.scaledDotProductAttention(q, k, v, null, 0, true),
  ],
  layer_norm: [[[32, 256], [256], [256]], (x, w, b) => op.layerNorm(x, [256], w, b)],
  cross_entropy: [[[64, 100]], (x) => op.crossEntropyLoss(x, op.argmax(op.flip(x, [1]), 1))],
  fft: [[[4, 64, 64]], (x) => op.viewAsReal(op.fftRfft2(x))],
};

const opChecks: Check[] = Object.entries(OPS).map(([name, [shapes, run]]) => ({
  name: `${name} equals the CPU's`,
  run: ({ device }) =>
    scope(() => {
      setNumerics({ tf32: false, deterministic: false });
      manualSeed(0n);
      const inputs = shapes.map((shape) => op.randn(shape));
      const there = run(...inputs.map((t) => toDevice(t, device)));
      return within(relative(toNumbers(there), toNumbers(run(...inputs))), 1e-4);
    }),
}));

/** Ops whose numbers have no place in libtorch's C interface, as graphs and users' files call them: by name, with how many tensors. */
const WITH_NUMBERS: Readonly<Record<string, readonly [tensors: number, ...numbers: number[]]>> = {
  leaky_relu: [1, 0.1],
  elu: [1, 1.5, 1, 2],
  softplus: [1, 2, 5],
  hardtanh: [1, -0.5, 0.7],
  threshold: [1, 0.1, -3],
  celu: [1, 1.3],
  softshrink: [1, 0.4],
  hardshrink: [1, 0.4],
  "pow.Tensor_Scalar": [1, 3],
  clamp: [1, -0.2, 0.3],
  "lerp.Scalar": [2, 0.3],
  "add.Tensor": [2, 0.7],
  addcmul: [3, 0.4],
  addcdiv: [3, 0.4],
  addmm: [3, 0.5, 2],
};

const withNumbers: Check = {
  name: "ops with numbers equal the CPU's, and a refusal there ends no process",
  run: ({ device }) =>
    scope(() => {
      setNumerics({ tf32: false, deterministic: false });
      manualSeed(0n);
      const inputs = [0, 1, 2].map(() => op.randn([64, 64]));
      const there = inputs.map((t) => toDevice(t, device));
      const apart = Object.entries(WITH_NUMBERS).map(([name, [tensors, ...numbers]]) => {
        const run = (given: readonly Tensor[]) =>
          toNumbers(opNamed(name)(...given.slice(0, tensors), ...numbers));
        return [name, relative(run(there), run(inputs))] as const;
      });
      const refused = () => opNamed("addmm")(there[0], op.narrow(there[1], 0, 0, 3), there[2]);
      const wrong = apart.filter(([, error]) => !(error <= 1e-5)).map(([name]) => name);
      if (!isRefused(refused)) wrong.push("a refusal");
      return {
        ok: wrong.length === 0,
        figure: wrong.length === 0 ? `${apart.length} ops` : `not ${wrong.join(", ")}`,
      };
    }),
};

function isRefused(call: () => unknown): boolean {
  try {
    call();
    return false;
  } catch (error) {
    return error instanceof NativeError;
  }
}

const EXACT = ["--amp", "off", "--no-tf32"];

/** Steps after which rounding has not yet grown in any of these models. */
const CLOSE = 5;
const rateOf = (flags: readonly string[]) => flags.includes("sgd") ? 1e-3 : 3e-4;

/**
 * Rounding grows from step to step, fastest where batch norm is over few samples: resnet18 is a hundredth away from itself
 * after ten steps on a CPU, when its images lie the other way. So the first steps decide, and what follows may be ten times
 * as far away as the CPU is from itself with another layout and a learning rate changed in its seventh digit.
 */
const trainingChecks: Check[] = Object.entries(SMALL).map(([name, flags]) => ({
  name: `${name} trains to the CPU's losses`,
  run({ device, quick }) {
    const run = (where: Device, nudge = 1, layout = "auto") => {
      const more = settings({
        "training.optimizer.learning_rate": rateOf(flags) * nudge,
        "training.channels_last": layout,
      });
      return losses(where, [...flags, ...EXACT, ...more], quick ? 2 : 20);
    };
    const [there, here, nudged] = [run(device), run("cpu"), run("cpu", 1 + 1e-6, "on")];
    const early = relative(there.slice(0, CLOSE), here.slice(0, CLOSE));
    const all = relative(there, here), limit = Math.max(1e-3, 10 * relative(nudged, here));
    return {
      ok: early <= 1e-3 && all <= limit,
      figure:
        `${early.toExponential(1)} relative in ${CLOSE} steps (at most 1e-3), ${all.toExponential(1)} in ` +
        `${here.length} (at most ${limit.toExponential(0)})`,
      detail: { there, here, nudged },
    };
  },
}));

const lastTen = (all: readonly number[]) => all.slice(-10).reduce((a, b) => a + b) / Math.min(10, all.length);

const amp = (type: "bf16" | "fp16"): Check => ({
  name: `${type} trains gpt to fp32's loss`,
  gpuOnly: type === "fp16",
  run({ device, quick }) {
    const run = (flags: string[]) => lastTen(losses(device, [...SMALL.gpt, ...flags], quick ? 4 : 100));
    return within(relative([run(["--amp", type])], [run(EXACT)]), 0.02);
  },
});

const scaler: Check = {
  name: "the fp16 loss scale backs off and grows",
  run: ({ device }) =>
    scope(() => {
      const arena = packParameters([["weight", ones([8])]], device);
      const scale = new LossScaler({ init: 1024, growthInterval: 2, min: 1, maxSkipped: 5 }, device);
      const step = (gradient: number) => {
        fill_(arena.gradient, gradient);
        const found = scale.unscale(arena);
        scale.queueUpdate(found);
        scale.follow(found.item() === 0, arena, 1);
        return scale.scale;
      };
      const seen = [Infinity, 1, 1, NaN].map(step);
      return { ok: `${seen}` === "512,512,1024,512", figure: seen.join(" → ") };
    }),
};

const channelsLast: Check = {
  name: "resnet18 in channels-last trains to the same losses",
  run({ device, quick }) {
    const run = (layout: string) =>
      losses(
        device,
        [...SMALL.resnet18, ...EXACT, ...settings({ "training.channels_last": layout })],
        quick ? 2 : 5,
      );
    return within(relative(run("on"), run("off")), 1e-3);
  },
};

const tf32: Check = {
  name: "TF32 changes a matrix product, and off is off",
  gpuOnly: true,
  run(c) {
    const { device } = c;
    if (cudaCapability() < 8) return { ok: null, figure: "not on this generation of devices" };
    return scope(() => {
      manualSeed(0n);
      const size = c.quick ? 64 : 512;
      const [a, b] = [op.randn([size, size]), op.randn([size, size])];
      const exact = toNumbers(op.mm(op.toDtype(a, "f64"), op.toDtype(b, "f64")));
      const [off, on] = [false, true].map((tf32) => {
        setNumerics({ tf32, deterministic: false });
        return relative(toNumbers(op.mm(toDevice(a, device), toDevice(b, device))), exact);
      });
      return {
        ok: off < 1e-5 && judged(c, on > 5 * off),
        figure: `${off.toExponential(1)} off, ${on.toExponential(1)} on`,
      };
    });
  },
};

export const numbers: readonly Check[] = [
  ...opChecks,
  withNumbers,
  tf32,
  ...trainingChecks,
  amp("bf16"),
  amp("fp16"),
  scaler,
  channelsLast,
];
