// Taking a model further: another head, frozen parameters, learning rates by pattern and by depth, adapters.
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { field, tensorBytes, TensorData } from "../../../core/checkpoint/value.ts";
import { weightsOf } from "../../../core/checkpoint/weights.ts";
import { forward } from "../../../core/models/model.ts";
import { optimizersThat } from "../../../core/train/optimizers.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { setThreads } from "../../../ffi/context.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { toNumbers, zeros } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, started, trained } from "./started.ts";
import { assertSentence } from "../../sentences.ts";

setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const flags = (text: string) => text.split(" ").filter(Boolean);
const CNN =
  "--data-type synthetic --model cosmo-cnn --width 4 --set model.image_size=16 --train-samples 70 " +
  "--val-samples 20 --batch-size 8 --scheduler constant --epochs 2 --lr 1e-2 ";
const GPT =
  "--model gpt --layers 3 --embed 16 --heads 2 --context 12 --dropout 0 --train-samples 70 --val-samples 20 " +
  "--batch-size 8 --scheduler constant --epochs 2 --lr 1e-2 ";

type Weights = Map<string, number[]>;

/** Weights and running statistics of a checkpoint. */
function weightsIn(path: string): Weights {
  using file = openCheckpoint(path);
  const all = field(file.root, "model_state_dict") as Map<string, TensorData>;
  const floats = [...all].filter(([, t]) => t.dtype === "f32");
  return new Map(floats.map(([name, t]) => [name, numbersOf(t)]));
}

const numbersOf = (t: TensorData): number[] => [...new Float32Array(tensorBytes(t).slice().buffer)];

const far = (a: readonly number[], b: readonly number[]) =>
  a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);

/** A checkpoint to take further, with two outputs. */
const first = async (folder: string, what = CNN) =>
  (await trained(`${folder}/first`, flags(`${what}--max-steps 3`))).path;

