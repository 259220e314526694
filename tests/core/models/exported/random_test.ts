// What graphs draw, in training and in evaluation, and what a block that is computed twice finds in its buffers.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { draws, refusedName } from "../../../../core/models/exported/admitted.ts";
import { type ExportedModel, exportedModel } from "../../../../core/models/exported/model.ts";
import { type Facts, forward } from "../../../../core/models/model.ts";
import { takeGradients } from "../../../../core/train/arena.ts";
import { checkpointed, keyedSeeds, straight } from "../../../../core/train/blocks.ts";
import { noGrad } from "../../../../ffi/autograd.ts";
import { operator } from "../../../../ffi/operators.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { randn } from "../../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run } from "../../train/rig.ts";
import { assertSentence } from "../../../sentences.ts";

interface Evaluated {
  readonly evaluated: number[];
}

interface Answers {
  readonly scaled: Evaluated;
  readonly deep_floor: Evaluated;
  readonly deep_bernoulli: Evaluated;
  readonly spectral: { gradients: Record<string, number[]>; buffers: Record<string, number[]> };
  readonly drawing: { tagged: [string, string][] };
}

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Answers }>("export_cases.py", { folder });
const opened = (name: string): ExportedModel => exportedModel(join(folder, `${name}.pt2`));
opened("spectral").root.free(); // what is opened once is opened here, and is no test's leak

const regression = (columns: number): Facts => ({
  task: "regression",
  input: { shape: [columns], dtype: "f32" },
  outputs: 2,
});

for (
  const [name, shape, what] of [
    [
      "scaled",
      [4, 1, 8, 8],
      "batch norm without running statistics looks at its own batch in evaluation, too",
    ],
    ["deep_floor", [4, 3], "stochastic depth by floor(share + rand) is what it is on average"],
    ["deep_bernoulli", [4, 3], "stochastic depth by bernoulli_ is what it is on average"],
  ] as const
) {
  Deno.test(`evaluation of a graph of training is PyTorch's evaluation: ${what}`, () => {
    setThreads(1); // as the peer
    const model = opened(name);
    model.root.train(false);
    manualSeed(10n);
    const found = scope(() => noGrad(() => [...toNumbers(forward(model, randn(shape)) as Tensor)]));
    const wanted = answers[name].evaluated;
    const far = Math.max(...found.map((value, i) => Math.abs(value - wanted[i])));
    assert(far < 1e-6, `${far} away`);
    assertEquals(model.warnings, []);
    model.root.free();
  });
}

Deno.test("what is drawn in evaluation, too, is warned of by its name and line", () => {
  const model = opened("drawing");
  const warned = model.warnings.join("\n");
  for (
    const name of ["exponential_", "uniform_", "multinomial", "poisson", "_standard_gamma", "log_normal_"]
  ) {
    assertSentence("core/models/exported/random: draws random numbers", warned, { name });
  }
  model.root.free();
});

Deno.test("a step draws the same numbers whatever was drawn before it, by any operation that draws", () => {
  const model = opened("drawing");
  assert(model.draws);
  const r = rig(model, regression(3), { flags: ["--optimizer", "sgd"], direct: true });
  assert(r.step.pass.seeds !== null);
  const losses = [1n, 99n].map((history) =>
    scope(() => {
      manualSeed(5n);
      const batch = { input: randn([4, 3]), target: randn([4, 2]) };
      manualSeed(history); // a resumed run begins with another one
      return run(r, [batch], { number: 7, lr: 0 }).loss;
    })
  );
  assertEquals(losses[1], losses[0]);
  model.root.free();
});

Deno.test("a model whose code is the user's own is seeded, too: what it draws can't be told", () => {
  const model = opened("spectral");
  assertEquals(keyedSeeds(model, 1), null);
  assert(keyedSeeds(model, 1, { unknown: true }) !== null);
  model.root.free();
});

Deno.test("every admitted operation that PyTorch says is random is known to draw", () => {
  const missed = answers.drawing.tagged.filter(([name, overload]) => {
    if (refusedName("aten", name, overload) !== "") return false;
    const op = operator(`aten::${name}`, overload);
    return op !== null && !draws(name, op);
  });
  assert(answers.drawing.tagged.length > 80, `${answers.drawing.tagged.length} are random`);
  assertEquals(missed, []);
});

Deno.test("gradients of a block that is computed twice are those of its first pass, where forward moves buffers", () => {
  setThreads(1); // as the peer
  const [whole, twice] = [straight, checkpointed].map((way) => {
    const model = opened("spectral");
    assert(model.blocks.length >= 3, `${model.blocks.length} blocks`);
    const { arena, step: { pass } } = rig(model, regression(6), { flags: [], direct: true });
    const found = scope(() => {
      manualSeed(10n);
      const input = randn([4, 6]), target = randn([4, 2]);
      way({ ...pass, seeds: null }, input, target, null);
      takeGradients(arena);
      return Object.fromEntries(
        model.root.namedParameters().map(([name], i) => [name, [...toNumbers(arena.gradients[i])]]),
      );
    });
    const buffers = Object.fromEntries(
      model.root.namedBuffers().map(([name, t]) => [name, [...toNumbers(t)]]),
    );
    model.root.free();
    return { found, buffers };
  });
  assertEquals(whole.found, answers.spectral.gradients);
  assertEquals(twice.found, answers.spectral.gradients);
  assertEquals(twice.buffers, answers.spectral.buffers);
});
