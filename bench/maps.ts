// `scripts/bench maps`: maps and tables beside xarray, xbatcher and pandas: streamed Zarr and NetCDF, a Parquet
// table, how long many files take to open, and what a masked loss costs. `scripts/bench maps parquet` runs one case.
import { join } from "paths";
import { type Host, openHost, turns } from "./contestant.ts";
import {
  answerOf,
  type DataSet,
  type Effort,
  measureSpeed,
  ours,
  pytorch,
  sameSamples,
  type Sides,
  type Speed,
} from "./loader_sides.ts";
import { waitIn } from "./loader.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

const STREAMED = [
  "--features",
  "maps",
  "--targets",
  "parameters",
  "--normalise",
  "none",
  "--in-memory",
  "no",
];

/** bench/peers/maps.py describes them. */
const WAYS = ["each-0", "each-2", "batch-0", "batch-2", "xbatcher"];
/** Chunks of many maps and files that open_mfdataset joins are hopeless sample by sample; an expert keeps each file open. */
const TOGETHER = ["batch-0", "batch-2", "xbatcher"], BY_FILE = ["each-0", "each-2"];

const zarr = (file: string, codec: string, chunk: string, ways: readonly string[]): DataSet => ({
  title: `Zarr, ${codec}, ${chunk} a chunk: 2,000 maps of 2 x 128 x 128`,
  kind: "zarr",
  file,
  flags: ["--data-type", "zarr", ...STREAMED],
  ways,
  floor: 3,
});
const years = (file: string, how: string, ways: readonly string[], floor: number): DataSet => ({
  title: `NetCDF, ${how}: 12 files of 200 maps of 2 x 128 x 128`,
  kind: "netcdf",
  file,
  flags: ["--data-type", "netcdf", ...STREAMED],
  ways,
  floor,
});
/** Batches of 64 would take longer to compare than the table takes to read. */
const ALL_ROWS = ["--train-samples", "100000000", "--batch-size", "65536"];

const parquet = (codec: string): DataSet => ({
  title: `Parquet, ${codec}: 10 M rows of 20 features and a target`,
  kind: "parquet",
  file: `${codec}.parquet`,
  ways: ["pandas"],
  flags: ["--data-type", "parquet", "--targets", "y", ...ALL_ROWS, "--in-memory", "yes"],
  floor: 5,
});

/** bench/peers/maps_data.py writes the files. */
const streamed: Readonly<Record<string, DataSet>> = {
  zarr_zstd_1: zarr("zstd_1.zarr", "zstd", "one", WAYS),
  zarr_zstd_16: zarr("zstd_16.zarr", "zstd", "sixteen", TOGETHER),
  zarr_blosc_1: zarr("blosc_1.zarr", "Blosc with LZ4", "one", WAYS),
  zarr_blosc_16: zarr("blosc_16.zarr", "Blosc with LZ4", "sixteen", TOGETHER),
  netcdf: years("deflated", "deflated, a map a chunk", TOGETHER, 3),
  netcdf_plain: years("plain", "as xarray writes it, not packed", TOGETHER, 3),
  netcdf_by_file: years("deflated", "deflated, beside files opened one by one", BY_FILE, 1),
};
const tables: Readonly<Record<string, DataSet>> = {
  parquet: parquet("snappy"),
  parquet_zstd: parquet("zstd"),
};
const FILES: DataSet = {
  title: "40 NetCDF files of 1,000 steps",
  kind: "netcdf",
  file: "years",
  flags: [
    "--data-type",
    "netcdf",
    "--features",
    "ice",
    "--targets",
    "ice",
    "--lead",
    "1",
    "--in-memory",
    "no",
  ],
  floor: 1,
};

/** A file is opened, or a table is read, by a program of its own each time, as a user's program does it once. */
interface Opening {
  /** Seconds from where the data begins to be opened, and from the program's start. */
  readonly seconds: number[];
  readonly start: number[];
  /** Bytes that were held at most, above what the program held before. */
  readonly memory: number[];
}

/** The first start knows nothing of the files; later ones know what the user's cache keeps. */
type FileSide = "inspect" | "first" | "later" | "xarray";

