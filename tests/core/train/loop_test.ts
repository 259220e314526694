// Whole runs: resuming, averages, early stopping, and what a loss that is not a number does.
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { pathExists } from "../../../core/base/files.ts";
import { evaluate } from "../../../core/train/evaluate.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { bestPath, latestPath } from "../../../core/train/run_folder.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { setThreads } from "../../../ffi/context.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, eventsIn, started, type Trained, trained } from "./started.ts";
import { sentenceNamed } from "../../sentences.ts";

setThreads(1);

const flags = (text: string) => text.split(" ");
const SMALL = "--train-samples 70 --val-samples 20 --batch-size 8 --scheduler constant --epochs 2 ";
const MLP = SMALL + "--data-type synthetic --model mlp --hidden-size 16 --dropout 0.2 ";
const GPT = SMALL + "--model gpt --layers 2 --embed 16 --heads 2 --context 12 --dropout 0.1 ";

const told = ({ events }: Trained, kind: string) => events.filter((e) => e.kind === kind);

for (
  const [title, settings] of [
    ["mlp with dropout", MLP],
    [
      "mlp with sgd, averages and accumulation",
      MLP + "--optimizer sgd --ema 0.9 --batch-size 4 --grad-accum 2 ",
    ],
    ["gpt with dropout", GPT],
    [
      "gpt with dropout, gradient checkpointing and clipping",
      GPT + "--gradient-checkpointing --clip-norm 0.5 ",
    ],
    ["gpt with dropout in virtual shards", GPT + "--deterministic=world "],
  ]
) {
  Deno.test(
    `${title}: 5 steps, a checkpoint and 7 more are 12 steps at once, to the last bit`,
    inFolder(async (folder) => {
      const whole = await trained(`${folder}/whole`, flags(settings + "--max-steps 12 --epochs 3"));
      const first = await trained(`${folder}/parts`, flags(settings + "--max-steps 5 --epochs 3"));
      const rest = await trained(
        `${folder}/parts`,
        flags(settings + "--max-steps 12 --epochs 3"),
        first.path,
      );
      const ends = [whole, rest].map(({ path }) => contents(path));
      for (const end of ends) {
        for (const place of end.keys()) if (/^\/config|\/run$/.test(place)) end.delete(place);
      }
      assertEquals(ends[1], ends[0]);
      assertNotEquals(contents(first.path), contents(rest.path));
      // The epoch that was cut in two tells the same mean loss and metrics as the whole one.
      const epoch = (run: Trained) => told(run, "epoch")[0];
      for (const field of ["epoch", "step", "loss", "metrics", "val_loss", "val_metrics"]) {
        assertEquals(epoch(rest)[field], epoch(whole)[field], field);
      }
    }),
  );
}

Deno.test(
  "a global batch is the same training, whatever the micro-batch",
  inFolder(async (folder) => {
    const losses = async (micro: number) => {
      const more = `--global-batch-size 16 --batch-size ${micro} --dropout 0 --max-steps 9`;
      const run = await trained(`${folder}/${micro}`, flags(MLP + more));
      return told(run, "step").map(({ loss }) => loss as number);
    };
    const [whole, ...parts] = await Promise.all([16, 8, 5].map(losses));
    assertEquals(whole.length, 9);
    for (const part of parts) {
      part.forEach((loss, i) => assertAlmostEquals(loss / whole[i], 1, 1e-5, `step ${i + 1}`));
    }
  }),
);

/** Trains, and tells which samples were trained with. */
async function watched(run: Trainer): Promise<number[]> {
  const seen: number[] = [];
  const raw: Source["raw"] = (part) => {
    seen.push(...part.ids);
    return run.data.train.raw(part);
  };
  await trainLoop({ ...run, data: { ...run.data, train: { ...run.data.train, raw } } });
  return seen.sort((a, b) => a - b);
}
const EVERY = Array.from({ length: 70 }, (_, i) => i);

Deno.test(
  "every sample of an epoch is trained with once, a short last batch too",
  inFolder(async (folder) => {
    await started(folder, flags(MLP + "--epochs 1"), async (run) => {
      assertEquals(await watched(run), EVERY);
      assertEquals([run.cursor.samples, run.cursor.step, run.cursor.epoch], [70, 9, 1]);
    });
  }),
);

