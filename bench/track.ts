// `scripts/bench track`: what events, W&B and the console cost a step, in turns with and without them.
import { delay } from "../deps/async.ts";
import { MOST } from "./contestant.ts";
import { writePage } from "./page.ts";
import { keysOf, machine, median, table, versionsOf, writeResults } from "./report.ts";
import { join } from "paths";
import { openTrack } from "../core/run/writer/track.ts";
import type { Programs } from "./step.ts";

// The turns of the track benchmark: in which of them a run tells of itself, and what those cost beside the others.

/** Seconds: by the clock, of processor time of the training thread, and of all threads. */
export interface Spent {
  readonly wall: number;
  readonly own: number;
  readonly cpu: number;
}

export interface Turn extends Spent {
  readonly told: boolean;
  readonly steps: number;
  /** The share of requested processor time that the machine's host gave to others. */
  readonly taken: number;
}

export interface Worked {
  readonly turns: readonly Turn[];
  /** Steps that the written lines stand for, and bytes of events.jsonl. */
  readonly covered: number;
  readonly bytes: number;
}

/** Told, not, not, told: what changes slowly takes as much from either. */
export const turnsOf = (turn: number): boolean => turn % 4 === 0 || turn % 4 === 3;

interface More {
  /** Microseconds a step of turns that tell nothing. */
  readonly step: number;
  /** Microseconds a step that telling costs, and as a share of the step. */
  readonly costs: number;
  readonly share: number;
  /** The share's 95% interval. */
  readonly low: number;
  readonly high: number;
}

/** With fewer of them the median says nothing. */
const LEAST = 5;

/**
 * The cost of tracking by one of the clocks: the median over groups of four neighbours, each compared with itself. Groups
 * that lost time to others on the machine's host are left out, where enough are left.
 */
export function moreOf(turns: readonly Turn[], clock: keyof Spent): More {
  const perStep = (turn: Turn) => 1e6 * turn[clock] / turn.steps;
  const mean = (some: readonly Turn[]) => some.reduce((sum, turn) => sum + perStep(turn), 0) / some.length;
  const groups = Array.from(
    { length: Math.floor(turns.length / 4) },
    (_, i) => turns.slice(4 * i, 4 * i + 4),
  );
  const whole = groups.filter((group) => group.every(({ taken }) => taken <= MOST));
  const costs = (whole.length >= LEAST ? whole : groups).map((group) =>
    mean(group.filter(({ told }) => told)) - mean(group.filter(({ told }) => !told))
  );
  const step = median(
    (whole.length >= LEAST ? whole.flat() : turns).filter(({ told }) => !told).map(perStep),
  );
  const middle = median(costs);
  const [low, high] = medianWithin(costs);
  return { step, costs: middle, share: middle / step, low: low / step, high: high / step };
}

/** Where the median of all such values lies, to 95%: by the ranks of those that were measured. */
export function medianWithin(values: readonly number[]): [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b), n = sorted.length;
  const reach = 1.96 * Math.sqrt(n) / 2;
  const at = (rank: number) => sorted[Math.min(Math.max(Math.round(rank), 0), n - 1)];
  return [at((n - 1) / 2 - reach), at((n - 1) / 2 + reach)];
}

// `scripts/bench track`: what telling of a run costs its steps, at about a thousand steps a second, each of them told
// or as many as unasked: a run tells of its steps for a while and then not, in turn, and each while is compared with
// its neighbours.

/** Seconds of each side's turns. */
const SECONDS = 45;
const FLAGS = [
  ...["--model=mlp", "--data-type=synthetic", "--batch-size=64"],
  ...["--val-samples=64", "--train-samples=1280000", "--epochs=1000"],
  ...["--device=cpu", "--threads=1", "--quiet", "--run-name=r"],
];
/** The hidden size whose step comes nearest to the wanted microseconds is measured. */
const SIZES = [128, 192, 256, 320, 384, 512], STEP = 1000, TRIED_SECONDS = 3;
/** The gradient's norm is in each line. Where gradients are clipped a step has it anyway; elsewhere it is taken for the line. */
const SIDES = {
  "events.jsonl and W&B, as unasked: each hundredth step": ["--clip-norm=1e9"],
  "events.jsonl and W&B, each step": ["--clip-norm=1e9", "--log-interval=1"],
  "events.jsonl alone, each step": ["--clip-norm=1e9", "--log-interval=1", "--no-wandb"],
  "events.jsonl and TensorBoard, each step": [
    "--clip-norm=1e9",
    "--log-interval=1",
    "--no-wandb",
    "--track=tensorboard",
  ],
  "both and the gradient's norm, each step": ["--log-interval=1"],
} as const;
type Side = keyof typeof SIDES;
const sides = keysOf(SIDES);

interface Measured {
  readonly turns: readonly Turn[];
  /** Bytes a step, of those that a line stands for. */
  readonly events: number;
  readonly wandb: number;
}

