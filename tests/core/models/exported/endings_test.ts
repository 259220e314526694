// Programs that end in an activation: the loss that fits is taken, as PyTorch's training with it shows.
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { exportedModel, lossFor } from "../../../../core/models/exported/model.ts";
import { createLoss } from "../../../../core/models/losses.ts";
import { type Facts, forward } from "../../../../core/models/model.ts";
import { noGrad } from "../../../../ffi/autograd.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { rand, randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run, settings } from "../../train/rig.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

open();
const STEPS = 6;
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Record<string, number[]> }>("export_endings.py", {
  folder,
  steps: STEPS,
});

const input = { shape: [6], dtype: "f32" } as const;
const of = (outputs: number): Facts => ({ task: "classification", input, outputs });
const numbers: Facts = { task: "regression", input, outputs: 3 };
const map: Facts = { task: "segmentation", input: { shape: [2, 3, 3], dtype: "f32" }, outputs: 2 };

interface Case {
  readonly facts: Facts;
  readonly flags: readonly string[];
  readonly target: () => Tensor;
}
const SGD = ["--optimizer", "sgd", "--weight-decay", "0", "--set", "training.optimizer.momentum=0"];
const classes: Case = { facts: of(4), flags: [], target: () => randint(0, 4, [8], "i64") };
const logs: Case = { ...classes, flags: ["--loss", "nll"] };
const two: Case = { facts: of(2), flags: ["--loss", "bce"], target: () => randint(0, 2, [8], "i64") };
const shares: Case = { facts: numbers, flags: ["--loss", "bce"], target: () => rand([8, 3]) };
const pixels: Case = { facts: map, flags: ["--loss", "bce"], target: () => randint(0, 2, [8, 3, 3], "i64") };

const opened = (name: string, facts: Facts, outputs = facts.outputs) =>
  exportedModel(join(folder, `${name}.pt2`), { facts, outputs });

function train(name: string, { facts, flags, target }: Case): { losses: number[]; said: string } {
  const { training } = settings(...flags), chosen = createLoss(training, facts);
  const model = opened(name, facts, chosen.outputs);
  const r = rig(model, facts, { flags: [...SGD, ...flags], direct: true });
  const loss = lossFor(model, training.loss, chosen, facts);
  const step = { ...r.step, pass: { ...r.step.pass, seeds: null, loss } };
  const losses = Array.from({ length: STEPS }, (_, i) =>
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = { input: randn([8, ...facts.input.shape]), target: target() };
      return run({ ...r, step }, [batch], { number: i, lr: 0.5 }).loss;
    }));
  const said = model.describe();
  model.root.free();
  return { losses, said: `${said}\n${loss.note ?? ""}` };
}

for (const name of ["softmax", "attends"]) train(name, classes); // what is opened once is opened here, and is no test's leak
train("numbers", shares);

const LEFT = "which loss, metrics and predictions apply themselves";

for (
  const [name, title, { says, ...one }] of [
    ["softmax", "softmax of classes", { ...classes, says: LEFT }],
    ["attends", "softmax whose shares are used in the graph, too", { ...classes, says: LEFT }],
    ["log_softmax", "log_softmax of classes", { ...classes, says: null }],
    ["other_softmax", "softmax over the samples, which no loss repeats", { ...classes, says: null }],
    ["sigmoid", "sigmoid of two classes", { ...two, says: LEFT }],
    ["squeezed", "sigmoid of two classes in another shape", { ...two, says: LEFT }],
    ["map", "sigmoid of a class for each pixel", { ...pixels, says: LEFT }],
    ["numbers", "sigmoid of numbers", {
      ...shares,
      says: "the loss bce takes these probabilities as they are",
    }],
    ["shares", "softmax of numbers", {
      ...shares,
      says: "the loss bce takes these probabilities as they are",
    }],
    ["logits", "no activation", { ...shares, says: null }],
  ] as const
) {
  Deno.test(`a graph that ends in ${title} trains as in PyTorch with the loss that fits`, () => {
    const { losses, said } = train(name, one);
    losses.forEach((loss, i) => assertAlmostEquals(loss, answers[name][i], 2e-6, `step ${i}`));
    if (says) assertStringIncludes(said, says);
    else assert(!said.includes("ends in"), said);
  });
}

