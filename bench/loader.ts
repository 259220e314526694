// `scripts/bench loader`: samples a second beside PyTorch's DataLoader, and how long steps wait for data.
import { existsSync } from "node:fs";
import { join } from "paths";
import type { Event, StepEvent } from "../core/run/events.ts";
import { type Host, openHost } from "./contestant.ts";
import { type Beside, measureOther, OTHERS, othersHere } from "./loader_others.ts";
import {
  bestOfPytorch,
  type DataSet,
  dataSets,
  type Effort,
  type Firsts,
  IMAGES,
  measureFirst,
  measureMemory,
  measureSpeed,
  type Memory,
  SAMPLES,
  type Sides,
  type Speed,
} from "./loader_sides.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

// How much of a training run is waiting for data: the run's own figures.

interface Wait {
  readonly steps: number;
  readonly millisecondsPerStep: number;
  /** The share of the time from the first step's end to the last one's. */
  readonly share: number;
}

/** simple-convnet on packed images, with these settings besides. */
function measureWait(
  program: readonly string[],
  images: string,
  steps: number,
  flags: string[],
): Wait {
  const saveDir = Deno.makeTempDirSync();
  const args = [
    ["train", "--model", "simple-convnet", "--data-type", "packed", "--data-path", images, "--device", "cpu"],
    [
      "--batch-size",
      "64",
      "--epochs",
      "100",
      "--max-steps",
      `${steps}`,
      "--log-interval",
      "1",
      "--val-samples",
      "0",
    ],
    [
      "--normalise",
      "imagenet",
      "--run-name",
      "wait",
      "--save-dir",
      saveDir,
      "--no-wandb",
      "--quiet",
      ...flags,
    ],
  ].flat();
  try {
    const { success, stderr } = new Deno.Command(program[0], { args: [...program.slice(1), ...args] })
      .outputSync();
    if (!success) {
      throw new Error(`the training run failed: ${new TextDecoder().decode(stderr).slice(-2000)}`);
    }
    return waitIn(Deno.readTextFileSync(join(saveDir, "logs", "wait", "events.jsonl")));
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

/** From the lines of events.jsonl. The first step's wait is the start's: its data could not be asked for before. */
export function waitIn(lines: string): Wait {
  const events: Event[] = lines.trim().split("\n").map((line) => JSON.parse(line));
  const steps = events.filter((event): event is StepEvent & { t: number } => event.kind === "step");
  if (steps.length < 2) throw new Error(`a run of ${steps.length} steps says nothing about waiting`);
  const seconds = steps.at(-1)!.t - steps[0].t;
  const waited = steps.slice(1).reduce((sum, step) => sum + step.data_s!, 0);
  return {
    steps: steps.length,
    millisecondsPerStep: 1000 * seconds / (steps.length - 1),
    share: waited / seconds,
  };
}

const FULL: Effort = { rounds: 7, seconds: 1.5 }, QUICK: Effort = { rounds: 1, seconds: 0.05 };
const FIRST_ROUNDS = 5, MEMORY_WORKERS = 4, WAIT_STEPS = 40;
/** The data sets whose first batch and memory are measured. */
const SOME = ["mnist", IMAGES, "hdf5"];

interface Found {
  readonly speed: Record<string, Speed>;
  readonly first: Record<string, Firsts>;
  readonly memory: Record<string, Memory>;
  /** DALI and FFCV, those of them that are there. */
  readonly others: Beside[];
  /** Held in memory, and read by threads as it is trained with. */
  readonly wait: Record<"memory" | "streamed", Wait>;
}

/** `cases`: data sets that alone are read; the page is written only from all. */
export async function loaderBenchmark(p: Programs, quick: boolean, cases: readonly string[]): Promise<void> {
  const unknown = cases.find((name) => !Object.hasOwn(dataSets, name));
  if (unknown) {
    throw new Error(`there is no data set "${unknown}". There are: ${Object.keys(dataSets).join(", ")}`);
  }
  const wanted = (name: string) => cases.length === 0 || cases.includes(name);
  const about = machine(), host = openHost();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const sides = {
    worker: [p.loader],
    python: p.python,
    data: join(p.data, quick ? "loader-quick" : "loader"),
  };
  makeData(sides, p.exe, quick ? 0.02 : 1, cases);
  const found: Found = { speed: {}, first: {}, memory: {}, others: [], wait: {} as Found["wait"] };
  for (const [name, set] of Object.entries(dataSets).filter(([name]) => wanted(name))) {
    found.speed[name] = await measureSpeed(sides, set, quick ? QUICK : FULL, host);
    tell(speedRow(set, found.speed[name]));
  }
  for (const pair of pairsOf(wanted)) {
    const python = Deno.env.get(OTHERS[pair.other].variable)!;
    found.others.push(await measureOther(sides, dataSets, pair, quick ? QUICK : FULL, host, python));
    tell(besideRow(found.others.at(-1)!));
  }
  if (cases.length > 0) return;
  for (const name of SOME) {
    found.first[name] = await measureFirst(sides, dataSets[name], quick ? 1 : FIRST_ROUNDS, host);
    tell(firstRow(dataSets[name], found.first[name]));
    found.memory[name] = await measureMemory(sides, dataSets[name], MEMORY_WORKERS);
    tell(memoryRow(dataSets[name], found.memory[name]));
  }
  for (const [how, flag] of [["memory", "yes"], ["streamed", "no"]] as const) {
    const images = join(sides.data, PACKED_IMAGES);
    found.wait[how] = measureWait([p.exe], images, quick ? 2 : WAIT_STEPS, ["--in-memory", flag]);
    tell(waitRow(how, found.wait[how]));
  }
  if (!quick) write(p, about, host, found);
}

/** Each of those that are there with each of its data sets. */
const pairsOf = (wanted: (set: string) => boolean) =>
  othersHere((name) => Deno.env.get(name)).here.flatMap((other) =>
    OTHERS[other].sets.filter(wanted).map((set) => ({ other, set }))
  );

const tell = (row: readonly string[]) => console.log(row.join("  "));

const PACKED_IMAGES = "images.packed";

/** Writes what is not there yet: the files, and what is packed from them, for these data sets or for all. */
function makeData({ python, data }: Sides, exe: string, share: number, cases: readonly string[]): void {
  const run = (program: string, args: string[]) => {
    const { success, stderr } = new Deno.Command(program, { args }).outputSync();
    if (!success) {
      throw new Error(
        `${program} ${args.join(" ")} failed: ${new TextDecoder().decode(stderr).slice(-2000)}`,
      );
    }
  };
  const maker = new URL("peers/loader_data.py", import.meta.url).pathname;
  run(python, ["-B", maker, data, String(share)]);
  const sets = cases.length > 0
    ? cases.map((name) => dataSets[name])
    : [...Object.values(dataSets), { ...dataSets[IMAGES], packed: PACKED_IMAGES }];
  for (const { file, packed } of sets.filter(({ packed }) => packed !== undefined)) {
    // Packing goes on where it was stopped, and does nothing where all is done; what another version packed goes.
    const out = join(data, packed!), args = ["pack", join(data, file), out, ...SAMPLES];
    try {
      run(exe, args);
    } catch (error) {
      if (!existsSync(out)) throw error;
      Deno.removeSync(out, { recursive: true });
      run(exe, args);
    }
  }
}

const times = (ratio: number) => `${ratio.toFixed(ratio < 10 ? 2 : 0)}x`;
const percent = (share: number) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
const spread = (rounds: readonly number[]) =>
  percent((Math.max(...rounds) - Math.min(...rounds)) / median(rounds));

function speedRow({ title, floor }: DataSet, { workers, rounds }: Speed): string[] {
  const ratios = rounds.hpctrain.map((speed, round) => speed / rounds.pytorch[round]);
  const cell = (speeds: number[]) => `${Math.round(median(speeds)).toLocaleString("en")} (${spread(speeds)})`;
  return [
    title,
    cell(rounds.hpctrain),
    cell(rounds.pytorch),
    String(workers),
    `${times(median(ratios))} (${times(Math.min(...ratios))} to ${times(Math.max(...ratios))})`,
    times(floor),
  ];
}

function besideRow({ set, other, version, speed }: Beside): string[] {
  const [, ours, theirs, way, ratio] = speedRow(dataSets[set], speed);
  return [dataSets[set].title, ours, `${OTHERS[other].title} ${version}`, theirs, way, ratio];
}

/** It says where those that were measured differ, and who was not there. */
function differences(others: readonly Beside[]): string {
  const seen = [...new Set(others.map(({ other }) => other))];
  const said = seen.map((name) => `${OTHERS[name].title} ${OTHERS[name].lacks}.`);
  const { missing } = othersHere((name) => Deno.env.get(name));
  const absent = missing.length > 0 ? [`Not compared: ${missing.join(", ")}.`] : [];
  return [...said, ...absent].join(" ");
}

function firstRow({ title }: DataSet, firsts: Firsts): string[] {
  const cells = (["start", "construction"] as const).flatMap((from) => {
    const own = median(firsts.hpctrain[from]), theirs = bestOfPytorch(firsts, from);
    return [`${own.toFixed(2)} s`, `${theirs.toFixed(2)} s`, times(theirs / own)];
  });
  return [title, ...cells];
}

function memoryRow({ title }: DataSet, { hpctrain, pytorch }: Memory): string[] {
  const cell = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MB`;
  return [title, cell(hpctrain), cell(pytorch), times(hpctrain / pytorch)];
}

const HOW = { memory: "held in memory", streamed: "read by loader threads" };

function waitRow(how: keyof Found["wait"], { steps, millisecondsPerStep, share }: Wait): string[] {
  return [HOW[how], String(steps), `${millisecondsPerStep.toFixed(0)} ms`, `${(100 * share).toFixed(2)}%`];
}

function write(p: Programs, about: ReturnType<typeof machine>, host: Host, found: Found): void {
  const versions = versionsOf(p);
  const date = new Date().toISOString().slice(0, 10);
  const name = `${about.cpu}-${about.cores}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  writeResults(`loader-${name}`, {
    command: "./scripts/bench loader",
    date,
    machine: about,
    versions,
    taken: host.taken,
    ...found,
  });
  const rows = <V>(of: Record<string, V>, row: (set: DataSet, value: V) => string[]) =>
    Object.entries(of).map(([name, value]) => row(dataSets[name], value));
  const start = ["from the program's start", "PyTorch", ""];
  const construction = ["from the loader's construction", "PyTorch", ""];
  writePage(
    "loader",
    [
      "# Reading data, beside PyTorch's DataLoader",
      `\`./scripts/bench loader\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. Both read the same files in ` +
      "batches of 64 and a new order each epoch to the same float32 tensors, which is checked. PyTorch has the number of " +
      `workers that serves it best of 0, 2 and 4, kept from epoch to epoch; hpctrain has a loader thread for each core. Medians of ${FULL.rounds} ` +
      "rounds of whole epochs, nothing read ahead, in which the two take turns; the spread is the fastest round less the slowest, " +
      `against the median. ${host.said()}`,
      table(
        [
          "Samples a second (spread)",
          "hpctrain",
          "PyTorch",
          "its workers",
          "Ratio (least to most)",
          "Asked for",
        ],
        rows(found.speed, speedRow),
      ),
      "Beside loaders that are not PyTorch's, in rounds of their own, in which the two take turns again. Each reads the folder, " +
      `but where it is said. ${differences(found.others)}`,
      table(
        ["Samples a second (spread)", "hpctrain", "beside it", "", "its way", "Ratio (least to most)"],
        found.others.map(besideRow),
      ),
      `Medians of ${FIRST_ROUNDS}; PyTorch again with the workers that serve it best.`,
      table(["First batch", ...start, ...construction], rows(found.first, firstRow)),
      `The most memory that all processes of each side held together while they read two epochs with ${MEMORY_WORKERS} ` +
      "workers, shared pages counted once (PSS).",
      table(["Memory", "hpctrain", "PyTorch", ""], rows(found.memory, memoryRow)),
      "How much of training simple-convnet (batch 64) on packed images of 224 x 224 is waiting for data, from the first " +
      "step's end on.",
      table(
        ["Packed images", "Steps", "Step", "Waiting"],
        Object.entries(found.wait).map(([how, wait]) => waitRow(how as keyof Found["wait"], wait)),
      ),
    ].join("\n\n"),
  );
}
