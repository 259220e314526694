// One run of the track benchmark: trains, and tells of its steps for a while, then not, in turn. The last line of its
// output is what each turn took. Arguments: the seconds to train, then flags of `hpctrain train`.
import { resolveSettings } from "../core/settings/resolve.ts";
import { loadDataReader } from "../core/data/open/open.ts";
import { readEvents } from "../core/run/event_log.ts";
import { trainLoop } from "../core/train/loop.ts";
import { openTrainer } from "../core/train/trainer.ts";
import { OUTPUTS } from "../core/outputs/outputs.ts";
import { checkLibtorch, isLibtorch } from "../ffi/libraries/find.ts";
import { openLibtorch } from "../ffi/library.ts";
import { stolenSoFar } from "./contestant.ts";
import { type Spent, type Turn, turnsOf, type Worked } from "./track.ts";

/** Milliseconds of a turn, and those at its beginning that are not counted: the last one's lines are still being written. */
const TURN_MS = 160, SETTLE_MS = 60;
/** Before the first turn that counts: code is compiled, memory is found. */
const WARM_UP_MS = 3000;
const NEVER = 1_000_000;

const [seconds, ...flags] = Deno.args;
const { config } = resolveSettings({ argv: flags, env: {} });
const found = checkLibtorch(Deno.env.get("HPCTRAIN_LIBTORCH")!, "HPCTRAIN_LIBTORCH");
if (!isLibtorch(found)) throw new Error(found.reason);
openLibtorch(found);
await loadDataReader(config.data);
const start = { config, preset: null, device: "cpu", libtorch: found, resume: null, loaders: 0 } as const;
const run = await openTrainer({ ...start, notes: [], outputs: OUTPUTS });

const turns: Turn[] = [];
const training = run.config.training as { log_interval: number; max_steps: number };
const { cursor, flops: { before } } = run, asked = training.log_interval;
const began = performance.now(), last = began + WARM_UP_MS + 1000 * Number(seconds);
let at = began, epoch = -1;
let from: (Spent & { step: number; host: ReturnType<typeof stolenSoFar> }) | null = null;
/** The next turn begins here. */
const turn = () => {
  at = performance.now();
  from = null;
  training.log_interval = turnsOf(turns.length) ? asked : NEVER;
};
turn();
Object.assign(run, {
  flops: {
    ...run.flops,
    before(rows: number) { // each step calls it
      before(rows);
      const ms = performance.now();
      if (cursor.epoch !== epoch || ms - began < WARM_UP_MS) { // an evaluation and a save are no part of a turn
        epoch = cursor.epoch;
        turns.length -= turns.length % 4;
        turn();
      } else if (from === null) {
        if (ms - at >= SETTLE_MS) from = { ...now(), step: cursor.step, host: stolenSoFar() };
      } else if (ms - at >= TURN_MS) {
        const spent = spentUntil(from);
        turns.push({
          told: turnsOf(turns.length),
          steps: cursor.step - from.step,
          ...spent,
          taken: share(from.host),
        });
        if (ms > last && turns.length % 4 === 0) training.max_steps = cursor.step + 1;
        turn();
      }
    },
  },
});

function share(before: ReturnType<typeof stolenSoFar>): number {
  const after = stolenSoFar();
  return (after.others - before.others) / Math.max(after.asked - before.asked, 1);
}

function now(): Spent {
  const all = [...Deno.readDirSync("/proc/self/task")].map(({ name }) => `/proc/self/task/${name}`);
  const cpu = all.reduce((sum, path) => sum + cpuOf(path), 0);
  return { cpu, own: cpuOf("/proc/thread-self"), wall: performance.now() / 1000 };
}

function spentUntil({ wall, own, cpu }: Spent): Spent {
  const end = now();
  return { wall: end.wall - wall, own: end.own - own, cpu: end.cpu - cpu };
}

/** Seconds of processor time of a thread: the first number of its schedstat, in nanoseconds. */
function cpuOf(thread: string): number {
  try {
    return Number(Deno.readTextFileSync(`${thread}/schedstat`).split(" ")[0]) / 1e9;
  } catch {
    return 0; // a thread that has ended
  }
}

await trainLoop(run);
await run.saver.close();
run.feed.close();
run.console.close();
run.requests.close();
await run.events.close();
const events = `${run.paths.logs}/events.jsonl`;
const lines = readEvents(events).filter(({ kind }) => kind === "step").length;
const worked: Worked = {
  turns: turns.slice(0, turns.length - turns.length % 4),
  covered: lines * asked,
  bytes: Deno.statSync(events).size,
};
console.log(JSON.stringify(worked));
Deno.exit(0);
