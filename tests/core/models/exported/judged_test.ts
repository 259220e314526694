// Programs that compute their own loss, trained here and by PyTorch.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { type ExportedModel, exportedModel, lossFor } from "../../../../core/models/exported/model.ts";
import { createLoss } from "../../../../core/models/losses.ts";
import { type Facts, forward } from "../../../../core/models/model.ts";
import { takeGradients } from "../../../../core/train/arena.ts";
import { straight } from "../../../../core/train/blocks.ts";
import { segmented } from "../../../../core/train/gradients/overlapped.ts";
import { noGrad } from "../../../../ffi/autograd.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { narrow, randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { keep, liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run, settings } from "../../train/rig.ts";
import { bits, STEPS } from "./training.ts";
import { assertSentence } from "../../../sentences.ts";

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Record<string, string[]> }>("export_judged.py", {
  folder,
  steps: STEPS,
});

const row = () => randn([8, 6]),
  label = () => randint(0, 4, [8], "i64"),
  tokens = () => randint(0, 11, [8, 5], "i64");
const classes: Facts = { task: "classification", input: { shape: [6], dtype: "f32" }, outputs: 4 };
const cases: Record<string, { facts: Facts; batch: () => { input: Tensor; target: Tensor } }> = {
  judged: { facts: classes, batch: () => ({ input: row(), target: label() }) },
  language: {
    facts: { task: "language", input: { shape: [5], dtype: "i64" }, outputs: 11 },
    batch: () => ({ input: tokens(), target: tokens() }),
  },
  vae: { facts: classes, batch: () => ({ input: row(), target: label() }) },
  noisy: { facts: classes, batch: () => ({ input: row(), target: label() }) },
  alone: { facts: classes, batch: () => ({ input: row(), target: label() }) },
};

const opened = (name: string): ExportedModel =>
  exportedModel(join(folder, `${name}.pt2`), { facts: cases[name]?.facts ?? classes });

function rigged(name: string, checkpointing = false) {
  const { facts } = cases[name], model = opened(name);
  const flags = ["--optimizer", "sgd", "--weight-decay", "0"];
  const r = rig(model, facts, { flags, direct: true, checkpointing });
  const loss = lossFor(model, "auto", r.step.pass.loss, facts);
  return { ...r, model, step: { ...r.step, pass: { ...r.step.pass, seeds: null, loss } } };
}

function train(name: string, checkpointing = false): string[] {
  const r = rigged(name, checkpointing);
  const losses = Array.from({ length: STEPS }, (_, i) =>
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = cases[name].batch();
      manualSeed(BigInt(2000 + i));
      return bits(run(r, [batch], { number: i, lr: 1e-2 }).loss);
    }));
  r.model.root.free();
  return losses;
}

for (const name of Object.keys(cases)) train(name); // what is opened once is opened here, and is no test's leak

for (
  const [name, what] of [
    ["judged", "a loss in a dict, with a weight of its own and targets that are worked on first,"],
    ["language", "a loss beside logits in a tuple"],
    ["vae", "a loss against the input, with noise,"],
    ["alone", "a forward that gives its loss alone"],
  ]
) {
  Deno.test(`${what} has PyTorch's bits for ${STEPS} steps`, () => {
    assertEquals(train(name), answers[name]);
  });
}

Deno.test("a graph with its own loss is cut into blocks, and trains to the same bits when they are computed twice", () => {
  // Without dropout's second draw: this one's blocks hold none behind the first.
  const model = opened("judged");
  assert(model.blocks.length >= 2, `${model.blocks.length} blocks`);
  const names = model.blocks.map(({ module }) => module?.namedParameters().map(([key]) => key) ?? []);
  assert(names.at(-1)!.includes("heat")); // used in the loss, so it is whole when the last block's backward is
  model.root.free();
  assertEquals(train("language", true), answers.language);
  assertEquals(train("alone", true), answers.alone);
});

Deno.test("gradients that are sent block by block are those of one graph, those of the loss's own weight too", () => {
  const [whole, parts] = [straight, segmented].map((way) => {
    const { model, arena, step: { pass } } = rigged("judged");
    const found = scope(() => {
      manualSeed(3n);
      const { input, target } = cases.judged.batch();
      manualSeed(4n);
      const { loss } = way(pass, input, target, null, null);
      takeGradients(arena);
      const gradients = model.root.namedParameters().map((
        [name],
        i,
      ) => [name, ...toNumbers(arena.gradients[i])]);
      return [["loss", loss.item()], ...gradients];
    });
    model.root.free();
    return found;
  });
  assertEquals(parts, whole);
  assert(whole.every((values) => values.slice(1).some((value) => value !== 0)));
});

Deno.test("a step of a loss in the graph leaves no tensor behind, and neither does a prediction without it", () => {
  for (const name of ["judged", "vae", "alone"]) {
    const r = rigged(name);
    const once = () => scope(() => void run(r, [cases[name].batch()]));
    const predicted = () => scope(() => noGrad(() => void forward(r.model, row())));
    once();
    const before = liveTensors();
    once();
    assertEquals(liveTensors(), before, name);
    for (let i = 0; i < 3; i++) predicted();
    once();
    assertEquals(liveTensors(), before, `${name}, after predictions`);
    r.model.root.free();
  }
});

