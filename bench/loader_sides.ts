// The two sides of the loader benchmark and what is measured of them: data sets, speed, time to the first batch,
// memory.
import { join } from "paths";
import { type Contestant, type Host, linesOf, startContestant, turns } from "./contestant.ts";
import { median } from "./report.ts";

// Both sides of the loader benchmark read the same files.

export interface DataSet {
  readonly title: string;
  /** The kind and the file or folder that the other side is given; it must know the kind. */
  readonly kind: string;
  readonly file: string;
  /** The packed form that our side reads, where it is not the same file: `hpctrain pack` makes it. */
  readonly packed?: string;
  readonly flags: readonly string[];
  /** Variables of our side's environment. */
  readonly variables?: readonly string[];
  /** The ways of the other side that are tried, of which the best competes; numbers of workers by default. */
  readonly ways?: readonly (number | string)[];
  /** Each side draws its own: means are as far apart as draws are. */
  readonly random?: boolean;
  /** How many times PyTorch's speed is asked for. */
  readonly floor: number;
}

const MAPS = ["--features", "maps", "--targets", "parameters", "--normalise", "none", "--in-memory", "no"];
const chunked = (kind: "hdf5" | "netcdf", file: string, chunk: string): DataSet => ({
  title: `${
    kind === "hdf5" ? "HDF5" : "NetCDF-4"
  }, deflated, streamed: 3,000 maps of 4 x 64 x 64, ${chunk} a chunk`,
  kind,
  file,
  flags: ["--data-type", kind, ...MAPS],
  floor: 2,
});
const packed = (what: string, name: string): DataSet => ({
  title: `Packed from npz: ${what}`,
  kind: "npz",
  file: `${name}.npz`,
  packed: `${name}.packed`,
  flags: ["--data-type", "packed", "--normalise", "none"],
  floor: 5,
});

export const IMAGES = "imagefolder";
const jpegs = {
  title: "Folders of JPEGs: 5,000 images of 224 x 224",
  kind: "imagefolder",
  file: "images",
  flags: ["--data-type", "imagefolder", "--normalise", "imagenet"],
} as const;

/** Recipes read photographs so; `more` are steps between the mirror and the figures of ImageNet. */
const recipe = (what: string, kind: string, more = ""): DataSet => ({
  title: `The same JPEGs, ${what}`,
  kind,
  file: jpegs.file,
  flags: [
    ...jpegs.flags,
    "--augment",
    `random_resized_crop(224), horizontal_flip, ${more}Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), random_erasing(0.25)`,
  ],
  ways: [8],
  random: true,
  floor: 2,
});

// bench/peers/loader_data.py writes the files.
export const dataSets: Readonly<Record<string, DataSet>> = {
  mnist: {
    title: "MNIST in memory: 60,000 images of 28 x 28",
    kind: "mnist",
    file: "mnist",
    flags: ["--data-type", "mnist"],
    floor: 5,
  },
  [IMAGES]: { ...jpegs, title: `${jpegs.title}, with libturbojpeg`, floor: 2 },
  images_own: {
    ...jpegs,
    title: `${jpegs.title}, without it`,
    variables: ["HPCTRAIN_TURBOJPEG=none"],
    floor: 1.5,
  },
  recipe: recipe("crops resized, mirrored, RandAugment, erased", "recipe", "rand_augment(2, 9), "),
  crops: recipe("crops resized, mirrored, erased", "crops"),
  hdf5: chunked("hdf5", "each.h5", "one"),
  hdf5_16: chunked("hdf5", "sixteen.h5", "sixteen"),
  netcdf: chunked("netcdf", "each.nc", "one"),
  netcdf_16: chunked("netcdf", "sixteen.nc", "sixteen"),
  packed_vectors: packed("200,000 samples of 32 features", "vectors"),
  packed_maps: packed("20,000 maps of 64 x 64", "maps"),
};

/** Every sample is for training; packing takes these settings, too. */
export const SAMPLES = ["--validation-split", "0", "--train-samples", "1000000", "--val-samples", "0"];

/** Settings that make our side read what PyTorch's reads: every sample, in batches of 64. */
const COMMON = ["--device", "cpu", "--batch-size", "64", ...SAMPLES];

// The two programs of the loader benchmark, as commands.

