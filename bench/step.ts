// `scripts/bench step` and `scripts/bench shards`: time of a step beside PyTorch, time to the first step, and what
// --deterministic=world costs.
import { messageOf } from "../core/base/errors.ts";
import {
  type Contestant,
  type Host,
  linesOf,
  openHost,
  type Round,
  startContestant,
  turns,
} from "./contestant.ts";
import { dirname, join } from "@std/path";
import { writePage } from "./page.ts";
import { keysOf, machine, median, table, versionsOf, writeResults } from "./report.ts";
import { type Name, workloads } from "./workloads.ts";

// From starting a program to its first training step done, with its files in the page cache and not.

export interface Starter {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  /** The line that says that the first step is done. */
  readonly says: RegExp;
  /** Files and folders that a cold start must read again. */
  readonly files: readonly string[];
}

/** Seconds until the line; the program is then left to end by itself. */
async function start({ program, args, says, name }: Starter): Promise<number> {
  const began = performance.now();
  const child = new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  })
    .spawn();
  const complaint = new Response(child.stderr).text();
  let seconds = NaN;
  for await (const line of linesOf(child.stdout)) {
    if (Number.isNaN(seconds) && says.test(line)) seconds = (performance.now() - began) / 1000;
  }
  const { success } = await child.status;
  if (!success || Number.isNaN(seconds)) {
    throw new Error(`${name} made no step: ${(await complaint).slice(-2000)}`);
  }
  return seconds;
}

const COLD =
  "before each cold start every file of both programs was dropped from the page cache with posix_fadvise(DONTNEED); " +
  "pages that another process had mapped at the time stay";

/** Drops the files' pages from the cache, which needs no rights. */
async function forget(python: string, files: readonly string[]): Promise<void> {
  const program = `
import os, sys
def drop(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
for top in sys.argv[1:]:
    drop(top) if os.path.isfile(top) else [drop(os.path.join(d, f)) for d, _, names in os.walk(top) for f in names]
`;
  const { success, stderr } = await new Deno.Command(python, { args: ["-S", "-c", program, ...files] })
    .output();
  if (!success) throw new Error(`the page cache could not be dropped: ${new TextDecoder().decode(stderr)}`);
}

/** Seconds of each start, by starter's name; the starters take turns. */
export async function startups(
  starters: readonly Starter[],
  python: string,
  rounds: number,
  cold: boolean,
): Promise<Record<string, number[]>> {
  const seconds: Record<string, number[]> = Object.fromEntries(starters.map(({ name }) => [name, []]));
  if (!cold) { for (const starter of starters) await start(starter); }
  for (let round = 0; round < rounds; round++) {
    for (const starter of starters) {
      if (cold) await forget(python, starters.flatMap(({ files }) => files));
      seconds[starter.name].push(await start(starter));
    }
  }
  return seconds;
}

// `scripts/bench step`: a training step, start-up and memory beside Python PyTorch, in one run.

const peers = new URL("peers/", import.meta.url).pathname;
const ROUNDS = 9, COLD_ROUNDS = 5, WARM_UP = 20;
const SIDES = ["hpctrain", "eager", "compile"] as const;
type Side = typeof SIDES[number];

export interface Programs {
  /** The executable, what bench's workers were compiled to, a Python with torch, and libtorch's folder. */
  readonly exe: string;
  readonly worker: string;
  readonly loader: string;
  readonly save: string;
  readonly python: string;
  readonly libtorch: string;
  /** The folder in which a benchmark may keep its files from one time to the next. */
  readonly data: string;
}

interface Measured {
  readonly rounds: Record<Side, number[]>;
  readonly peak: Record<Side, number>;
  readonly missing: Partial<Record<Side, string>>;
}

const commandOf = (p: Programs, side: Side, name: Name): [string, string[]] =>
  side === "hpctrain" ? [p.worker, [name]] : [p.python, [join(peers, "step.py"), name, side]];

