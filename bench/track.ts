// `scripts/bench track`: what telling of a run costs its steps, at about a thousand steps a second, each of them logged:
// events.jsonl, the W&B run and machine metrics, beside the same run that tells nothing. May import its siblings.
import { join } from "@std/path";
import { readEvents } from "../core/track/events.ts";
import { openTrack } from "../core/track/thread/track.ts";
import { machine, median, table, versionsOf, writeResults, writeSection } from "./report.ts";
import type { Programs } from "./step.ts";

const ROUNDS = 9, EPOCHS = 3, STEPS = 2500, BATCH = 64;
const FLAGS = [
  ...[
    "--model=mlp",
    "--data-type=synthetic",
    "--set=model.hidden_size=384",
    `--batch-size=${BATCH}`,
    "--val-samples=64",
  ],
  ...[
    `--train-samples=${STEPS * BATCH}`,
    `--epochs=${EPOCHS}`,
    "--device=cpu",
    "--threads=1",
    "--quiet",
    "--run-name=r",
  ],
];
const SIDES = {
  all: ["--log-interval=1"],
  "without W&B": ["--log-interval=1", "--no-wandb"],
  nothing: ["--log-interval=1000000", "--no-wandb", "--system-interval=0"],
} as const;
type Side = keyof typeof SIDES;
const sides = Object.keys(SIDES) as Side[];

interface Measured {
  /** Seconds a step: of training, and of all the process's threads. */
  readonly wall: number;
  readonly cpu: number;
  /** Bytes a step. */
  readonly events: number;
  readonly wandb: number;
}

export async function trackBenchmark(p: Programs): Promise<void> {
  const about = machine();
  Deno.mkdirSync(p.data, { recursive: true });
  const rounds = Object.fromEntries(sides.map((side) => [side, [] as Measured[]])) as Record<
    Side,
    Measured[]
  >;
  for (let round = -1; round < ROUNDS; round++) { // the first is not counted
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const measured = await measure(p, side);
      if (round >= 0) rounds[side].push(measured);
    }
  }
  const emit = await emitting(p);
  for (const row of rows(rounds)) console.log(`  ${row.join("  ")}`);
  console.log(`  one emit: ${emit.toFixed(2)} us`);
  write(p, about, rounds, emit);
}

async function measure(p: Programs, side: Side): Promise<Measured> {
  const folder = Deno.makeTempDirSync({ dir: p.data });
  try {
    const args = [p.exe, "train", ...FLAGS, ...SIDES[side], "--save-dir", folder];
    // The shell's `times` tells of the processor time of what it has started.
    const { success, stdout, stderr } = await new Deno.Command("bash", {
      args: ["-c", '"$@" > /dev/null && times', "bash", ...args],
      env: { HPCTRAIN_LIBTORCH: p.libtorch },
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr).slice(-2000));
    const [, children] = new TextDecoder().decode(stdout).trim().split("\n");
    const path = join(folder, "logs/r/events.jsonl");
    const epochs = readEvents(path).filter((event) => event.kind === "epoch");
    const samples = readEvents(path).filter((event) => event.kind === "eval");
    const seconds = epochs.slice(1).map((e) =>
      e.seconds - samples.find(({ epoch }) => epoch === e.epoch)!.seconds
    );
    const steps = EPOCHS * STEPS;
    return {
      wall: median(seconds) / STEPS,
      cpu: children.split(" ").map(secondsIn).reduce((a, b) => a + b) / steps,
      events: Deno.statSync(path).size / steps,
      wandb: sizeBelow(join(folder, "logs/wandb")) / steps,
    };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** "0m3.450s" */
const secondsIn = (text: string): number => {
  const [minutes, seconds] = text.split("m");
  return 60 * Number(minutes) + Number(seconds.replace(/s$/, ""));
};

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
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  await log.close();
  Deno.removeSync(folder, { recursive: true });
  return median(rounds);
}

const percent = (share: number) => `${share >= 0 ? "+" : ""}${(100 * share).toFixed(2)}%`;

function rows(rounds: Record<Side, Measured[]>): string[][] {
  const middle = (side: Side, of: (m: Measured) => number) => median(rounds[side].map(of));
  /** Rounds are compared with their own neighbours: a machine's speed wanders. */
  const more = (side: Side, of: (m: Measured) => number) =>
    median(rounds[side].map((measured, i) => of(measured) / of(rounds.nothing[i]) - 1));
  return sides.map((side) => [
    side,
    `${(1e6 * middle(side, ({ wall }) => wall)).toFixed(1)} us`,
    percent(more(side, ({ wall }) => wall)),
    percent(more(side, ({ cpu }) => cpu)),
    middle(side, ({ events }) => events).toFixed(0),
    middle(side, ({ wandb }) => wandb).toFixed(0),
  ]);
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  rounds: Record<Side, Measured[]>,
  emit: number,
): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("track", {
    date,
    command: "./scripts/bench track",
    machine: about,
    versions,
    flags: FLAGS,
    emit,
    rounds,
  });
  const head = [
    "Told",
    "Step",
    "More time",
    "More processor time",
    "Bytes a step in events.jsonl",
    "in the .wandb file",
  ];
  writeSection(
    "track",
    [
      "## Telling of a run",
      `\`./scripts/bench track\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ${versions.libtorch}. ` +
      `An mlp on one thread, every step logged; medians of ${ROUNDS} rounds of ${
        EPOCHS * STEPS
      } steps, in which the sides take ` +
      "turns; more than the run beside it that tells nothing. The processor time is that of all threads and of the start. " +
      `The training thread itself pays ${emit.toFixed(1)} us for a step's event.`,
      table(head, rows(rounds)),
    ].join("\n\n"),
  );
}
