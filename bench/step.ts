// `scripts/bench step`: the time of a step beside PyTorch, by command line, and the time to the first step.
import { messageOf } from "../core/base/errors.ts";
import { type Contestant, type Host, linesOf, openHost, startContestant, turns } from "./contestant.ts";
import { dirname, join } from "paths";
import { writePage } from "./page.ts";
import { keysOf, machine, median, table, versionsOf, writeResults } from "./report.ts";
import { eventsIn, timed } from "./timed.ts";
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
const WARM_UP = 20;

interface Effort {
  readonly rounds: number;
  readonly cold: number;
  /** A run has so many. */
  readonly epochs: number;
  /** A round of PyTorch's has this part of the steps. */
  readonly part: number;
}
const FULL: Effort = { rounds: 7, cold: 5, epochs: 4, part: 1 };
const QUICK: Effort = { rounds: 1, cold: 1, epochs: 2, part: 20 };

/** A user may type the first two; the others are modes of bench/peers/step.py. */
const OWN = { hpctrain: "", "hpctrain --compile": "--compile" } as const;
const PEERS = { "PyTorch eager": "eager", "torch.compile": "compile" } as const;
type Side = keyof typeof OWN | keyof typeof PEERS;
const SIDES = [...Object.keys(OWN), ...Object.keys(PEERS)] as Side[];
const isOwn = (side: Side): side is keyof typeof OWN => Object.hasOwn(OWN, side);

/** Command lines that train what bench/peers/models.py trains; the first of their epochs is not timed. */
const LINES = {
  mlp: "--model mlp --hidden-size 128 --batch-size 32 --threads 1 --train-samples 128000 --val-samples 32",
  gpt:
    "--model gpt --layers 4 --embed 128 --heads 4 --context 64 --set model.vocab_size=65 --batch-size 12 " +
    "--train-samples 600 --val-samples 12",
  resnet18: "--model resnet18 --optimizer sgd --set training.optimizer.momentum=0.9 --weight-decay 0 " +
    "--batch-size 32 --train-samples 640 --val-samples 32",
  convnet: "--model simple-convnet --dropout 0 --batch-size 32 --train-samples 1600 --val-samples 32",
} as const satisfies Partial<Record<Name, string>>;
export type Lined = keyof typeof LINES;

/** As it is typed. */
export const stepLine = (name: Lined, side: keyof typeof OWN, epochs: number): string =>
  `hpctrain train ${LINES[name]} --epochs ${epochs} --device cpu ${OWN[side]}`.trim();

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
  readonly title: string;
  /** As typed; a peer's has no path. */
  readonly commands: Partial<Record<Side, string>>;
  /** Microseconds a step. */
  readonly rounds: Partial<Record<Side, number[]>>;
  /** Bytes. */
  readonly peak: Partial<Record<Side, number>>;
  readonly missing: Partial<Record<Side, string>>;
}

interface Stepped {
  readonly seconds: number;
  readonly peak: number;
  readonly parameters: number;
}