Deno.test(
  "a run that goes on with another batch size trains with what is left of the epoch",
  inFolder(async (folder) => {
    const part = (more: string, resume: string | null) =>
      started(`${folder}/${more}`, flags(MLP + more), async (run) => {
        const { paths: places } = run;
        const seen = await watched(run);
        return { seen, cursor: run.cursor, path: latestPath(places) };
      }, resume);
    const first = await part("--max-steps 4", null); // 32 samples
    const rest = await part("--epochs 1 --batch-size 4", first.path);
    assertEquals([...first.seen, ...rest.seen].sort((a, b) => a - b), EVERY);
    assertEquals([rest.cursor.samples, rest.cursor.step, rest.cursor.epoch], [70, 4 + 10, 1]);
    // No step of 10 begins at 32: two samples come again, and none is left out.
    const again = await part("--epochs 1 --batch-size 10", first.path);
    assertEquals(again.seen.length, 40);
    assertEquals([...new Set([...first.seen, ...again.seen])].sort((a, b) => a - b), EVERY);
    assertEquals(again.cursor.samples, 70);
  }),
);

Deno.test(
  "with --ema the averages are evaluated, and the trained weights go on",
  inFolder(async (folder) => {
    await started(folder, flags(MLP + "--ema 0.95 --lr 0.05"), async (run) => {
      await trainLoop(run);
      const valLoss = async () => (await evaluate(run.pass, run.data.val!, run.feed, 8, () => {})).valLoss;
      assertNotEquals(await valLoss(), run.cursor.valLoss);
      run.ema!.swap();
      assertEquals(await valLoss(), run.cursor.valLoss);
    });
  }),
);

Deno.test(
  "a run without progress stops when its patience is over, and says so",
  inFolder(async (folder) => {
    const run = await trained(folder, flags(MLP + "--lr 0 --early-stopping-patience 3 --epochs 50"));
    assertEquals(run.ending, {
      outcome: sentenceNamed("core/train/loop: stopped early better"),
      stopped: false,
      byHand: false,
    });
    assertEquals(told(run, "epoch").length, 4);
  }),
);

for (const [title, more] of [["", ""], [" whose gradients are clipped", " --clip-norm 1e9"]]) {
  Deno.test(
    `a loss that is no number any more ends a run${title} with the step and the first tensor`,
    inFolder(async (folder) => {
      await started(folder, flags(MLP + "--optimizer sgd --lr 1e6" + more), async (run) => {
        const error = await assertRejects(() => trainLoop(run), UserError);
        assertEquals(error.kind, "numerics");
        const [, loss, step, tensor] =
          /The loss became (\S+) at step (\d+) \(first tensor that is not finite: (.*?)\)/.exec(
            error.message,
          )!;
        assert(["NaN", "Infinity"].includes(loss), loss);
        assert(Number(step) > 1 && Number(step) <= run.cursor.step, step);
        assert(/^(the gradient of )?[024]\.(weight|bias)$/.test(tensor), tensor);
      });
    }),
  );
}

const DEEP = SMALL + "--data-type synthetic --model mlp --layers 9 --optimizer sgd ";

Deno.test(
  "a last step after which the validation loss is not finite ends the run with code 6, a warning and no best checkpoint",
  inFolder(async (folder) => {
    await started(folder, flags(DEEP + "--lr 9e5 --max-steps 1"), async (prepared) => {
      const error = await assertRejects(() => trainLoop(prepared), UserError);
      assertEquals([error.kind, error.exitCode], ["numerics", 6]);
      assertMatch(error.message, /^The validation loss is (Infinity|NaN) after the last step \(1\)/);
      assertMatch(error.message, /there is no best checkpoint/);
      const { paths: places } = prepared;
      assertEquals([pathExists(bestPath(places)), pathExists(latestPath(places))], [false, true]);
      assertEquals(prepared.cursor.best, null);
      const events = await eventsIn(prepared);
      assertEquals(events.filter(({ kind }) => kind === "warning").length, 1);
      assertEquals(events.some(({ reason }) => reason === "best"), false);
    });
  }),
);

Deno.test(
  "a best checkpoint stays as it was when a later epoch's validation loss is not finite",
  inFolder(async (folder) => {
    const first = await trained(folder, flags(DEEP + "--lr 1e-3 --epochs 1"));
    await started(folder, flags(DEEP + "--lr 9e5 --max-steps 10"), async (run) => {
      const { paths: places } = run;
      assertEquals(run.cursor.best?.epoch, 1);
      Deno.copyFileSync(first.path, bestPath(places));
      const before = contents(bestPath(places));
      const error = await assertRejects(() => trainLoop(run), UserError);
      assertMatch(error.message, /The best checkpoint is still that of epoch 1\./);
      assertEquals([contents(bestPath(places)), run.cursor.best?.epoch], [before, 1]);
    }, first.path);
  }),
);