interface Found {
  readonly speed: Record<string, Speed>;
  readonly tables: Record<string, Record<"hpctrain" | "pandas", Opening>>;
  files?: Record<FileSide, Opening>;
  masked?: Masked;
}

const FULL: Effort = { rounds: 5, seconds: 1 }, QUICK: Effort = { rounds: 1, seconds: 0.05 };
const TABLE_ROUNDS = 3, FILE_ROUNDS = 5, MASKED_ROUNDS = 5, MASKED_STEPS = 40;
/** They run when they are named, to keep all others within eight minutes. */
const EXTRA = ["zarr_blosc_16", "netcdf_plain"];
const CASES = [...Object.keys(streamed), ...Object.keys(tables), "files", "masked"];

/** `cases`: all of them unless named; the page is written only from all. */
export async function mapsBenchmark(
  p: Programs,
  packages: string,
  quick: boolean,
  cases: readonly string[],
): Promise<void> {
  const unknown = cases.find((name) => !CASES.includes(name));
  if (unknown) throw new Error(`There is no case "${unknown}". There are: ${CASES.join(", ")}.`);
  const about = machine(), host = openHost();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const sides = sidesOf([p.loader], p.python, packages, join(p.data, quick ? "maps-quick" : "maps"));
  makeMaps(sides, quick ? 0.02 : 1);
  const wanted = (name: string) => cases.length === 0 ? !EXTRA.includes(name) : cases.includes(name);
  const found: Found = { speed: {}, tables: {} };
  for (const [name, set] of Object.entries(streamed).filter(([name]) => wanted(name))) {
    found.speed[name] = await measureSpeed(sides, set, quick ? QUICK : FULL, host);
    tell(speedRow(set, found.speed[name]));
  }
  for (const [name, set] of Object.entries(tables).filter(([name]) => wanted(name))) {
    found.tables[name] = await measureTable(sides, set, quick ? 1 : TABLE_ROUNDS, host);
    for (const row of tableRows(set, found.tables[name])) tell(row);
  }
  if (wanted("files")) {
    found.files = await measureFiles(p.exe, sides, quick ? 1 : FILE_ROUNDS, host);
    for (const row of fileRows(found.files)) tell(row);
  }
  if (wanted("masked")) {
    found.masked = await measureMasked(
      p.exe,
      sides.data,
      quick ? [1, 3] : [MASKED_ROUNDS, MASKED_STEPS],
      host,
    );
    tell(maskedRow(found.masked));
  }
  if (!quick && cases.length === 0) write(p, about, host, found);
}

const tell = (row: readonly string[]) => console.log(row.join("  "));

export const sidesOf = (
  worker: readonly string[],
  python: string,
  packages: string,
  data: string,
): Sides => ({
  worker,
  python,
  data,
  peer: { program: new URL("peers/maps.py", import.meta.url).pathname, words: [packages] },
});

export function makeMaps({ python, data, peer }: Sides, share: number): void {
  const maker = new URL("peers/maps_data.py", import.meta.url).pathname;
  const { success, stderr } = new Deno.Command(python, {
    args: ["-B", maker, data, String(share), ...peer!.words],
  }).outputSync();
  if (!success) throw new Error(`${maker} failed: ${new TextDecoder().decode(stderr).slice(-2000)}`);
}

interface Opened {
  readonly seconds: number;
  readonly memory: number;
}

/** A turn that is taken again has a command of its own. */
async function openOnce(command: () => ReturnType<typeof ours>, into: Opening, host: Host): Promise<void> {
  const { said, seconds } = await host.turn(() => answerOf<Opened>(command()));
  into.seconds.push(said.seconds);
  into.start.push(seconds);
  into.memory.push(said.memory);
}

const openings = <S extends string>(...sides: S[]): Record<S, Opening> =>
  Object.fromEntries(
    sides.map((side) => [side, { seconds: [], start: [], memory: [] }]),
  ) as unknown as Record<
    S,
    Opening
  >;

async function measureTable(sides: Sides, set: DataSet, rounds: number, host: Host) {
  await sameSamples(sides, set); // the file is in the page cache then
  const found = openings("hpctrain", "pandas");
  const commands = { hpctrain: ours(sides, set, "open"), pandas: pytorch(sides, set, "open", "pandas") };
  for (const [side] of turns(["hpctrain", "pandas"] as const, rounds)) {
    await openOnce(() => commands[side], found[side], host);
  }
  return found;
}

