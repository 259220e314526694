// --compile=exact of models whose ops libtorch rounds in ways of its own: after several steps all weights have the bits
// of a run without it.
import { assertEquals } from "@std/assert";
import { block, type Facts, type Model, model } from "../../../core/models/model.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { vit } from "../../../core/models/zoo/vit.ts";
import { simpleConvnet } from "../../../core/models/zoo/convnets.ts";
import { resnet } from "../../../core/models/zoo/resnet.ts";
import { unet } from "../../../core/models/zoo/unet.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { gradient } from "../../../ffi/autograd.ts";
import { sub } from "../../../ffi/make.ts";
import { mul, narrow, randint, randn, tanh } from "../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { open, rig, run, weights } from "./rig.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const STEPS = 4;

interface Case {
  make(): Model;
  readonly facts: Facts;
  readonly batch: number;
  readonly flags?: readonly string[];
}

const classes = (shape: readonly number[], outputs: number): Facts => ({
  task: "classification",
  input: { shape, dtype: "f32" },
  outputs,
});
const text = (tokens: number): Facts => ({
  task: "language",
  input: { shape: [tokens], dtype: "i64" },
  outputs: 61,
});

const numbers = (inputs: number): Facts => ({
  task: "regression",
  input: { shape: [inputs], dtype: "f32" },
  outputs: 1,
});

type Step = (layers: readonly Linear[], x: Tensor) => Tensor;

function layered(widths: readonly number[], forward: Step): Model {
  const root = new Group();
  const layers = widths.slice(1).map((width, i) => root.add(i, new Linear(widths[i], width)));
  return model("layered", root, [block("all", root, (x) => forward(layers, x))], {
    layers: widths.join("-"),
  });
}

const tanhs: Step = (layers, x) =>
  layers.reduce((y, layer, i) => i === layers.length - 1 ? layer.forward(y) : tanh(layer.forward(y)), x);

/** u_t - u_xx of a network of (x, t), whose last bias has no gradient. */
const heat: Step = (layers, points) => {
  const slope = (at: Tensor) => gradient((t) => tanhs(layers, t), at);
  const bend = gradient((at) => narrow(slope(at), 1, 0, 1), points);
  return sub(narrow(slope(points), 1, 1, 1), narrow(bend, 1, 0, 1));
};

/** u u_x: the network's value and its slope. */
const flow: Step = (layers, points) => {
  const u = (at: Tensor) => tanhs(layers, at);
  return mul(u(points), narrow(gradient(u, points), 1, 0, 1));
};

const CASES: Readonly<Record<string, Case>> = {
  gpt: {
    make: () => gpt({ vocabulary: 61, context: 17, layers: 2, heads: 3, embed: 36 }),
    facts: text(17),
    batch: 3,
  },
  "gpt, a batch of one": {
    make: () => gpt({ vocabulary: 61, context: 8, layers: 1, heads: 2, embed: 32, bias: false }),
    facts: text(8),
    batch: 1,
  },
  "gpt with label smoothing and an ignored token": {
    make: () => gpt({ vocabulary: 61, context: 9, layers: 1, heads: 2, embed: 32 }),
    facts: text(9),
    batch: 2,
    flags: ["--label-smoothing", "0.1", "--set", "training.ignore_index=3"],
  },
  vit: {
    make: () =>
      vit({ channels: 3, height: 8, width: 8, patch: 4, layers: 2, heads: 2, embed: 24, outputs: 5 }),
    facts: classes([3, 8, 8], 5),
    batch: 5,
  },
  "simple-convnet": {
    make: () => simpleConvnet({ channels: 1, height: 14, width: 14, outputs: 10, dropout: 0.2 }),
    facts: classes([1, 14, 14], 10),
    batch: 4,
  },
  "heat equation": { make: () => layered([2, 19, 19, 1], heat), facts: numbers(2), batch: 13 },
  "heat equation, wide": { make: () => layered([2, 32, 64, 1], heat), facts: numbers(2), batch: 32 },
  "flow's equation": { make: () => layered([2, 16, 24, 1], flow), facts: numbers(2), batch: 9 },
  resnet18: {
    make: () => resnet("resnet18", { channels: 3, outputs: 7 }),
    facts: classes([3, 16, 16], 7),
    batch: 3,
  },
  // Its gradients of an input and of a weight are of one size, and only the latter has a place.
  unet: {
    make: () => unet({ channels: 2, filters: 4, outputs: 3 }),
    facts: { task: "segmentation", input: { shape: [2, 16, 16], dtype: "f32" }, outputs: 3 },
    batch: 2,
  },
};

interface Trained {
  readonly digests: readonly string[];
  readonly losses: readonly number[];
  readonly told: string;
}

async function trained({ make, facts, batch, flags = [] }: Case, exact: boolean): Promise<Trained> {
  manualSeed(0n);
  const made = rig(make(), facts, { flags: ["--optimizer", "adamw", ...flags] });
  const told: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const step = { ...made.step, compiled: exact ? openCompiledPass(made.arena, "exact", () => tell) : null };
  manualSeed(1n);
  const { shape, dtype } = facts.input;
  const size = [batch, ...shape];
  const tensors = () =>
    [
      dtype === "i64" ? randint(0, facts.outputs, size) : randn(size),
      facts.task === "regression" ? randn([batch, facts.outputs]) : randint(
        0,
        facts.outputs,
        {
          language: size,
          segmentation: [batch, ...shape.slice(1)],
          classification: [batch],
        }[facts.task as string]!,
      ),
    ].map((t) => keep(t as Tensor));
  const batches = [tensors(), tensors()].map(([input, target]) => ({ input, target }));
  const losses = Array.from(
    { length: STEPS },
    (_, number) => run({ ...made, step }, [batches[number % 2]], { number }).loss,
  );
  const digests = await weights(made);
  for (const { input, target } of batches) input.free(), target.free();
  return { digests, losses, told: told.join("\n") };
}

for (const [name, c] of Object.entries(CASES)) {
  Deno.test({
    name: `exact compiled steps have the bits of ordinary ones: ${name}`,
    ignore: isa === null,
    async fn() {
      const plain = await trained(c, false), exact = await trained(c, true);
      assertSentence("core/train/compiled_models: steps compiled exact", exact.told);
      assertEquals(exact.losses, plain.losses);
      assertEquals(exact.digests, plain.digests);
    },
  });
}