/** Seconds a step of a whole run, by its own events: its loop, its data, its records, and an epoch's validation are in them. */
export async function stepsOf(
  { exe, python }: Pick<Programs, "exe" | "python">,
  line: string,
): Promise<Stepped> {
  const folder = Deno.makeTempDirSync();
  try {
    const { peak } = await timed(python, [exe, ...line.split(" ").slice(1)], folder);
    return { ...timesIn(eventsIn(folder)), peak };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** The median epoch's, without the first: code is made in that one. */
// deno-lint-ignore no-explicit-any
export function timesIn(events: any[]): Omit<Stepped, "peak"> {
  const epochs = events.filter(({ kind }) => kind === "epoch");
  const each = epochs.slice(1).map(({ seconds, step }, i) => seconds / (step - epochs[i].step));
  if (each.length === 0) throw new Error("a run of one epoch has no time of a step");
  return { seconds: median(each), parameters: events.find(({ kind }) => kind === "run").parameters };
}

/** Rounds of each side in turn, in microseconds a step; a side that can't run says why instead. */
async function measure(
  p: Programs,
  host: Host,
  name: Lined,
  { rounds, epochs, part }: Effort,
): Promise<Measured> {
  const { title } = workloads[name], steps = Math.ceil(workloads[name].steps / part);
  const running = new Map<Side, Contestant>();
  const measured: Measured = { title, commands: {}, rounds: {}, peak: {}, missing: {} };
  const parameters = new Map<Side, number | undefined>();
  for (const side of SIDES) {
    if (isOwn(side)) {
      measured.commands[side] = stepLine(name, side, epochs);
      continue;
    }
    const args = ["step.py", name, PEERS[side]];
    measured.commands[side] = `python3 ${args.join(" ")}`;
    try {
      const contestant = await startContestant(p.python, [join(peers, args[0]), ...args.slice(1)]);
      parameters.set(side, (await contestant.round(WARM_UP)).parameters);
      running.set(side, contestant);
    } catch (error) {
      if (side !== "torch.compile") throw error; // it needs a C++ compiler, which a machine may lack
      measured.missing[side] = messageOf(error).split("\n").slice(-1).join().replaceAll(/\/\S*\//g, ""); // no paths
    }
  }
  try {
    for (const [side] of turns(SIDES.filter((side) => isOwn(side) || running.has(side)), rounds)) {
      const one = await host.turn(() =>
        isOwn(side) ? stepsOf(p, stepLine(name, side, epochs)) : roundOf(running.get(side)!, steps)
      );
      parameters.set(side, parameters.get(side) ?? one.parameters);
      (measured.rounds[side] ??= []).push(Math.round(one.seconds * 1e8) / 100);
      measured.peak[side] = Math.max(one.peak, measured.peak[side] ?? 0);
    }
  } finally {
    for (const contestant of running.values()) await contestant.end();
  }
  if (new Set(parameters.values()).size !== 1) {
    throw new Error(`${name}: the sides have parameters ${[...parameters].flat().join(" ")}`);
  }
  return measured;
}

async function roundOf(
  contestant: Contestant,
  steps: number,
): Promise<Partial<Stepped> & Omit<Stepped, "parameters">> {
  const { seconds, peak } = await contestant.round(steps);
  return { seconds: seconds / steps, peak };
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

/** `quick`: nothing is written. */
export async function stepBenchmark(p: Programs, quick: boolean): Promise<void> {
  const about = machine(), host = openHost(), effort = quick ? QUICK : FULL;
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const steps = {} as Record<Lined, Measured>;
  for (const name of quick ? ["mlp"] as const : keysOf(LINES)) {
    steps[name] = await measure(p, host, name, effort);
    for (const row of stepRows(steps[name])) console.log(`  ${row.join("  ")}`);
  }
  const saveDir = Deno.makeTempDirSync();
  try {
    console.log("Start-up to the first step done");
    const both = starters(p, saveDir);
    const warm = await startups(both, p.python, effort.rounds, false);
    const cold = await startups(both, p.python, effort.cold, true);
    for (const row of startRows(warm, cold)) console.log(`  ${row.join("  ")}`);
    if (quick) return;
    const [own, other] = both.map(({ args }) => args);
    const commands = {
      hpctrain: ["hpctrain", ...own].join(" ").replace(saveDir, "."),
      eager: `python3 ${other.join(" ").replace(peers, "")}`,
    };
    write(p, about, host, steps, { warm, cold, commands });
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

type Starts = Record<"warm" | "cold", Record<string, number[]>>;

const times = (ratio: number) => `${ratio.toFixed(2)}x`;

function stepRows({ title, rounds, peak, missing }: Measured): string[][] {
  const eager = median(rounds["PyTorch eager"]!);
  return SIDES.map((side, i) => {
    const begin = [i === 0 ? title : "", side], all = rounds[side];
    if (all === undefined) return [...begin, `can't run here: ${missing[side]}`, "", "", ""];
    const own = median(all), spread = (Math.max(...all) - Math.min(...all)) / own;
    const megabytes = peak[side]! / 2 ** 20;
    return [
      ...begin,
      own < 10_000 ? `${own.toFixed(0)} us` : `${(own / 1000).toFixed(1)} ms`,
      `${(100 * spread).toFixed(0)}%`,
      times(eager / own),
      `${megabytes.toFixed(0)} MB (${times(peak[side]! / peak["PyTorch eager"]!)})`,
    ];
  });
}

function startRows(warm: Starts["warm"], cold: Starts["cold"]): string[][] {
  return (["hpctrain", "eager"] as const).map((side) => {
    const cells = [warm, cold].flatMap((s) => {
      const own = median(s[side]);
      return [`${own.toFixed(2)} s`, times(median(s.eager) / own)];
    });
    return [side === "eager" ? "PyTorch eager" : side, ...cells];
  });
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  host: Host,
  steps: Record<Lined, Measured>,
  starts: Starts & { commands: Record<string, string> },
): void {
  const versions = versionsOf(p);
  const results = {
    command: "./scripts/bench step",
    date: new Date().toISOString().slice(0, 10),
    machine: about,
    versions,
    taken: host.taken,
    steps,
    startSeconds: { ...starts, note: COLD },
  };
  writeResults("step", results);
  const stepTable = table(
    ["Training step", "", "Median", "Spread", "Speed against eager", "Peak memory"],
    Object.values(steps).flatMap(stepRows),
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
      `Python ${versions.python} with PyTorch ${versions.torch}. Medians of ${FULL.rounds} rounds in which the programs take ` +
      "turns; spread is the slowest round less the fastest, against the median. hpctrain's steps are those of whole runs of " +
      "the command lines below, and their own events are the clock: an epoch's seconds by its steps, of the median epoch " +
      "without the first. Data that is made, the loop, records and a short validation are in a step. PyTorch has one batch " +
      "in memory and a bare loop, a fused optimizer and gradients set to None; its loss is read back once a round. " +
      `${host.said()}`,
      stepTable,
      `Cold: ${COLD}. Medians of ${FULL.cold}.`,
      startTable,
      "## The command lines",
      ...[...Object.values(steps).map(({ commands }) => commands), starts.commands].map((commands) =>
        Object.values(commands).map((command) => `    ${command}`).join("\n")
      ),
    ].join("\n\n"),
  );
}
