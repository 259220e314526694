// Where a request to stop meets an evaluation: no place is passed without a look at it, and none is looked at in vain.
import { assertEquals, assertRejects } from "@std/assert";
import type { Control } from "../../../core/ranks/control/control.ts";
import { openEventLoopTurn } from "../../../core/train/pauses.ts";
import { evaluateEpoch, EvaluationAborted, reportEpoch } from "../../../core/train/epoch_end.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import type { Spent } from "../../../core/run/account.ts";
import { setThreads } from "../../../ffi/context.ts";
import { inFolder } from "../checkpoint/python.ts";
import { oneOfMany } from "./one_of_many.ts";
import { contents, eventsIn, started, trained } from "./started.ts";

setThreads(1);

/** 9 steps an epoch, and an evaluation of three batches. */
const FLAGS =
  ("--data-type synthetic --model mlp --hidden-size 16 --dropout 0.2 --scheduler constant --epochs 2 " +
    "--train-samples 70 --val-samples 20 --batch-size 8").split(" ");
const STEPS = 9, PLACES = 3;
const WHY = "the test";

/** The run is asked to stop as soon as the last batch of an evaluation is read, and not before. */
function askedAtLastBatch(run: Trainer, evaluation = 1): Trainer {
  const val = run.data.val!;
  let last = false, evaluations = 0;
  const raw: typeof val.raw = (part) => {
    if (part.ids.includes(val.length - 1)) last = ++evaluations >= evaluation;
    return val.raw(part);
  };
  return {
    ...run,
    data: { ...run.data, val: { ...val, raw } },
    requests: { ...run.requests, stop: () => last ? WHY : null },
  };
}

const bits = (path: string) =>
  new Map([...contents(path)].filter(([place]) => !/^\/config|\/run$/.test(place)));

for (const many of [false, true]) {
  const rest = many ? "there and resumed by it" : "after the epoch's save and resumed in the next epoch";
  Deno.test(
    `${
      many ? "ranks" : "one rank"
    }: a stop asked for at an evaluation's last batch is made ${rest}, with the same bits`,
    inFolder(async (folder) => {
      const whole = await trained(`${folder}/whole`, FLAGS);
      const first = await started(`${folder}/parts`, FLAGS, async (prepared) => {
        const run = prepared, { paths: places } = run;
        const ending = await trainLoop(askedAtLastBatch({ ...run, ranks: many ? oneOfMany(run) : null }));
        const kinds = (await eventsIn(prepared)).map(({ kind }) => kind);
        return { ending, cursor: run.cursor, kinds, path: latestPath(places) };
      });
      assertEquals(first.ending, { outcome: `Stopped on request (${WHY})`, stopped: true, byHand: false });
      // Ranks agree within the evaluation, so what it comes to is nobody's; one rank alone may end it.
      assertEquals(first.cursor.step, STEPS);
      assertEquals([first.cursor.epoch, first.cursor.stepInEpoch], many ? [0, STEPS] : [1, 0]);
      assertEquals([first.kinds.includes("eval"), first.kinds.includes("epoch")], [!many, !many]);
      const second = await trained(`${folder}/parts`, FLAGS, first.path);
      assertEquals(second.events.filter(({ kind }) => kind === "eval").length, many ? 2 : 1);
      assertEquals(bits(second.path), bits(whole.path));
    }),
  );
}

Deno.test(
  "a stop asked for at the end of an epoch without a save of its own is made after a save",
  inFolder((folder) =>
    started(folder, [...FLAGS, "--epochs=3", "--save-interval=3ep", "--lr=0"], async (run) => {
      const ending = await trainLoop(askedAtLastBatch(run, 2)); // no weights are better than those after the first epoch
      assertEquals([ending.stopped, run.cursor.epoch, run.cursor.stepInEpoch], [true, 2, 0]);
      assertEquals(contents(latestPath(run.paths)).get("/epoch"), "2");
    })
  ),
);

Deno.test(
  "an epoch tells of all ranks' bad samples",
  inFolder((folder) =>
    started(folder, [...FLAGS, "--bad-samples=skip"], async (run) => {
      const ranks = oneOfMany(run), feed = { ...run.feed, skipped: () => 2 };
      const reduce = ([own]: readonly number[]) => [own + 3];
      const both = { ...run, feed, ranks: { ...ranks, team: { ...ranks.team, reduce } } };
      const trained = { loss: 1, metrics: {}, worst: null };
      reportEpoch(both, 0, trained, null, { rate: 0, pace: null }, { seconds: 1, spent: {} as Spent });
      const epoch = (await eventsIn(run)).find(({ kind }) => kind === "epoch");
      assertEquals(epoch!.bad_samples, 5);
    })
  ),
);

/** Evaluates as rank `rank` of two, whose team must not meet after a stop. */
function asRank(folder: string, rank: number, control: Partial<Control>, change: Partial<Trainer> = {}) {
  return started(folder, FLAGS, async (run) => {
    const ranks = oneOfMany(run, control);
    let met = 0;
    const team = { ...ranks.team, rank, world: 2, reduce: (v: readonly number[]) => (met++, [...v]) };
    const both = { ...run, ...change, ranks: { ...ranks, team, shareBuffers() {} } };
    return { result: await evaluateEpoch(both, 0, openEventLoopTurn(), true), met };
  });
}

for (const rank of [0, 1]) {
  Deno.test(
    `rank ${rank} of two leaves an evaluation at the last place, though rank 1 has no batch there`,
    inFolder(async (folder) => {
      let places = 0;
      const last = Math.ceil(PLACES / 2);
      const here = () => ++places === last ? { what: "stop" as const, reason: WHY, at: last } : null;
      const { result, met } = await asRank(folder, rank, { agreed: here });
      assertEquals(result, new EvaluationAborted(WHY));
      assertEquals([places, met], [last, 0], "no place is left out, and nobody meets after it");
    }),
  );
}

Deno.test(
  "a rank that waits for data leaves an evaluation that all leave, and no other",
  inFolder(async (folder) => {
    const evaluated = (places: number) => {
      let waits = 0;
      const never = {
        begin() {},
        queued() {},
        ahead() {},
        take: () => null,
        ready() {
          if (++waits > 3) throw new Error("it still waits");
          return false;
        },
      };
      const ahead = () => ({ what: "stop" as const, reason: WHY, places });
      const feed = { of: () => never, waited: () => 0, skipped: () => 0, close() {} };
      return asRank(`${folder}/${places}`, 0, { agreed: () => null, ahead }, { feed });
    };
    const { result } = await evaluated(Math.ceil(PLACES / 2));
    assertEquals(result, new EvaluationAborted(WHY));
    await assertRejects(() => evaluated(Math.ceil(PLACES / 2) + 1), Error, "it still waits");
  }),
);