Deno.test("in evaluation the loss in the graph is that of evaluation: nothing is dropped", () => {
  const r = rigged("judged");
  r.model.root.train(false);
  const values = [1n, 2n].map((seed) =>
    scope(() =>
      noGrad(() => {
        manualSeed(9n);
        const { input, target } = cases.judged.batch();
        manualSeed(seed);
        const output = forward(r.model, input) as Tensor;
        return r.step.pass.loss.apply(output, target).item();
      })
    )
  );
  assertEquals(values[0], values[1]);
  r.model.root.free();
});

Deno.test("what evaluation draws depends on the seed and the sample alone, whatever the batch", () => {
  const model = exportedModel(join(folder, "latent.pt2"));
  model.root.train(false);
  manualSeed(9n);
  const x = scope(() => keep(randn([8, 6])));
  const predicted = (seed: number, ...sizes: number[]): number[] => {
    let from = 0;
    return sizes.flatMap((size) =>
      scope(() =>
        noGrad(() => {
          model.drawFor!(seed, Int32Array.from({ length: size }, (_, i) => 100 + from + i));
          from += size;
          return [...toNumbers(forward(model, narrow(x, 0, from - size, size)) as Tensor)];
        })
      )
    );
  };
  const whole = predicted(1, 8),
    far = (other: number[]) => Math.max(...other.map((n, i) => Math.abs(n - whole[i])));
  for (const sizes of [[8], [3, 5], [1, 1, 1, 1, 1, 1, 1, 1]]) {
    assert(far(predicted(1, ...sizes)) < 1e-5, `${sizes}`);
  }
  assert(far(predicted(2, 8)) > 0.1, "another seed draws others");
  const samples = Array.from({ length: 8 }, (_, i) => whole.slice(3 * i, 3 * i + 3).join());
  assertEquals(new Set(samples).size, 8);
  assertEquals(model.warnings.length, 5);
  assertSentence("core/models/exported/judged: predictions depend seed", model.warnings[0]);
  x.free();
  model.root.free();
});

Deno.test("a loss that alone draws is the same in every evaluation, and nothing is warned of", () => {
  const r = rigged("noisy");
  assertEquals([r.model.warnings, r.model.drawing], [[], []]);
  r.model.root.train(false);
  const judged = (seed: bigint) =>
    scope(() =>
      noGrad(() => {
        manualSeed(9n);
        const { input, target } = cases.noisy.batch();
        manualSeed(seed);
        r.model.drawFor!(1, Int32Array.from({ length: 8 }, (_, i) => i));
        return r.step.pass.loss.apply(forward(r.model, input) as Tensor, target).item();
      })
    );
  assertEquals(judged(1n), judged(2n));
  r.model.root.free();
});

Deno.test("--loss takes another loss over the prediction, and graph only where there is one", () => {
  const plain = createLoss(settings().training, classes);
  const model = opened("judged"), alone = opened("alone");
  assertEquals(lossFor(model, "auto", plain, classes).name, "graph");
  assertEquals(lossFor(model, "graph", plain, classes).name, "graph");
  assertEquals(lossFor(model, "cross_entropy", plain, classes), plain);
  assertSentence("core/models/exported/judged: graph loss own", model.describe());
  const nothing = assertThrows(() => lossFor(alone, "cross_entropy", plain, classes), UserError);
  assertSentence("core/models/exported/judged: forward gives loss", nothing.message);
  const none = assertThrows(
    () => lossFor({ ...model, loss: null } as ExportedModel, "graph", plain, classes),
    UserError,
  );
  assertSentence("core/models/exported/judged: loss graph takes", none.message);
  for (const { root } of [model, alone]) root.free();
});

Deno.test("a prediction that hangs on the targets, and a loss of many numbers, are refused in a sentence", () => {
  const said = (name: string) => assertThrows(() => opened(name), UserError).message;
  assertStringIncludes(said("teacher"), "its output logits depends on the targets (labels)");
  assertSentence("core/models/exported/judged: output loss dimensions", said("each"));
});

Deno.test("a decoder that shifts its labels is told which input to take, and with that it is opened", () => {
  const { message } = assertThrows(() => exportedModel(join(folder, "shifted.pt2")), UserError);
  assertStringIncludes(message, "its output logits depends on the targets (labels)");
  assertStringIncludes(message, "export it with decoder_input_ids beside labels");
  const fed = exportedModel(join(folder, "fed.pt2"), {
    inputs: ["input_ids=a", "decoder_input_ids=b", "labels=targets"],
  });
  assertEquals([fed.inputs.map(({ name }) => name), fed.labels], [
    ["input_ids", "decoder_input_ids"],
    "labels",
  ]);
  fed.root.free();
});

Deno.test("targets that the graph's loss can't take are refused with both shapes", () => {
  const r = rigged("alone");
  const error = assertThrows(
    () => scope(() => void run(r, [{ input: row(), target: randn([8, 4]) }])),
    UserError,
  );
  assertSentence("core/models/exported/judged: input labels takes", error.message);
  r.model.root.free();
});
