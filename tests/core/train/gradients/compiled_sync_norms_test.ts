// --sync-bn with compiled steps: all ranks meet in the midst of a plan, each micro-batch once, and have the ordinary bits.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { aloneCollectives, type Collectives } from "../../../../core/ranks/collectives.ts";
import { block, type Model, model } from "../../../../core/models/model.ts";
import { BatchNorm } from "../../../../core/models/nn/norms.ts";
import { Linear } from "../../../../core/models/nn/linear.ts";
import { Group } from "../../../../core/models/nn/module.ts";
import { machineIsa } from "../../../../ffi/machine.ts";
import { printCode } from "../../../../core/compile/x86/print.ts";
import { openCompiledPass } from "../../../../core/train/compiled_pass.ts";
import type { Mode } from "../../../../core/train/compiler.ts";
import { openReducer, overlappedGradients } from "../../../../core/train/gradients/overlapped.ts";
import { openSyncNorms } from "../../../../core/train/gradients/sync_norms.ts";
import { openAccount } from "../../../../core/run/account.ts";
import { loadCode } from "../../../../ffi/machine_code.ts";
import { add, constant, toNumbers } from "../../../../ffi/make.ts";
import { randn, relu } from "../../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import type { Tensor } from "../../../../ffi/tensor.ts";
import { open, rig, rows, run, settings, weights } from "../rig.ts";
import { assertSentence } from "../../../sentences.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open
for (const count of [0, 1, 2, 3, 4, 5, 6]) constant(count);
constant(0, "i64"), constant(1, "i64");

/** Two norms side by side in each block, so that their order matters. */
function normed(norms = true): Model {
  const layers = [0, 1].map(() => {
    const [a, b] = [0, 1].map(() => ({ linear: new Linear(7, 7), norm: new BatchNorm(7) }));
    const children = { a: a.linear, an: a.norm, b: b.linear, bn: b.norm };
    const one = ({ linear, norm }: typeof a, x: Tensor) => norm.forward(linear.forward(x));
    const forward = (x: Tensor) => relu(add(one(a, x), one(b, x)));
    return { own: new Group(children), forward };
  });
  const first = new BatchNorm(7), last = new Linear(7, 1);
  const children = Object.fromEntries(layers.map(({ own }, i) => [`l${i}`, own]));
  return model("normed", new Group({ ...children, last, ...(norms ? {} : { first }) }), [
    ...(norms ? [] : [block("first", first, (x) => first.forward(x as Tensor))]),
    ...layers.map(({ own, forward }, i) => block(`block ${i}`, own, (x) => forward(x as Tensor))),
    block("last", last, (x) => last.forward(x as Tensor)),
  ], { layers: "2" });
}

async function trained(mode: Mode | null, made = () => normed()) {
  manualSeed(7n);
  const plain = rig(made(), rows, {}), { arena, model, step } = plain;
  const told: string[] = [], met: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const alone = aloneCollectives();
  const collectives: Collectives = {
    ...alone,
    allReduce: (t, op, phase) => (met.push(`${phase} ${t.numel}`), alone.allReduce(t, op, phase)),
    allGather: (all, own, phase) => (met.push(`${phase} ${own.numel}`), alone.allGather(all, own, phase)),
  };
  const norms = openSyncNorms(settings(), model, collectives, "cpu")!;
  const reducer = openReducer(arena, model, collectives, 200 / 2 ** 20);
  const options = { ...step, compiled: mode && openCompiledPass(arena, mode, () => tell) };
  const gradients = overlappedGradients(options, reducer, norms, openAccount());
  const losses: number[] = [];
  for (let number = 0; number < 5; number++) {
    manualSeed(BigInt(100 + number));
    // The last one is short: its shape has a plan of its own.
    const batches = [8, 8, 5].map((size) => ({ input: randn([size, 7]), target: randn([size, 1]) }));
    losses.push(run({ ...plain, step: { ...options, gradients } }, batches, { number }).loss);
    for (const { input, target } of batches) input.free(), target.free();
  }
  const buffers = model.root.namedBuffers().map(([name, t]) => [name, [...toNumbers(t)]] as const);
  return { told: told.join("\n"), met, losses, weights: await weights(plain), buffers };
}

/** An ordinary step of one rank may meet a compiled or recorded one of another. */
function assertOneOrder(met: readonly string[]): void {
  const each = met.length / 5;
  assertEquals(met.slice(4 * each), met.slice(0, each));
}

Deno.test({
  name: "compiled steps with batch norm over all ranks have the ordinary bits, and the ordinary collectives",
  ignore: isa === null,
  async fn() {
    const plain = await trained(null), exact = await trained("exact"), fast = await trained("fast");
    for (const { told } of [exact, fast]) assertMatch(told, /^Steps are compiled: [^\n]*$/);
    assertEquals(exact.losses, plain.losses);
    assertEquals(exact.weights, plain.weights);
    assertEquals(exact.buffers, plain.buffers);
    const ofNorms = (met: readonly string[]) => met.filter((one) => one.startsWith("batch norm"));
    assert(ofNorms(plain.met).length === 5 * 3 * 8);
    for (const { met } of [exact, fast]) {
      assertEquals(ofNorms(met), ofNorms(plain.met));
      assertEquals(met.toSorted(), plain.met.toSorted());
    }
    for (const { met } of [exact, fast]) assertOneOrder(met);
    fast.losses.forEach((loss, i) => assertAlmostEquals(loss, plain.losses[i], 1e-4));
  },
});

Deno.test({
  name: "a norm over the data itself, whose backward has no gradient to hand on, runs op by op",
  ignore: isa === null,
  async fn() {
    const plain = await trained(null, () => normed(false)),
      exact = await trained("exact", () => normed(false));
    assertSentence("core/train/gradients/compiled_sync_norms: steps compiled gradient", exact.told);
    assertEquals(exact.weights, plain.weights);
    assertEquals(exact.met.toSorted(), plain.met.toSorted());
    assertOneOrder(exact.met);
  },
});