/** `inspect` reads headers and coordinates, and a look at the values; the first training also reads its targets. */
async function measureFiles(exe: string, sides: Sides, rounds: number, host: Host) {
  const found = openings("inspect", "first", "later", "xarray");
  const path = join(sides.data, FILES.file), caches = Deno.makeTempDirSync();
  const training = (cache: string) =>
    ours(sides, { ...FILES, variables: [`HPCTRAIN_CACHE=${join(caches, cache)}`] }, "open");
  const theirs = pytorch(sides, FILES, "open", "xarray");
  try {
    await answerOf(theirs); // the files come into the page cache
    await answerOf(training("kept"));
    const env = { HPCTRAIN_CACHE: join(caches, "kept") };
    for (let round = 0; round < rounds; round++) {
      await host.turn(() =>
        Promise.resolve(found.inspect.start.push(secondsOf(exe, ["inspect", path], env)))
      );
      await openOnce(() => training(crypto.randomUUID()), found.first, host);
      await openOnce(() => training("kept"), found.later, host);
      await openOnce(() => theirs, found.xarray, host);
    }
  } finally {
    Deno.removeSync(caches, { recursive: true });
  }
  return found;
}

function secondsOf(program: string, args: string[], env: Record<string, string>): number {
  const began = performance.now();
  const { success, stderr } = new Deno.Command(program, { args, env }).outputSync();
  if (!success) throw new Error(`${program} failed: ${new TextDecoder().decode(stderr).slice(-2000)}`);
  return (performance.now() - began) / 1000;
}

/** Milliseconds of a step of each run; the runs take turns. */
interface Masked {
  readonly sea: number[];
  readonly land: number[];
}

/** A unet on the same maps; with land a third of the target is missing. */
async function measureMasked(
  exe: string,
  data: string,
  [rounds, steps]: readonly [number, number],
  host: Host,
): Promise<Masked> {
  const found: Masked = { sea: [], land: [] };
  for (const [side] of turns(["sea", "land"] as const, rounds)) {
    found[side].push(await host.turn(() => Promise.resolve(trainOn(exe, join(data, `${side}.nc`), steps))));
  }
  return found;
}

