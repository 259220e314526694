// `scripts/bench cpu`: steps on this machine's CPU by command line, beside PyTorch. Whole runs as a user starts them, with
// their own events as the clock, so that the loop around a step, its data and its records are in the figure.
import { join } from "@std/path";
import { messageOf } from "../core/base/errors.ts";
import { type Contestant, startContestant, turns } from "./contestant.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { type Name, workloads } from "./workloads.ts";

const peer = join(new URL("peers/", import.meta.url).pathname, "step.py");
const ROUNDS = 7, WARM_UP = 20;

const OWN = { "hpctrain, op by op": "--no-compile", "hpctrain --compile": "--compile" } as const;
const PEERS = { "PyTorch eager": "eager", "torch.compile": "compile" } as const;
type Side = keyof typeof OWN | keyof typeof PEERS;
const SIDES = [...Object.keys(OWN), ...Object.keys(PEERS)] as Side[];

/** The peer's model, how many steps are timed at once, and a command line that trains the same model. */
const CASES: readonly (readonly [Name, window: number, flags: string])[] = [
  [
    "mlp",
    1000,
    "--model mlp --hidden-size 128 --batch-size 32 --threads 1 --train-samples 128000 --val-samples 32 --epochs 1",
  ],
  [
    "gpt",
    10,
    "--model gpt --layers 4 --embed 128 --heads 4 --context 64 --set model.vocab_size=65 --batch-size 12 " +
    "--train-samples 600 --val-samples 12 --epochs 1",
  ],
];

interface Measured {
  readonly title: string;
  /** Without what tells op by op from compiled. */
  readonly command: string;
  /** Microseconds a step. */
  readonly rounds: Partial<Record<Side, number[]>>;
  readonly missing: Partial<Record<Side, string>>;
}

const isOwn = (side: Side): side is keyof typeof OWN => Object.hasOwn(OWN, side);

async function measure(p: Programs, name: Name, window: number, flags: string): Promise<Measured> {
  const { title } = workloads[name], folder = Deno.makeTempDirSync();
  const common = `${flags} --log-interval ${window} --device cpu --no-wandb`;
  const measured: Measured = { title, command: `hpctrain ${common}`, rounds: {}, missing: {} };
  const peers = new Map<Side, Contestant>();
  try {
    for (const side of SIDES) {
      if (isOwn(side)) continue;
      try {
        const contestant = await startContestant(p.python, [peer, name, PEERS[side]]);
        await contestant.round(WARM_UP);
        peers.set(side, contestant);
      } catch (error) {
        if (side !== "torch.compile") throw error; // it needs a C++ compiler
        measured.missing[side] = messageOf(error).split("\n").slice(-1).join().replaceAll(/\/\S*\//g, "");
      }
    }
    const sides = SIDES.filter((side) => isOwn(side) || peers.has(side));
    for (const [side, round] of turns(sides, ROUNDS)) {
      const run = `${name}-${sides.indexOf(side)}-${round}`;
      const times = isOwn(side)
        ? windowsOfRun(p, [...common.split(" "), OWN[side], "--run-name", run], folder, run)
        : await windowsOf(peers.get(side)!, window);
      const seconds = Math.min(...times);
      (measured.rounds[side] ??= []).push(Math.round(seconds * 1e8) / 100);
    }
    return measured;
  } finally {
    for (const contestant of peers.values()) await contestant.end();
    Deno.removeSync(folder, { recursive: true });
  }
}

/** As many windows as the shortest run has. */
const WINDOWS = 3;

async function windowsOf(contestant: Contestant, steps: number): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < WINDOWS; i++) times.push((await contestant.round(steps)).seconds / steps);
  return times;
}

/** Seconds a step between the steps that the run writes down, the last of them; code is made before. */
function windowsOfRun({ exe }: Programs, args: readonly string[], cwd: string, run: string): number[] {
  const { success, stderr } = new Deno.Command(exe, { args: ["train", ...args], cwd }).outputSync();
  if (!success) throw new Error(`${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  const lines = Deno.readTextFileSync(join(cwd, "logs", run, "events.jsonl")).trimEnd().split("\n");
  const written: { t: number; step: number }[] = lines.map((line) => JSON.parse(line))
    .filter(({ kind }) => kind === "step");
  return written.slice(-WINDOWS).map(({ t, step }, i) => {
    const before = written[written.length - WINDOWS - 1 + i];
    return (t - before.t) / (step - before.step);
  });
}

const short = (microseconds: number): string =>
  microseconds < 10_000 ? `${microseconds.toFixed(0)} us` : `${(microseconds / 1000).toFixed(1)} ms`;

function rowsOf({ title, rounds, missing }: Measured): string[][] {
  return SIDES.map((side, i) => {
    const own = rounds[side], begin = [i === 0 ? title : "", side];
    if (own === undefined) return [...begin, `can't run here: ${missing[side]}`, ""];
    return [...begin, short(Math.min(...own)), short(median(own))];
  });
}

export async function cpuBenchmark(p: Programs): Promise<void> {
  const about = machine(), found: Measured[] = [];
  for (const [name, window, flags] of CASES) {
    found.push(await measure(p, name, window, flags));
    for (const row of rowsOf(found.at(-1)!)) console.log(`  ${row.join("  ")}`);
  }
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("cpusteps", { command: "./scripts/bench cpu", date, machine: about, versions, cases: found });
  writePage(
    "cpusteps",
    [
      "# Steps on a CPU by command line",
      `\`./scripts/bench cpu\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. hpctrain's are whole runs of the ` +
      "command lines below, with their own events as the clock: the loop, data that is made, and records are in a step. " +
      `PyTorch has one batch and a bare loop. ${ROUNDS} rounds in which all take turns; a round is the least of ` +
      `${WINDOWS} times of 10 steps, or of 1,000 of the MLP. On a machine that others use too, the least round says ` +
      "most: the median has their work in it.",
      table(["Training step", "", "Least", "Median"], found.flatMap(rowsOf)),
      found.map(({ command }) => Object.values(OWN).map((way) => `    ${command} ${way}`).join("\n")).join(
        "\n",
      ),
    ].join("\n\n"),
  );
}
