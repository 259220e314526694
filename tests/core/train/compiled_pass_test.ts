// Steps that are machine code beside ordinary ones: with `exact` the same weights to the last bit, with `fast` nearly.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { compiledUpdate } from "../../../core/train/compiled_update.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { timeOps } from "../../../ffi/profile.ts";
import { randn } from "../../../ffi/ops.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import type { MicroBatch } from "../../../core/train/micro_batch.ts";
import { open, rig, type RigOptions, rows, run, settings, weights } from "./rig.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const STEPS = 30;

interface Case {
  readonly name: string;
  readonly flags?: string;
  readonly micro?: readonly number[];
  readonly clipNorm?: number;
  readonly options?: RigOptions;
}

const CASES: readonly Case[] = [
  { name: "AdamW" },
  {
    name: "SGD with Nesterov's momentum",
    flags: "--optimizer sgd --set training.optimizer.momentum=0.9 --nesterov",
  },
  { name: "clipping", clipNorm: 0.1 },
  { name: "three micro-batches, the last one short", micro: [8, 8, 5] },
  { name: "a batch of one", micro: [1] },
];

interface Trained {
  readonly digests: readonly string[];
  readonly losses: readonly number[];
  readonly numbers: Float64Array;
  readonly told: readonly string[];
}

async function trained(c: Case, mode: "exact" | "fast" | null): Promise<Trained> {
  manualSeed(0n);
  const flags = (c.flags ?? "--optimizer adamw").split(" "), told: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const made = rig(mlp({ inputs: 7, hidden: 24, layers: 2, outputs: 1 }), rows, {
    flags,
    clipNorm: c.clipNorm ?? 0,
    ...c.options,
  });
  const { arena } = made;
  const { optimizer } = settings(...flags).training;
  const step = {
    ...made.step,
    compiled: mode && openCompiledPass(arena, mode, () => tell),
    optimizer: mode === "fast" ? compiledUpdate(made.step.optimizer, optimizer, arena) : made.step.optimizer,
  };
  manualSeed(1n);
  const kept: Tensor[] = [];
  const made_ = (t: Tensor) => (kept.push(keep(t)), t);
  const batches = Array.from({ length: 3 }, () =>
    (c.micro ?? [10]).map((size): MicroBatch => ({
      input: made_(randn([size, 7])),
      target: made_(randn([size, 1])),
    })));
  const losses = Array.from(
    { length: STEPS },
    (_, number) => run({ ...made, step }, batches[number % 3], { number, norm: true }).loss,
  );
  const digests = await weights(made), numbers = toNumbers(arena.flat);
  for (const t of kept) t.free();
  return { digests, losses, numbers, told };
}

for (const c of CASES) {
  Deno.test({
    name: `compiled steps: ${c.name}`,
    ignore: isa === null,
    async fn() {
      const plain = await trained(c, null);
      const exact = await trained(c, "exact");
      assertSentence("core/train/compiled_pass: steps compiled exact", exact.told.join("\n"));
      assertEquals(exact.losses, plain.losses);
      assertEquals(exact.digests, plain.digests);
      const fast = await trained(c, "fast");
      assertMatch(
        fast.told.join("\n"),
        /^Steps are compiled: .* fast; gradients differ .* by \S+ at most\.$/,
      );
      const apart = fast.numbers.reduce(
        (most, value, i) => Math.max(most, Math.abs(value - plain.numbers[i])),
        0,
      );
      assert(apart < 1e-3, String(apart));
    },
  });
}

Deno.test({
  name: "while ops are timed, each kernel of a plan is, and the update: with the same bits",
  ignore: isa === null,
  async fn() {
    const [adamw] = CASES, micro = { ...adamw, micro: [8, 8, 5] };
    const plain = await trained(micro, null);
    for (const mode of ["exact", "fast"] as const) {
      const heard = new Map<string, number>();
      const alone = await trained(micro, mode);
      const stop = timeOps((name, from, to) => heard.set(name, (heard.get(name) ?? 0) + to - from));
      const timed = await trained(micro, mode).finally(stop);
      assertEquals(timed.digests, alone.digests);
      if (mode === "exact") assertEquals(timed.digests, plain.digests);
      const kernels = [...heard.keys()].filter((name) => /^\S.* \d+ x \d+/.test(name));
      assert(kernels.length > 5, kernels.join("; "));
      assert(heard.has("compiled") === false && heard.has("adamw") === (mode === "fast"));
    }
  },
});
