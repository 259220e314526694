// Programs whose forward moves buffers and frozen weights (memories, codebooks, momentum encoders), trained here
// and by PyTorch.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { type ExportedModel, exportedModel, lossFor } from "../../../../core/models/exported/model.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run } from "../../train/rig.ts";
import { bits, STEPS } from "./training.ts";
import { assertSentence } from "../../../sentences.ts";

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
interface Trained {
  readonly losses: string[];
  readonly state: Record<string, number[]>;
}
const { answers } = await askPeer<{ answers: Record<string, Trained> }>("export_memories.py", {
  folder,
  steps: STEPS,
});

const facts: Facts = { task: "classification", input: { shape: [6], dtype: "f32" }, outputs: 4 };
const opened = (name: string): ExportedModel => exportedModel(join(folder, `${name}.pt2`), { facts });

interface Found extends Trained {
  readonly numbers: number[];
}

function train(name: string, checkpointing = false): Found {
  const model = opened(name);
  const r = rig(model, facts, {
    flags: ["--optimizer", "sgd", "--weight-decay", "0"],
    direct: true,
    checkpointing,
  });
  const loss = lossFor(model, "auto", r.step.pass.loss, facts);
  const step = { ...r.step, pass: { ...r.step.pass, seeds: null, loss } };
  const once = (i: number) =>
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = { input: randn([8, 6]), target: randint(0, 4, [8], "i64") };
      return run({ ...r, step }, [batch], { number: i, lr: 1e-2 }).loss;
    });
  const numbers = [once(0)], before = liveTensors();
  while (numbers.length < STEPS) numbers.push(once(numbers.length));
  assertEquals(liveTensors(), before, `${name}: tensors that a step has left`);
  const state = Object.fromEntries(model.root.stateDict().map(([key, t]) => [key, [...toNumbers(t)]]));
  model.root.free();
  return { losses: numbers.map(bits), state, numbers };
}

for (const name of Object.keys(answers)) train(name); // what is opened once is opened here, and is no test's leak

for (
  const [name, what] of [
    ["single", "a loss of one element, [1],"],
    ["centres", "a memory that moves after the loss has looked at it"],
    ["bank", "a memory that a gradient went through before it became another"],
    ["momentum", "a momentum encoder that forward moves, and its queue,"],
    ["codebook", "a codebook that follows by averages, straight through,"],
  ]
) {
  Deno.test(`${what} has PyTorch's losses and ends in its buffers`, () => {
    const { losses, state } = train(name);
    assertEquals(losses, answers[name].losses);
    assertEquals(state, answers[name].state);
    assertEquals(train(name, true).losses, losses, "computed twice");
  });
}

const farthest = (ours: readonly number[], theirs: readonly number[]): number =>
  Math.max(...ours.map((value, i) => Math.abs(value - theirs[i])));

Deno.test("after run_decompositions() detach still stops gradients, and frozen weights and memories still move", () => {
  for (const name of Object.keys(answers)) {
    const { numbers, state } = train(`${name}_decomposed`), plain = train(name);
    assert(farthest(numbers, plain.numbers) < 1e-5, `${name}: ${numbers} and not ${plain.numbers}`);
    for (const [key, values] of Object.entries(state)) {
      assert(farthest(values, plain.state[key]) < 1e-4, `${name}: ${key}`);
    }
  }
});

Deno.test("forward that moves what is trained, or what it predicts from after its loss, is refused in a sentence", () => {
  const said = (name: string) => assertThrows(() => opened(name), UserError).message;
  for (const name of ["moved", "moved_decomposed"]) {
    assertStringIncludes(said(name), "forward writes to a parameter that is trained");
  }
  assertSentence("core/models/exported/memories: forward writes loss", said("overwritten"));
});