/** What a run has in common with another one of the same training: one that ends more often is judged more often. */
function comparable(path: string): Map<string, string> {
  const found = contents(path);
  for (const place of found.keys()) {
    if (/^\/config|\/run$|\/best\/|\/judged\//.test(place)) found.delete(place);
  }
  return found;
}

Deno.test(
  "with another head what fits is taken, what does not is told, and a head of the file's shape is new all the same",
  inFolder(async (folder) => {
    const path = await first(folder), three = `${CNN}--loss gaussian_nll --init-from ${path} `;
    const error = await assertRejects(() => trained(folder, flags(three)), UserError);
    assertSentence("core/train/finetune: head weight file", error.message);
    assertStringIncludes(error.message, "--new-head trains a new head");
    for (const more of ["--new-head", "--new-head=head.2", "--loss mse --new-head"]) {
      await started(`${folder}/new`, flags(three + more), ({ model, notes }) => {
        const file = weightsIn(path);
        for (const [name, t] of model.root.stateDict()) {
          if (t.dtype !== "f32") continue;
          const same = JSON.stringify([...toNumbers(t)]) === JSON.stringify(file.get(name));
          assertEquals(same, !name.startsWith("head.2"), `${more}: ${name}`);
        }
        assertStringIncludes(notes.join("\n"), "The head is new (--new-head): head.2.weight is");
      });
    }
  }),
);

Deno.test(
  "frozen parameters stay as they are, statistics included, and have no gradient and no optimizer state",
  inFolder(async (folder) => {
    const path = await first(folder);
    const way = `${CNN}--loss gaussian_nll --init-from ${path} --new-head --freeze features `;
    const ends: Weights[] = [];
    for (const how of ["", "--gradient-checkpointing", "--clip-norm 100", "--compile=exact"]) {
      await started(`${folder}/${ends.length}`, flags(way + how), async (run) => {
        assertEquals(run.arena.names, ["head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias"]);
        assertEquals(run.pass.atRest, run.model.blocks.length - 1, "backward ends at the head");
        assertEquals(run.optimizer.slots.get("exp_avg")!.length, 4);
        assertStringIncludes(run.notes.join("\n"), "parameters, in 12 tensors of 16");
        await trainLoop(run);
        ends.push(weightsIn(latestPath(run.paths)));
      });
    }
    const before = weightsIn(path), [after] = ends;
    for (const [name, values] of after) {
      const still = far(values, before.get(name)!) === 0;
      assertEquals(still, name.startsWith("features"), name);
    }
    for (const [i, other] of ends.entries()) assertEquals(other, after, `way ${i}`);
  }),
);

Deno.test(
  "rates by pattern and by depth: a parameter's first update is so many times the ordinary one",
  inFolder(async (folder) => {
    const path = await first(folder, GPT), one = `${GPT}--init-from ${path} --max-steps 1 `;
    for (const optimizer of optimizersThat(({ perElement }) => perElement)) {
      const end = async (name: string, more: string) =>
        weightsIn((await trained(`${folder}/${name}`, flags(`${one}--optimizer ${optimizer} ${more}`))).path);
      const start = weightsIn(path), plain = await end("plain", "");
      const depth = await end("depth", "--layer-decay 0.5 --lr-for transformer.ln_f=2e-2");
      const expected = (name: string) => {
        const layer = /\.h\.(\d)\./.exec(name)?.[1]; // blocks: embedding, 3 layers, head
        return name.includes("ln_f") ? 2 : 0.5 ** (layer === undefined ? 4 : 3 - Number(layer));
      };
      for (const [name, values] of start) {
        const moved = (to: Weights) => to.get(name)!.map((value, i) => value - values[i]);
        const [own, ordinary] = [moved(depth), moved(plain)];
        const wanted = ordinary.map((value) => value * expected(name));
        assert(far(own, wanted) < 3e-7, `${optimizer} ${name}: ${far(own, wanted)}`);
      }
    }
  }),
);

for (
  const [title, what, more] of [
    ["frozen for an epoch", CNN, "--freeze features --freeze-until 1 --lr-for head=3e-2 --ema 0.9"],
    [
      "frozen for an epoch, with sgd, accumulation and rates by depth",
      CNN,
      "--freeze features.[0-2]* --freeze-until 1 --optimizer sgd --grad-accum 2 --layer-decay 0.7",
    ],
    ["frozen for good, clipped", GPT, "--freeze transformer.h.[01]* --clip-norm 0.5 --lr-for *.bias=1e-3"],
    ["adapters with dropout", GPT, "--lora-rank 2 --lora-dropout 0.1 --gradient-checkpointing"],
    ["adapters, compiled", GPT, "--lora-rank 2 --compile=exact"],
  ]
) {
  Deno.test(
    `${title}: 5 steps, 6 more and 3 more are 14 steps at once, to the last bit`,
    inFolder(async (folder) => {
      const path = await first(folder, what), way = `${what}${more} --init-from ${path} --epochs 2`;
      const steps = more.includes("accum") ? [3, 6, 9] : [5, 11, 14];
      const run = (name: string, most: number, from?: string) =>
        trained(`${folder}/${name}`, flags(`${way} --max-steps ${most}`), from);
      const whole = await run("whole", steps[2]);
      let parts = await run("parts", steps[0]);
      for (const most of steps.slice(1)) parts = await run(`to-${most}`, most, parts.path);
      assertEquals(comparable(parts.path), comparable(whole.path));
    }),
  );
}

Deno.test(
  "what waits for an epoch stays until then, and learns afterwards with a count of steps of its own",
  inFolder(async (folder) => {
    const path = await first(folder), way = `${CNN}--init-from ${path} --freeze features --freeze-until 1 `;
    const before = weightsIn(path);
    const early = await trained(`${folder}/a`, flags(`${way}--max-steps 9`));
    const late = await trained(`${folder}/a`, flags(`${way}--max-steps 12`), early.path);
    for (const [name, values] of weightsIn(early.path)) {
      assertEquals(far(values, before.get(name)!) === 0, name.startsWith("features"), name);
    }
    for (const [name, values] of weightsIn(late.path)) assert(far(values, before.get(name)!) > 0, name);
    const steps = [...contents(late.path)].filter(([place]) => place.endsWith("/step"));
    assertEquals(new Set(steps.slice(0, 16).map(([, digest]) => digest)).size, 2, "3 steps and 12");
  }),
);

Deno.test(
  "adapters train beside weights that stay; export and --init-from merge them, and the answers stay the same",
  inFolder(async (folder) => {
    const path = await first(folder, GPT), way = `${GPT}--init-from ${path} --lora-rank 2 --max-steps 4 `;
    const answers = ({ model }: Trainer) => {
      model.root.train(false);
      return scope(() => [...toNumbers(noGrad(() =>
        forward(model, zeros([1, 12], { dtype: "i64" }))
      ) as Tensor)]);
    };
    let own: number[] = [];
    const adapted = await started(`${folder}/a`, flags(way), async (run) => {
      await trainLoop(run);
      assert(run.arena.names.every((name) => /\.lora_[AB]\.weight$/.test(name)), run.arena.names.join());
      assertEquals(run.arena.names.length, 2 * 3 * 4);
      own = answers(run);
      return latestPath(run.paths);
    });
    const before = weightsIn(path), after = weightsIn(adapted);
    for (const [name, values] of before) assertEquals(after.get(name), values, name);
    await started(`${folder}/b`, flags(`${GPT}--init-from ${adapted}`), (run) => {
      assert(far(answers(run), own) < 1e-5, String(far(answers(run), own)));
    });
    using file = openCheckpoint(adapted);
    const { tensors } = weightsOf(file.root, adapted, false);
    assertEquals([...tensors.keys()], [...before.keys()]);
    const layer = "transformer.h.0.mlp.c_fc.weight";
    assert(far(numbersOf(tensors.get(layer)!), before.get(layer)!) > 1e-4);
  }),
);

Deno.test(
  "a pattern that fits nothing, and what can't go together, are sentences",
  inFolder(async (folder) => {
    const path = await first(folder);
    const cases: [string, RegExp][] = [
      [
        "--freeze feature.*",
        /--freeze feature\.\* fits no parameter\. Did you mean "features"\? .* features, head\.$/,
      ],
      ["--freeze features[3-1]", /brackets take single characters or rising ranges/],
      ["--freeze features,head", /leaves nothing to train: .* \(--new-head\)\.$/],
      ["--freeze-until 2", /does not go together with no --freeze: say which/],
      ["--lr-for head", /takes PATTERN=RATE with a rate above 0, such as 'head\*=1e-3', but got "head"\.$/],
      ["--lr-for head=0", /what should not be trained is frozen with --freeze\.$/],
      ["--lr-for haed=1e-3", /--lr-for haed fits no parameter\. Did you mean "head"\?/],
      ["--lr-for head=1e-3 --lr 0", /needs a --lr above 0/],
      ["--lr-for head=1e-3 --optimizer lamb", /--optimizer lamb takes all weights together/],
      ["--new-head=haed", /--new-head haed fits no parameter\. Did you mean "head"\?/],
      [
        "--loss gaussian_nll --new-head=features.0",
        /--new-head leaves out features\.0 alone: name what else/,
      ],
      ["--lora-rank 2 --lora-for convs", /--lora-for convs fits no parameter/],
      ["--lora-rank 2 --freeze head --freeze-until 1", /does not go together with --lora-rank/],
    ];
    for (const [more, sentence] of cases) {
      const error = await assertRejects(
        () => trained(`${folder}/x`, flags(`${CNN}--init-from ${path} ${more}`)),
        UserError,
        undefined,
        more,
      );
      assert(sentence.test(error.message), `${more}: ${error.message}`);
    }
    const alone = await assertRejects(() => trained(`${folder}/y`, flags(`${GPT}--lora-rank 2`)), UserError);
    assertStringIncludes(alone.message, "name their file with --init-from");
  }),
);