export interface Sides {
  /** The executable of bench/loader_worker.ts, or the command that runs it. */
  readonly worker: readonly string[];
  readonly python: string;
  /** The folder with the files. */
  readonly data: string;
  /** The other side's program is bench/peers/loader.py unless named, and gets these words behind its own. */
  readonly peer?: { readonly program: string; readonly words: readonly string[] };
}

/** The tasks of both sides; bench/peers/loader.py and bench/peers/maps.py describe them. */
export type What = "rounds" | "moments" | "first" | "open";
type Command = [program: string, args: string[]];

const peer = new URL("peers/loader.py", import.meta.url).pathname;

/** With a loader thread for each core, unless told. */
export function ours(
  { worker, data }: Sides,
  set: DataSet,
  what: What,
  workers = navigator.hardwareConcurrency,
): Command {
  const path = join(data, set.packed ?? set.file);
  const flags = [...COMMON, ...set.flags, "--data-path", path, "--num-workers", String(workers)];
  return ["env", [...set.variables ?? [], ...worker, what, ...flags]];
}

export function pytorch(
  { python, data, peer: other }: Sides,
  { kind, file }: DataSet,
  what: What,
  way: number | string,
): Command {
  // More workers than cores are tried because people do; the warning about it is not news.
  const words = [kind, join(data, file), String(way), what, ...other?.words ?? []];
  return [python, ["-W", "ignore", "-B", other?.program ?? peer, ...words]];
}

/** The answer that a program prints as one line of JSON, and the seconds from its start until then. */
export async function answerOf<T>([program, args]: Command): Promise<{ said: T; seconds: number }> {
  const began = performance.now();
  const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" }).spawn();
  const complaint = new Response(child.stderr).text();
  let said: T | undefined, seconds = NaN;
  for await (const line of linesOf(child.stdout)) {
    if (said !== undefined || !line.startsWith("{")) continue;
    said = JSON.parse(line);
    seconds = (performance.now() - began) / 1000;
  }
  const { success } = await child.status;
  if (success && said !== undefined) return { said, seconds };
  throw new Error(`${[program, ...args].join(" ")} failed: ${(await complaint).trim().slice(-2000)}`);
}

// Samples a second that are read from one set by each side, and whether both read the same.

const WORKERS = [0, 2, 4];

export interface Speed {
  /** Samples a second with each number of PyTorch's workers, or in each way; the best is who competes. */
  readonly sweep: Readonly<Record<string, number>>;
  readonly workers: number | string;
  /** Samples a second in each round. */
  readonly rounds: { readonly hpctrain: number[]; readonly pytorch: number[] };
}

export interface Effort {
  readonly rounds: number;
  /** How long a round is at least; whole epochs, each begun with nothing read ahead. */
  readonly seconds: number;
}

export async function measureSpeed(sides: Sides, set: DataSet, effort: Effort, host: Host): Promise<Speed> {
  await sameSamples(sides, set);
  const mine = await startContestant(...ours(sides, set, "rounds"));
  const sweep: Record<string, number> = {};
  let best: { workers: number | string; contestant: Contestant } | null = null;
  for (const workers of set.ways ?? WORKERS) {
    const contestant = await startContestant(...pytorch(sides, set, "rounds", workers));
    await contestant.round(1); // workers start, files come into the page cache
    sweep[workers] = await host.turn(() => speedOf(contestant, 1));
    const better = best === null || sweep[workers] > sweep[best.workers];
    await (better ? best?.contestant : contestant)?.end();
    if (better) best = { workers, contestant };
  }
  const { workers, contestant } = best!;
  const racers = [
    { side: "hpctrain", contestant: mine, epochs: await epochsFor(mine, effort) },
    { side: "pytorch", contestant, epochs: await epochsFor(contestant, effort) },
  ] as const;
  const rounds: Speed["rounds"] = { hpctrain: [], pytorch: [] };
  for (const [{ side, contestant, epochs }] of turns(racers, effort.rounds)) {
    rounds[side].push(await host.turn(() => speedOf(contestant, epochs)));
  }
  for (const { contestant } of racers) await contestant.end();
  return { sweep, workers, rounds };
}

async function speedOf(contestant: Contestant, epochs: number): Promise<number> {
  const { loss: samples, seconds } = await contestant.round(epochs);
  return Math.round(samples / seconds);
}

/** Whole epochs that take about as long as a round should. */
async function epochsFor(contestant: Contestant, { seconds }: Effort): Promise<number> {
  await contestant.round(1);
  return Math.max(1, Math.ceil(seconds / (await contestant.round(1)).seconds));
}

