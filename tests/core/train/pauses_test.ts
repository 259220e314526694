// A step that is left between two micro-batches: nothing of it stays, and the run that goes on ends with the bits of one that
// was not stopped. Of several ranks: tests/integration/stops_in_steps_test.ts.
import { assert, assertEquals } from "@std/assert";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { pausesIn } from "../../../core/train/pauses.ts";
import { setThreads } from "../../../ffi/context.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, started, trained } from "./started.ts";

setThreads(1);

const flags = (text: string) => text.split(" ");
const SMALL =
  "--train-samples 70 --val-samples 20 --batch-size 4 --grad-accum 4 --scheduler constant --epochs 2";

/** Stops when the run has looked so often whether it should; gives the steps it had done, and its checkpoint. */
const stopped = (folder: string, settings: string, looks: number) =>
  started(folder, flags(settings), async (run) => {
    const { paths: places } = run;
    let left = looks;
    const requests = { ...run.requests, stop: () => --left <= 0 ? "the test" : null };
    const ending = await trainLoop({ ...run, requests });
    assertEquals(ending, { outcome: "Stopped on request (the test)", stopped: true, byHand: false });
    return { step: run.cursor.step, looked: looks - left, path: latestPath(places) };
  });

/** One look before the first step; four in each: between its four micro-batches, and after it. */
const INSIDE = [2, 4, 5, 1 + 2 * 4 + 2, 1 + 3 * 4 + 3];

for (
  const [title, settings] of [
    ["mlp with dropout and averages", "--data-type synthetic --model mlp --dropout 0.2 --ema 0.9"],
    [
      "a model with running statistics",
      "--data-type synthetic --model cosmo-cnn --set model.width=4 --dropout 0",
    ],
    [
      "gpt in virtual shards",
      "--model gpt --layers 1 --embed 16 --heads 2 --context 12 --deterministic=world",
    ],
  ]
) {
  Deno.test(
    `${title}: stopped between micro-batches and resumed, it ends with the same bits and tells the same of its epochs`,
    inFolder(async (folder) => {
      const all = `${settings} ${SMALL}`;
      const whole = await trained(`${folder}/whole`, flags(all));
      const bits = (path: string) =>
        new Map([...contents(path)].filter(([place]) => !/^\/config|\/run$/.test(place)));
      const epochs = ({ events }: Awaited<ReturnType<typeof trained>>) =>
        events.filter(({ kind }) => kind === "epoch").map(({ epoch, step, loss, metrics, val_loss }) => ({
          epoch,
          step,
          loss,
          metrics,
          val_loss,
        }));
      const inside = settings.includes("world") ? [3, 40] : INSIDE;
      for (const looks of inside) {
        const at = `${folder}/${looks}`;
        const first = await stopped(at, all, looks);
        assertEquals(first.looked, looks, "a stop that was heard is looked for no more");
        if (!settings.includes("world")) assertEquals(first.step, Math.floor((looks - 1) / 4), "whole steps");
        const rest = await trained(at, flags(all), first.path);
        assertEquals(bits(rest.path), bits(whole.path), `after ${looks} looks`);
        assertEquals(epochs(rest), epochs(whole).slice(-epochs(rest).length));
      }
    }),
  );
}

Deno.test(
  "a request that came before the first step is heard before it",
  inFolder(async (folder) => {
    const { step, path } = await stopped(folder, `--data-type synthetic ${SMALL}`, 1);
    assertEquals(step, 0);
    const whole = await trained(`${folder}/whole`, flags(`--data-type synthetic ${SMALL}`));
    const rest = await trained(folder, flags(`--data-type synthetic ${SMALL}`), path);
    assertEquals(rest.events.filter(({ kind }) => kind === "step").length, 10);
    assertEquals(contents(rest.path).get("/loss"), contents(whole.path).get("/loss"));
  }),
);

Deno.test("a step has as many places on every rank, and one fewer than micro-batches", () => {
  const plan = { micro: 4, accumulation: 3, global: 24, stepsPerEpoch: 1, note: "" };
  assertEquals(pausesIn(plan, null), 2);
  const shards = (from: number, to: number) =>
    ({ count: 8, own: { from, to } }) as Parameters<typeof pausesIn>[1];
  assertEquals(pausesIn(plan, shards(0, 8)), 7);
  assertEquals([pausesIn(plan, shards(0, 4)), pausesIn(plan, shards(4, 8))], [3, 3]);
  assert(pausesIn({ ...plan, accumulation: 1 }, null) === 0);
});