/** Rounds of each side in turn, in microseconds a step; a side that can't run says why instead. */
async function measure(p: Programs, host: Host, name: Name): Promise<Measured> {
  const { steps } = workloads[name];
  const running = new Map<Side, Contestant>();
  const missing: Measured["missing"] = {};
  const first = new Map<Side, Round>();
  for (const side of SIDES) {
    try {
      const contestant = await startContestant(...commandOf(p, side, name));
      running.set(side, contestant);
      first.set(side, await contestant.round(WARM_UP));
    } catch (error) {
      if (side !== "compile") throw error; // it needs a C++ compiler, which a machine may lack
      missing[side] = messageOf(error).split("\n").slice(-1).join().replaceAll(/\/\S*\//g, ""); // no paths
    }
  }
  sameTraining(name, first);
  const rounds: Measured["rounds"] = { hpctrain: [], eager: [], compile: [] };
  const peak: Measured["peak"] = { hpctrain: 0, eager: 0, compile: 0 };
  for (const contestant of running.values()) await contestant.round(steps);
  for (const [[side, contestant]] of turns(running, ROUNDS)) {
    const { seconds, peak: bytes, tensors } = await host.turn(() => contestant.round(steps));
    if (tensors !== first.get(side)?.tensors) {
      throw new Error(`${name}: ${side} leaks: it has ${tensors} tensors now.`);
    }
    rounds[side].push(Math.round(seconds / steps * 1e8) / 100);
    peak[side] = bytes;
  }
  for (const contestant of running.values()) await contestant.end();
  return { rounds, peak, missing };
}

/**
 * A comparison is one only if all train the same: after the warm-up the losses agree. Compiled code rounds elsewhere,
 * and a loss near zero has few digits, so a thousandth either way is agreement too.
 */
function sameTraining(name: Name, first: ReadonlyMap<Side, Round>): void {
  const expected = first.get("eager")!.loss;
  for (const [side, { loss }] of first) {
    if (Math.abs(loss - expected) <= 0.01 * Math.abs(expected) + 1e-3) continue;
    throw new Error(`${name}: after ${WARM_UP} steps ${side} has loss ${loss}, PyTorch eager ${expected}`);
  }
}

function starters(p: Programs, saveDir: string): Starter[] {
  const flags =
    "--model mlp --set model.hidden_size=128 --data-type synthetic --train-samples 64 --val-samples 32 " +
    "--batch-size 32 --max-steps 1 --log-interval 1 --threads 1 --no-wandb --json";
  const args = ["train", ...flags.split(" "), "--save-dir", saveDir];
  const site = new TextDecoder().decode(
    new Deno.Command(p.python, {
      args: [
        "-c",
        "import os, sys, torch; print(os.path.dirname(os.path.dirname(torch.__file__))); print(os.__file__)",
      ],
    }).outputSync().stdout,
  ).trim().split("\n");
  return [
    { name: "hpctrain", program: p.exe, args, says: /"kind":"step"/, files: [p.exe, p.libtorch] },
    {
      name: "eager",
      program: p.python,
      args: [join(peers, "first_step.py")],
      says: /^step /,
      files: [site[0], dirname(site[1])],
    },
  ];
}

export async function stepBenchmark(p: Programs): Promise<void> {
  const about = machine(), host = openHost();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const steps = {} as Record<Name, Measured>;
  for (const name of keysOf(workloads)) {
    console.log(workloads[name].title);
    steps[name] = await measure(p, host, name);
    for (const row of stepRows(name, steps[name])) console.log(`  ${row.join("  ")}`);
  }
  const saveDir = Deno.makeTempDirSync();
  try {
    console.log("Start-up to the first step done");
    const both = starters(p, saveDir);
    const warm = await startups(both, p.python, ROUNDS, false);
    const cold = await startups(both, p.python, COLD_ROUNDS, true);
    for (const row of startRows(warm, cold)) console.log(`  ${row.join("  ")}`);
    write(p, about, host, steps, { warm, cold });
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

type Starts = Record<"warm" | "cold", Record<string, number[]>>;

const times = (ratio: number) => `${ratio.toFixed(2)}x`;
const SHOWN: Record<Side, string> = {
  hpctrain: "hpctrain",
  eager: "PyTorch eager",
  compile: "PyTorch torch.compile",
};

function stepRows(name: Name, m: Measured): string[][] {
  const eager = median(m.rounds.eager);
  return SIDES.map((side) => {
    const title = side === "hpctrain" ? workloads[name].title : "";
    if (m.missing[side]) return [title, SHOWN[side], "can't run here", "", "", ""];
    const own = median(m.rounds[side]);
    const spread = (Math.max(...m.rounds[side]) - Math.min(...m.rounds[side])) / own;
    const megabytes = m.peak[side] / 2 ** 20;
    return [
      title,
      SHOWN[side],
      own < 10_000 ? `${own.toFixed(0)} us` : `${(own / 1000).toFixed(1)} ms`,
      `${(100 * spread).toFixed(0)}%`,
      times(eager / own),
      `${megabytes.toFixed(0)} MB (${times(m.peak[side] / m.peak.eager)})`,
    ];
  });
}

function startRows(warm: Starts["warm"], cold: Starts["cold"]): string[][] {
  return (["hpctrain", "eager"] as const).map((side) => {
    const cells = [warm, cold].flatMap((s) => {
      const own = median(s[side]);
      return [`${own.toFixed(2)} s`, times(median(s.eager) / own)];
    });
    return [SHOWN[side], ...cells];
  });
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  host: Host,
  steps: Record<Name, Measured>,
  starts: Starts,
): void {
  const versions = versionsOf(p);
  const results = {
    command: "./scripts/bench step",
    date: new Date().toISOString().slice(0, 10),
    machine: about,
    versions,
    taken: host.taken,
    stepMicroseconds: Object.fromEntries(
      keysOf(steps).map((name) => [name, {
        title: workloads[name].title,
        stepsPerRound: workloads[name].steps,
        ...steps[name],
      }]),
    ),
    startSeconds: { ...starts, note: COLD },
  };
  writeResults("step", results);
  const stepTable = table(
    ["Training step", "", "Median", "Spread", "Speed against eager", "Peak memory"],
    (keysOf(steps)).flatMap((name) => stepRows(name, steps[name])),
  );
  const startTable = table(
    ["Start to first step done", "Warm", "Against Python", "Cold", "Against Python"],
    startRows(starts.warm, starts.cold),
  );
  writePage(
    "step",
    [
      "# A training step, start-up and memory",
      `\`./scripts/bench step\` on ${results.date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ${versions.libtorch}, ` +
      `Python ${versions.python} with PyTorch ${versions.torch}. Medians of ${ROUNDS} rounds in which the programs take ` +
      "turns; spread is the slowest round less the fastest, against the median. Both sides train the same model on the " +
      "same batch, which is checked by their losses; PyTorch with fused optimizers and gradients set to None. The loss " +
      `is read back once a round. ${host.said()}`,
      stepTable,
      `Cold: ${COLD}. Medians of ${COLD_ROUNDS}.`,
      startTable,
    ].join("\n\n"),
  );
}

// `scripts/bench shards`: what --deterministic=world costs, beside the same step without it.

const SHARD_ROUNDS = 5, SHARD_WARM_UP = 5;
/** Numbers of virtual shards; 0 is a run without them. */
const COUNTS = [0, 1, 4, 8];

interface MeasuredShards {
  /** Microseconds of processor time a step. */
  readonly rounds: number[];
  peak: number;
}

/** Rounds of each number of shards in turn. */
async function measureShards({ worker }: Programs, name: Name): Promise<MeasuredShards[]> {
  const steps = Math.ceil(workloads[name].steps / 2);
  const running: Contestant[] = [];
  for (const count of COUNTS) running.push(await startContestant(worker, [name, String(count)]));
  const measured = COUNTS.map((): MeasuredShards => ({ rounds: [], peak: 0 }));
  const losses: number[] = [];
  const used: number[] = [];
  for (const contestant of running) {
    const { loss, cpu = NaN } = await contestant.round(SHARD_WARM_UP);
    losses.push(loss);
    used.push(cpu);
  }
  const apart = Math.max(...losses.map((loss) => Math.abs(loss / losses[0] - 1)));
  // Batch norm sees a shard at a time, so with it the losses are others.
  if (name !== "resnet18" && apart > 1e-3) throw new Error(`${name} has the losses ${losses.join(", ")}`);
  for (const [[i, contestant]] of turns(running.entries(), SHARD_ROUNDS)) {
    const { cpu = NaN, peak } = await contestant.round(steps);
    measured[i].rounds.push(Math.round((cpu - used[i]) / steps * 1e8) / 100);
    measured[i].peak = peak;
    used[i] = cpu;
  }
  for (const contestant of running) await contestant.end();
  return measured;
}

function rowsOf(name: Name, measured: readonly MeasuredShards[]): string[][] {
  const [plain] = measured;
  return measured.map(({ rounds, peak }, i) => {
    const own = median(rounds);
    const spread = (Math.max(...rounds) - Math.min(...rounds)) / own;
    return [
      i === 0 ? workloads[name].title : "",
      i === 0 ? "off" : `${COUNTS[i]} ${COUNTS[i] === 1 ? "shard" : "shards"}`,
      own < 10_000 ? `${own.toFixed(0)} us` : `${(own / 1000).toFixed(1)} ms`,
      `${(100 * spread).toFixed(0)}%`,
      `${(own / median(plain.rounds)).toFixed(2)}x`,
      `${(peak / 2 ** 20).toFixed(0)} MB`,
    ];
  });
}

export async function shardsBenchmark(p: Programs): Promise<void> {
  const about = machine(), versions = versionsOf(p);
  const all = {} as Record<Name, MeasuredShards[]>;
  for (const name of keysOf(workloads)) {
    all[name] = await measureShards(p, name);
    for (const row of rowsOf(name, all[name])) console.log(row.join("  "));
  }
  const date = new Date().toISOString().slice(0, 10);
  const command = "./scripts/bench shards";
  writeResults("shards", { command, date, machine: about, versions, shards: COUNTS, stepMicroseconds: all });
  writePage(
    "shards",
    [
      "# The cost of --deterministic=world",
      `\`${command}\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}. Processor time of a step on one thread; one process computes all shards. Medians of ${SHARD_ROUNDS} rounds in which the numbers of ` +
      "shards take turns; spread is the slowest round less the fastest, against the median.",
      table(
        ["Training step", "--deterministic=world", "Median", "Spread", "Against off", "Peak memory"],
        keysOf(all).flatMap((name) => rowsOf(name, all[name])),
      ),
    ].join("\n\n"),
  );
}