export async function trackBenchmark(p: Programs): Promise<void> {
  const about = machine();
  Deno.mkdirSync(p.data, { recursive: true });
  const measured = {} as Record<Side, Measured>;
  const hidden = await hiddenOf(p);
  for (const side of sides) {
    measured[side] = await measure(p, side, hidden);
    console.log(`  ${row(side, measured[side]).join("  ")}`);
  }
  const emit = await emitting(p);
  console.log(`  one emit: ${emit.toFixed(2)} us`);
  write(p, about, hidden, measured, emit);
}

/** The hidden size that makes a step of about a millisecond on this machine. */
async function hiddenOf(p: Programs): Promise<number> {
  let best = { size: NaN, off: Infinity };
  for (const size of SIZES) {
    const { turns } = await measure(p, sides[0], size, TRIED_SECONDS);
    const { step } = moreOf(turns, "wall"), off = Math.abs(Math.log(step / STEP));
    console.log(`  ${size} wide: ${step.toFixed(0)} us a step`);
    if (off < best.off) best = { size, off };
  }
  return best.size;
}

async function measure(p: Programs, side: Side, hidden: number, seconds = SECONDS): Promise<Measured> {
  const folder = Deno.makeTempDirSync({ dir: p.data });
  try {
    const worker = new URL("track_worker.ts", import.meta.url).pathname;
    const flags = [...FLAGS, `--set=model.hidden_size=${hidden}`, ...SIDES[side], "--save-dir", folder];
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--allow-all", "--no-check", "--quiet", worker, String(seconds), ...flags],
      env: { HPCTRAIN_LIBTORCH: p.libtorch },
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr).slice(-2000));
    const { turns, covered, bytes }: Worked = JSON.parse(
      new TextDecoder().decode(stdout).trim().split("\n").slice(-1).join(),
    );
    return { turns, events: bytes / covered, wandb: sizeBelow(join(folder, "logs/wandb")) / covered };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function sizeBelow(folder: string): number {
  try {
    return [...Deno.readDirSync(folder)].reduce((sum, { name, isDirectory }) => {
      const path = join(folder, name);
      return sum + (isDirectory ? sizeBelow(path) : name.endsWith(".wandb") ? Deno.lstatSync(path).size : 0);
    }, 0);
  } catch {
    return 0;
  }
}

/** Microseconds that the training thread pays for one step's event. */
async function emitting(p: Programs): Promise<number> {
  const folder = Deno.makeTempDirSync({ dir: p.data });
  const log = openTrack(join(folder, "events.jsonl"), { warn: console.error });
  const rounds: number[] = [];
  for (let round = 0; round < 40; round++) {
    const began = performance.now();
    for (let i = 1; i <= 200; i++) {
      log.emit({
        kind: "step",
        step: i,
        epoch: 1,
        loss: 1 / i,
        lr: 1e-3,
        grad_norm: Math.sqrt(i),
        samples_per_s: 64123.4,
      });
    }
    rounds.push((performance.now() - began) / 0.2);
    await delay(60);
  }
  await log.close();
  Deno.removeSync(folder, { recursive: true });
  return median(rounds);
}

const percent = (share: number) => `${share >= 0 ? "+" : ""}${(100 * share).toFixed(1)}%`;
const within = ({ share, low, high }: More) => `${percent(share)} (${percent(low)} to ${percent(high)})`;

function row(side: Side, { turns, events, wandb }: Measured): string[] {
  const [wall, own, cpu] = (["wall", "own", "cpu"] as const).map((clock) => moreOf(turns, clock));
  return [
    side,
    `${wall.step.toFixed(0)} us`,
    within(wall),
    within(own),
    percent(cpu.share),
    events.toFixed(0),
    wandb.toFixed(0),
  ];
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  hidden: number,
  measured: Record<Side, Measured>,
  emit: number,
): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  const command = "./scripts/bench track";
  writeResults("track", { date, command, machine: about, versions, flags: FLAGS, hidden, emit, measured });
  const head = [
    ...["Told", "Step", "More time", "More processor time of the training thread", "of all threads"],
    ...["Bytes a step in events.jsonl", "in the .wandb file"],
  ];
  writePage(
    "track",
    [
      "# Telling of a run",
      `\`${command}\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ${versions.libtorch}. ` +
      `An mlp on one thread, of the width (${hidden}) whose step comes nearest to a millisecond here. A run tells of its ` +
      "steps for 0.2 s, of none for 0.4 s, of them for 0.2 s, and so on for " +
      `${SECONDS} s; of each four turns those that tell are compared with those that do not. Medians over all fours, and ` +
      `in brackets where they lie to 95%. The training thread itself pays ${
        emit.toFixed(1)
      } us for a step's event. ` +
      "The last line is of a run that does not clip: there the norm in each line is a pass over all gradients that " +
      "nothing else needs.",
      table(head, sides.map((side) => row(side, measured[side]))),
    ].join("\n\n"),
  );
}