interface Moments {
  readonly samples: number;
  readonly shape: readonly number[];
  readonly types: readonly string[];
  readonly input: number;
  readonly square: number;
  readonly target: number;
}

/** A comparison is one only if both read the same: every sample once, with the same values in the same layout. */
export async function sameSamples(sides: Sides, set: DataSet): Promise<void> {
  const { said: mine } = await answerOf<Moments>(ours(sides, set, "moments"));
  const { said: theirs } = await answerOf<Moments>(
    pytorch(sides, set, "moments", set.ways?.[0] ?? 2),
  );
  const layout = ({ samples, shape, types }: Moments) => JSON.stringify({ samples, shape, types });
  // Where each side draws for itself, the means of thousands of pictures are a hundredth apart.
  const tolerance = set.random ? 5 / Math.sqrt(mine.samples) : 1e-4;
  const near = (name: "input" | "square" | "target") =>
    Math.abs(mine[name] - theirs[name]) <=
      (name === "target" ? 1e-4 : tolerance) * Math.max(1, Math.abs(theirs[name]));
  if (layout(mine) === layout(theirs) && near("input") && near("square") && near("target")) return;
  throw new Error(
    `${set.title}: the sides read different samples: ${JSON.stringify(mine)}, ${JSON.stringify(theirs)}`,
  );
}

// How long the first batch takes, from a program's start and from where its data begins to be opened.

export interface First {
  /** Seconds from the start of the program, and from the construction of data set and loader, of each round. */
  readonly start: number[];
  readonly construction: number[];
}

export interface Firsts {
  readonly hpctrain: First;
  /** By the number of workers. */
  readonly pytorch: Readonly<Record<string, First>>;
}

export async function measureFirst(sides: Sides, set: DataSet, rounds: number, host: Host): Promise<Firsts> {
  const found: Firsts = {
    hpctrain: { start: [], construction: [] },
    pytorch: Object.fromEntries(WORKERS.map((workers) => [workers, { start: [], construction: [] }])),
  };
  const starters = [
    { command: ours(sides, set, "first"), first: found.hpctrain },
    ...WORKERS.map((n) => ({ command: pytorch(sides, set, "first", n), first: found.pytorch[n] })),
  ];
  for (const { command } of starters) await answerOf(command); // everything is in the page cache then
  for (let round = 0; round < rounds; round++) {
    for (const { command, first } of starters) {
      const { said, seconds } = await host.turn(() => answerOf<{ seconds: number }>(command));
      first.start.push(seconds);
      first.construction.push(said.seconds);
    }
  }
  return found;
}

/** The median with the number of workers that serves PyTorch best. */
export function bestOfPytorch({ pytorch }: Firsts, from: keyof First): number {
  return Math.min(...Object.values(pytorch).map((first) => median(first[from])));
}

// The memory of a program and all processes it started, each shared page counted once.

export interface Memory {
  readonly hpctrain: number;
  readonly pytorch: number;
}

/** Most bytes that each side held while it read two epochs with that many workers. */
export async function measureMemory(sides: Sides, set: DataSet, workers: number): Promise<Memory> {
  const peak = async (command: [string, string[]]) => {
    const contestant = await startContestant(...command);
    const done = contestant.round(2).then(() => true);
    let most = 0;
    do most = Math.max(most, memoryOf(contestant.pid)); while (!await Promise.race([done, later(100)]));
    await contestant.end();
    return most;
  };
  return {
    hpctrain: await peak(ours(sides, set, "rounds", workers)),
    pytorch: await peak(pytorch(sides, set, "rounds", workers)),
  };
}

const later = (ms: number) => new Promise<false>((resolve) => setTimeout(() => resolve(false), ms));

/** Bytes: the proportional set sizes (PSS) of a process and of what it started, added up. */
export function memoryOf(pid: number): number {
  const children = new Map<number, number[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    const parent = /^\d+$/.test(name)
      ? Number(/\nPPid:\s*(\d+)/.exec(read(`/proc/${name}/status`))?.[1])
      : NaN;
    if (!Number.isNaN(parent)) children.set(parent, [...children.get(parent) ?? [], Number(name)]);
  }
  const of = (pid: number): number => {
    const own = Number(/\nPss:\s*(\d+) kB/.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) * 1024;
    return (children.get(pid) ?? []).reduce((sum, child) => sum + of(child), own);
  };
  return of(pid);
}

/** A process may end while it is looked at. */
function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
