// Where a run's time goes, whatever is slow in it, and how much of it is left.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { type Spent, TIME_PARTS } from "../../../core/run/account.ts";
import type { StepState } from "../../../core/run/live_line.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { exit } from "../../../core/train/summary.ts";
import { setThreads } from "../../../ffi/context.ts";
import { inFolder } from "../checkpoint/python.ts";
import { eventsIn, started } from "./started.ts";

setThreads(1);

const FLAGS =
  ("--data-type synthetic --model mlp --hidden-size 16 --scheduler constant --epochs 2 --train-samples 48 " +
    "--val-samples 8 --batch-size 8").split(" ");
const STEPS = 12, SLOW_MS = 25;

const sleep = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Runs it, changed, and gives its last event and all its events about time. */
function accountOf(folder: string, change: (run: Trainer) => Partial<Trainer>, more: readonly string[] = []) {
  return started(folder, [...FLAGS, ...more], async (prepared) => {
    const run = { ...prepared, ...change(prepared) };
    const began = performance.now();
    await trainLoop(run);
    const spent = exit(run, 0, "Finished");
    const wall = (performance.now() - began) / 1000;
    const events = await eventsIn(prepared);
    const times = events.filter(({ kind }) => kind === "times"), last = events.at(-1)!;
    return { wall, spent, times, last, epochs: events.filter(({ kind }) => kind === "epoch") };
  });
}

type Line = { readonly [field: string]: any };

const sum = (spent: Line) => TIME_PARTS.reduce((all, name) => all + spent[`${name}_s`], 0);

const SLOW: Readonly<Record<string, [part: keyof Spent, least: number, (run: Trainer) => Partial<Trainer>]>> =
  {
    "a slow loader": ["data_s", STEPS * SLOW_MS, ({ data, data: { train } }) => ({
      data: { ...data, train: { ...train, raw: (part) => (sleep(SLOW_MS), train.raw(part)) } },
    })],
    "a slow save": ["save_s", 2 * 4 * SLOW_MS, ({ saver }) => ({
      saver: { ...saver, save: (reason, better) => (sleep(4 * SLOW_MS), saver.save(reason, better)) },
    })],
    "slow validation data": ["evaluation_s", 2 * SLOW_MS, ({ data, data: { val } }) => ({
      data: { ...data, val: { ...val!, raw: (part) => (sleep(SLOW_MS), val!.raw(part)) } },
    })],
    "what stands between steps": ["rest_s", STEPS * SLOW_MS, ({ lineage }) => ({
      lineage: { ...lineage, stepped: (step) => (sleep(SLOW_MS), lineage.stepped(step)) },
    })],
    "a slow optimizer": ["optimizer_s", STEPS * SLOW_MS, ({ optimizer }) => ({
      optimizer: { ...optimizer, step: (lr) => (sleep(SLOW_MS), optimizer.step(lr)) },
    })],
  };

for (const [what, [part, least, change]] of Object.entries(SLOW)) {
  Deno.test(
    `with ${what} the account is closed, and the time stands where it went`,
    inFolder(async (folder) => {
      const { wall, spent, times, last, epochs } = await accountOf(folder, change);
      assertAlmostEquals(sum(last), last.seconds, 1e-5, "the run's end");
      assert(last.seconds >= wall - 0.01, `${last.seconds} s of ${wall} s`);
      for (const event of [...times, ...epochs]) {
        assertAlmostEquals(sum(event), event.seconds, 1e-5);
        for (const name of TIME_PARTS) assert(event[`${name}_s`] >= 0);
      }
      assertAlmostEquals(
        times.reduce((all, { seconds }) => all + seconds, 0),
        last.seconds,
        0.01,
        "all events",
      );
      assertAlmostEquals(spent.seconds, last.seconds, 1e-9);
      assert(last[part] >= least / 1000 - 0.01, `${part}: ${last[part]} s of ${least} ms`);
      if (part !== "data_s") {
        assert(last.data_s < SLOW_MS * 0.008, `an evaluation's data is its own: ${last.data_s}`);
      }
    }),
  );
}

Deno.test(
  "the time left is that of the steps that are to come: --max-steps count",
  inFolder(async (folder) => {
    const seen: StepState[] = [];
    const change = ({ console, data, data: { train } }: Trainer): Partial<Trainer> => ({
      console: { ...console, progress: (state) => void seen.push(state) },
      data: { ...data, train: { ...train, raw: (part) => (sleep(4 * SLOW_MS), train.raw(part)) } },
    });
    await accountOf(folder, change, ["--epochs=100000", "--max-steps=5"]);
    const left = seen.flatMap(({ secondsLeft }) => secondsLeft ?? []);
    assert(left.length >= 2, `${seen.length} lines`);
    assert(left[0] < 5 && left.at(-1)! < left[0], `${left}`);
  }),
);

Deno.test(
  "a run that is shorter than --log-interval is written down all the same, to its last step",
  inFolder(async (folder) => {
    const steps = (...flags: string[]) =>
      started(`${folder}/${flags.join("")}`, [...FLAGS, "--log-interval=100", ...flags], async (prepared) => {
        await trainLoop(prepared);
        return (await eventsIn(prepared)).filter(({ kind }) => kind === "step").map(({ step }) => step);
      });
    assertEquals(await steps("--max-steps=3"), [1, 2, 3]);
    assertEquals(await steps(), Array.from({ length: STEPS }, (_, i) => i + 1));
  }),
);
