// A run that is killed again and again and resumed each time, beside the same run left alone. Test helper.
import { assertEquals } from "@std/assert";
import { basename, join } from "paths";
import { key, uniform } from "../../core/base/random.ts";
import { eventsOf, finish, start, succeed } from "./program.ts";
import { different, isThere, lookAt, type Moment, MOMENTS } from "./storm_checks.ts";

export interface Plan {
  /** The run. It saves often, and lasts for some of the kills. */
  readonly flags: readonly string[];
  readonly kills: number;
  /** Of the moments to kill at. */
  readonly seed: number;
  /** Hears of every kill. */
  readonly told?: (tally: Tally) => void;
  /** Whether it was enough: no more kills, and the run under way comes to its end. */
  readonly end?: () => boolean;
}

export interface Tally {
  readonly kills: Record<Moment, number>;
  /** Runs that were killed until they were finished, and compared with the one that was left alone. */
  runs: number;
  /** Saves that were reported as done, and checkpoints that were read back after a kill. */
  saves: number;
  read: number;
  /** What should not be, a sentence each: files, saves that were reported and are gone, ends of runs. */
  readonly unreadable: string[];
  readonly lost: string[];
  readonly different: string[];
}

const NAME = "r";
/** Seconds for a run that takes some; the machine may be busy. */
const PATIENCE = 900;

const SMALL = [
  ...[
    "--data-type=synthetic",
    "--model=mlp",
    "--hidden-size=256",
    "--train-samples=1600",
    "--val-samples=32",
  ],
  // Files are compared by their bytes, and a run's id at W&B is in them.
  ...["--batch-size=16", "--device=cpu", "--threads=1", "--wandb-id=storm"],
];

/**
 * Two runs of different parts, each of some seconds: long enough for a hundred kills. The first saves at all places of
 * an epoch, the second at each epoch's end twice: before its evaluation and after.
 */
export const STORMS = [
  {
    flags: [
      ...[...SMALL, "--epochs=40", "--save-interval=7steps", "--save-every-epoch", "--keep-last=2"],
      ...["--ema=0.9", "--dropout=0.1"],
    ],
    seed: 1,
  },
  {
    flags: [
      ...[...SMALL, "--epochs=80", "--save-interval=5steps"],
      ...["--optimizer=sgd", "--amp=bf16", "--grad-accum=2", "--clip-norm=1"],
    ],
    seed: 2,
  },
];

export const killsOf = ({ kills }: Tally): number => Object.values(kills).reduce((a, b) => a + b);

/** A run that is over before all kills are dealt is compared, and another begins. */
export async function storm(folder: string, plan: Plan): Promise<Tally> {
  const { flags, kills, seed, told, end } = plan;
  const args = [...flags, `--run-name=${NAME}`, "--resume=auto", "--log-interval=1"];
  const calm = join(folder, "calm");
  Deno.mkdirSync(calm);
  const times = await undisturbed(args, calm);
  const none = Object.fromEntries(MOMENTS.map((moment) => [moment, 0])) as Tally["kills"];
  const tally: Tally = { kills: none, runs: 0, saves: 0, read: 0, unreadable: [], lost: [], different: [] };
  const dice = uniform(key(seed, "kills"));
  let rolled = 0;
  const more = () => killsOf(tally) < kills && !end?.();
  while (more()) {
    const cwd = join(folder, `storm-${tally.runs + 1}`);
    Deno.mkdirSync(join(cwd, "checkpoints"), { recursive: true });
    for (let over = false; !over && more();) {
      const any = isThere(join(cwd, "checkpoints", `${NAME}_latest.pt`));
      const pid = await killed(args, cwd, aimOf(() => dice(rolled++), times, any));
      over = pid === null;
      if (pid === null) break;
      const found = lookAt(cwd, NAME, pid);
      tally.kills[found.moment]++;
      tally.read += found.read;
      tally.unreadable.push(...found.unreadable);
      tally.lost.push(...found.lost);
      told?.(tally);
    }
    await succeed(args, { cwd, timeout: PATIENCE });
    tally.saves += eventsOf(cwd, NAME).filter(({ kind }) => kind === "save").length;
    tally.different.push(...different(calm, cwd, NAME));
    tally.runs++;
    Deno.removeSync(cwd, { recursive: true });
  }
  return tally;
}

/** How long starting and saving take here, in milliseconds. */
interface Times {
  readonly start: number;
  readonly save: number;
}

async function undisturbed(args: string[], cwd: string): Promise<Times> {
  const began = performance.now();
  await succeed(args, { cwd, timeout: PATIENCE });
  const all = performance.now() - began;
  const events = eventsOf(cwd, NAME);
  const saves = events.filter(({ kind }) => kind === "save").map(({ seconds }) => seconds as number);
  const trained = events.find(({ kind }) => kind === "exit")!.seconds as number;
  return { start: all - 1000 * trained, save: 1000 * saves.reduce((a, b) => a + b) / saves.length };
}

interface Aim {
  /** What to wait for in the folder of checkpoints: a new temporary file, or one that takes the latest's place. */
  readonly sign: "temporary" | "latest" | null;
  /** Which of them. */
  readonly nth: number;
  /** Milliseconds after it, or after the start. */
  readonly delay: number;
}

/** Half of the kills go for the time in which a file is written, the others for its renaming or for no moment at all. */
function aimOf(dice: () => number, { start, save }: Times, any: boolean): Aim {
  const kind = dice(), nth = 1 + Math.floor(3 * dice()), when = dice() ** 2; // mostly early: hearing of it takes time
  // A run that has saved nothing has nothing to lose: its first save is let through.
  if (!any || kind > 0.8) return { sign: "latest", nth, delay: save * when };
  if (kind > 0.3) return { sign: "temporary", nth, delay: save * when };
  return { sign: null, nth: 0, delay: (1.5 * start + 5 * save) * dice() };
}

/** Starts it, kills it and gives its process id; null when it had ended before. */
async function killed(args: string[], cwd: string, { sign, nth, delay }: Aim): Promise<number | null> {
  const watcher = Deno.watchFs(join(cwd, "checkpoints"));
  const child = start(args, { cwd });
  const ended = finish(child, PATIENCE).finally(() => watcher[Symbol.dispose]());
  if (sign !== null) await signs(watcher, sign, nth);
  let timer = 0;
  if (delay >= 1) await Promise.race([ended, new Promise((resolve) => timer = setTimeout(resolve, delay))]);
  clearTimeout(timer);
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended: its code tells how.
  }
  const { code, stdout, stderr } = await ended;
  if (code === 137) return child.pid;
  assertEquals(code, 0, stdout + stderr);
  return null;
}

/** Waits for the nth such file, or for the watcher's end. */
async function signs(watcher: Deno.FsWatcher, sign: "temporary" | "latest", nth: number): Promise<void> {
  const seen = new Set<string>();
  let renamed = 0;
  for await (const { kind, paths } of watcher) {
    for (const name of paths.map((path) => basename(path))) {
      if (name.startsWith(`.${NAME}_latest.pt.tmp-`)) seen.add(name);
      if (name === `${NAME}_latest.pt` && kind === "rename" && paths.length === 1) renamed++;
    }
    if ((sign === "temporary" ? seen.size : renamed) >= nth) return;
  }
}