Deno.test("nll of a graph that ends in log_softmax is the loss that PyTorch trains it with", () => {
  const { losses, said } = train("log_softmax", logs);
  losses.forEach((loss, i) => assertAlmostEquals(loss, answers.log_softmax[i], 2e-6, `step ${i}`));
  assert(!said.includes("Warning"), said);
});

Deno.test("nll is refused where a graph ends in softmax, and warned of where it does not end in log_softmax", () => {
  const chosen = createLoss(settings("--loss", "nll").training, of(4));
  const cut = opened("softmax", of(4)), plain = opened("several", of(4));
  assertMatch(assertThrows(() => lossFor(cut, "nll", chosen, of(4)), UserError).message, /ends in softmax/);
  assertStringIncludes(lossFor(plain, "nll", chosen, of(4)).note!, "--loss cross_entropy");
  for (const { root } of [cut, plain]) root.free();
});

Deno.test("a graph that gives scores of a text's last position alone is refused before the first step", () => {
  const text: Facts = { task: "language", input: { shape: [5], dtype: "i64" }, outputs: 11 };
  opened("all", text).root.free();
  for (const name of ["last", "last_kept"]) {
    const { message } = assertThrows(() => opened(name, text), UserError);
    assertStringIncludes(message, "scores of one position alone");
  }
});

Deno.test("what a graph's softmax gives is predicted as it is, where its logits are trained", () => {
  const whole = exportedModel(join(folder, "attends.pt2")), cut = opened("attends", of(4));
  const x = randn([8, 6]);
  const [given, logits] = [whole, cut].map((model) =>
    scope(() => noGrad(() => toNumbers(forward(model, x) as Tensor)))
  );
  const rows = Array.from({ length: 8 }, (_, i) => Array.from(logits.slice(4 * i, 4 * i + 4), Math.exp));
  const again = rows.flatMap((row) => row.map((one) => one / row.reduce((sum, other) => sum + other, 0)));
  again.forEach((share, i) => assertAlmostEquals(share, given[i], 1e-6));
  for (const { root } of [whole, cut]) root.free();
});

Deno.test("sigmoids of several classes are warned of, for cross entropy is another loss in PyTorch as well", () => {
  const { losses, said } = train("several", classes);
  losses.forEach((loss, i) => assertAlmostEquals(loss, answers.several[i], 2e-6, `step ${i}`));
  assertSentence("core/models/exported/endings: ends sigmoid data", said);
});

Deno.test("bce of logarithms of probabilities, and a sigmoid that writes over its logits, are refused by name", () => {
  const model = opened("logs", numbers);
  const chosen = createLoss(settings("--loss", "bce").training, numbers);
  const logs = assertThrows(() => lossFor(model, "bce", chosen, numbers), UserError).message;
  assert(logs.startsWith("--loss bce takes logits, and ") && logs.includes("ends in log_sigmoid"), logs);
  model.root.free();
  const written = assertThrows(() => opened("in_place", of(2), 1), UserError).message;
  assertStringIncludes(written, "ends in sigmoid_ (");
});

Deno.test("outputs that nothing takes are named, and many more numbers than classes are warned of", () => {
  const vae = opened("vae", of(10));
  assertStringIncludes(vae.describe(), "Outputs that nothing takes: ");
  assertMatch(vae.describe(), /: \S+ \[any, 2\], \S+ \[any, 2\]; the loss takes \S+ \[any, 40\]$/m);
  const warning = sentenceNamed("core/models/exported/endings: gives numbers sample");
  assertStringIncludes(vae.warnings.join("\n"), warning);
  const wide = opened("vae", of(20)); // not much wider
  assertEquals(wide.warnings, []);
  const plain = opened("logits", numbers);
  assert(!plain.describe().includes("nothing takes") && plain.warnings.length === 0, plain.describe());
  for (const { root } of [vae, wide, plain]) root.free();
});

Deno.test("maps with fewer scores than classes are refused before they are trained", () => {
  opened("few", map).root.free();
  const { message } = assertThrows(() => opened("few", { ...map, outputs: 5 }), UserError);
  assertSentence("core/models/exported/endings: model gives numbers", message);
});

Deno.test("an input that was sparse in Python is said to be dense here", () => {
  const model = opened("sparse", of(4));
  assertSentence("core/models/exported/endings: exported sparse tensor", model.describe());
  model.root.free();
});