function trainOn(exe: string, path: string, steps: number): number {
  const saveDir = Deno.makeTempDirSync();
  const flags = [
    [
      "--model",
      "unet",
      "--data-type",
      "netcdf",
      "--data-path",
      path,
      "--features",
      "maps",
      "--targets",
      "later",
    ],
    [
      "--width",
      "8",
      "--depth",
      "2",
      "--missing",
      "mask",
      "--device",
      "cpu",
      "--batch-size",
      "16",
      "--epochs",
      "100",
      "--val-samples",
      "0",
    ],
    ["--max-steps", `${steps}`, "--log-interval", "1", "--run-name", "masked", "--save-dir", saveDir],
    ["--no-wandb", "--quiet"],
  ].flat();
  try {
    const { success, stderr } = new Deno.Command(exe, { args: ["train", ...flags] }).outputSync();
    if (!success) throw new Error(`training failed: ${new TextDecoder().decode(stderr).slice(-2000)}`);
    return waitIn(Deno.readTextFileSync(join(saveDir, "logs", "masked", "events.jsonl"))).millisecondsPerStep;
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

// Rows of the tables, on the screen and on the page.

const times = (ratio: number) => `${ratio.toFixed(ratio < 10 ? 2 : 0)}x`;
const span = (ratios: readonly number[]) =>
  `${times(median(ratios))} (${times(Math.min(...ratios))} to ${times(Math.max(...ratios))})`;
const seconds = (values: readonly number[]) => `${median(values).toFixed(2)} s`;

function speedRow({ title, floor }: DataSet, { workers, rounds }: Speed): string[] {
  const cell = (speeds: readonly number[]) => Math.round(median(speeds)).toLocaleString("en");
  const ratios = rounds.hpctrain.map((speed, round) => speed / rounds.pytorch[round]);
  return [title, cell(rounds.hpctrain), cell(rounds.pytorch), String(workers), span(ratios), times(floor)];
}

/** The columns used, as they are held: f32. */
const TABLE_BYTES = 21 * 10_000_000 * 4;

function tableRows({ title, floor }: DataSet, { hpctrain, pandas }: Found["tables"][string]): string[][] {
  const memory = ({ memory }: Opening) => times(median(memory) / TABLE_BYTES);
  const ratios = pandas.seconds.map((theirs, round) => theirs / hpctrain.seconds[round]);
  return [[
    title,
    seconds(hpctrain.seconds),
    seconds(pandas.seconds),
    span(ratios),
    times(floor),
    memory(hpctrain),
    memory(pandas),
  ]];
}

function fileRows(found: NonNullable<Found["files"]>): string[][] {
  const names = {
    inspect: "hpctrain inspect",
    first: "hpctrain train, the first start",
    later: "hpctrain train, later starts",
    xarray: "xarray",
  } as const;
  return (["inspect", "first", "later", "xarray"] as const).map((side) => [
    `${FILES.title}: ${names[side]}`,
    seconds(found[side].start),
    found[side].seconds.length > 0 ? seconds(found[side].seconds) : "-",
  ]);
}

function maskedRow({ sea, land }: Masked): string[] {
  const step = (values: readonly number[]) => `${median(values).toFixed(1)} ms`;
  return [
    "unet of width 8 on 64 x 64, batch 16",
    step(sea),
    step(land),
    span(land.map((value, round) => value / sea[round])),
    "1.05x",
  ];
}

function write(p: Programs, about: ReturnType<typeof machine>, host: Host, found: Found): void {
  const versions = versionsOf(p);
  const date = new Date().toISOString().slice(0, 10);
  writeResults("maps", {
    command: "./scripts/bench maps",
    date,
    machine: about,
    versions,
    taken: host.taken,
    ...found,
  });
  writePage(
    "maps",
    [
      "# Maps and tables, beside xarray, xbatcher and pandas",
      `\`./scripts/bench maps\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. Both sides read all samples in ` +
      "batches of 64 and a new order each epoch to the same float32 tensors on the CPU, which is checked. The other side " +
      "is what serves it best of xarray in a DataLoader with 0 and 2 workers, sample by sample (each) and batch by batch " +
      `(batch), and xbatcher; many NetCDF files are joined by open_mfdataset, and in the last row kept open one by one, ` +
      `by hand. Medians of ${FULL.rounds} rounds of whole epochs in which the two take turns. ${host.said()}`,
      table(
        [
          "Streamed, samples a second",
          "hpctrain",
          "the other side",
          "its way",
          "Ratio (least to most)",
          "Asked for",
        ],
        Object.entries(found.speed).map(([name, speed]) => speedRow(streamed[name], speed)),
      ),
      `A whole table becomes tensors, in a program of its own each time, medians of ${TABLE_ROUNDS}: ten columns of ` +
      "float32, five of float64, five of whole numbers. pandas reads it with pyarrow in all cores; then it is one " +
      "float32 array. Memory is the most that was held above what the program held before, against the columns as " +
      "they are held in the end (1.2x is asked for).",
      table(
        ["Table", "hpctrain", "pandas", "Ratio (least to most)", "Asked for", "Memory", "pandas"],
        Object.entries(found.tables).flatMap(([name, both]) => tableRows(tables[name], both)),
      ),
      "Until the data is open, from the program's start (1 s is asked for) and from where opening begins. `inspect` " +
      "prints what is there and looks at some values; the first start of training reads its targets whole (104 MB), too, " +
      "and later ones, with what the user's cache keeps, the first time a sample needs them. Each point is a sample " +
      "(25.9 M). xarray is `open_mfdataset`, which reads headers and coordinates.",
      table(["Files", "from the start", "opening"], fileRows(found.files!)),
      "A training step on targets without and with missing points (a third of each), the rest alike.",
      table(["Step", "all points", "masked", "Ratio (least to most)", "Asked for, at most"], [
        maskedRow(found.masked!),
      ]),
    ].join("\n\n"),
  );
}
