// The tables of docs/benchmarks.md, made from all results: the chief comparisons, and every one in which hpctrain is slower.
import { formatBytes } from "../core/base/format.ts";
import { type JobRow, titleOf } from "./jobs_page.ts";
import { median, table } from "./report.ts";

/** A file of bench/results. */
export interface ResultsFile {
  /** Without its ending. */
  readonly name: string;
  readonly text: string;
}

/** A figure of hpctrain's, and the best of those that a user would otherwise run. */
export interface Comparison {
  readonly what: string;
  readonly ours: string;
  readonly theirs: string;
  /** How many times as fast hpctrain is, or as little memory it takes. */
  readonly ratio: number;
  /** It stands on the page, whoever wins. */
  readonly chief: boolean;
  /** As typed, where a command line of hpctrain's gave the figure: README shows no other. */
  readonly command?: string;
}

// deno-lint-ignore no-explicit-any
type Json = any;
type Times = Readonly<Record<string, number>>;

const seconds = (value: number): string =>
  value >= 1 ? `${value.toFixed(1)} s` : value >= 1e-3 ? `${(1e3 * value).toPrecision(3)} ms` : micros(value);
const micros = (value: number): string => `${(1e6 * value).toFixed(0)} us`;
const many = (unit: string) => (value: number): string =>
  `${value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toFixed(1)} ${unit}`;
const megabytes = (value: number): string => `${(value / 2 ** 20).toFixed(0)} MB`;

interface Kind {
  readonly say: (value: number) => string;
  /** More is better. */
  readonly more: boolean;
}

const TIME: Kind = { say: seconds, more: false };
const MEMORY: Kind = { say: megabytes, more: false };
const rate = (unit: string): Kind => ({ say: many(unit), more: true });

/** The best of the others stands beside ours, by its name where there are several. */
function compared(kind: Kind, what: string, ours: number, others: Times, chief = false): Comparison[] {
  const names = Object.keys(others).filter((name) => others[name] !== undefined);
  if (names.length === 0 || ours === undefined) return [];
  const best = names.reduce((a, b) => (others[b] > others[a]) === kind.more ? b : a);
  const ratio = kind.more ? ours / others[best] : others[best] / ours;
  return [{ what, ours: kind.say(ours), theirs: `${kind.say(others[best])}, ${best}`, ratio, chief }];
}

const byCommand = ({ command }: { command?: string }, found: Comparison[]): Comparison[] =>
  found.map((one) => ({ ...one, ...(command ? { command } : {}) }));

/** The medians of those that were measured, as seconds where they are microseconds. */
const medians = (rounds: Json, names: Readonly<Record<string, string>>, factor = 1): Times =>
  Object.fromEntries(
    Object.entries(names).filter(([key]) => rounds[key]).map((
      [key, name],
    ) => [name, factor * median(rounds[key])]),
  );

const mediansOf = (rounds: Readonly<Record<string, number[]>>): Times =>
  Object.fromEntries(Object.entries(rounds).map(([side, all]) => [side, median(all)]));

const PYTORCH = {
  eager: "eager",
  compile: "torch.compile",
  "reduce-overhead": "reduce-overhead",
};

/** A kind of work each, as README has no room for all; every one that is lost stands there too. */
const CHIEF_JOBS: ReadonlySet<string> = new Set(
  ["small-table", "photos", "maps", "gpt", "fine-tune"].map((name) => `${name}, 2 threads`),
);

/** The readers of results, by the beginning of the file's name, which is the name of the benchmark's page too. */
const READERS: Readonly<Record<string, (found: Json) => Comparison[]>> = {
  compile: ({ cases }) =>
    cases.flatMap(({ title, rounds, first }: Json) => {
      const what = `${/^[^,;]*/.exec(title)![0]}; ${/[^;,]+$/.exec(title)![0].trim()}`;
      const others = medians(rounds, PYTORCH, 1e-6);
      return [
        ...compared(
          TIME,
          `${what}, \`--compile\``,
          1e-6 * median(rounds.fast),
          others,
        ),
        ...compared(TIME, `${what}, \`--compile=exact\``, 1e-6 * median(rounds.exact), others),
        ...compared(
          TIME,
          `${what}, op by op`,
          1e-6 * median(rounds.off),
          medians(rounds, { eager: PYTORCH.eager }, 1e-6),
        ),
        ...compared(TIME, `${what}, \`--compile\`: the first two steps`, first.fast, {
          "torch.compile": first.compile,
        }),
      ];
    }),
  jobs: ({ rows }) =>
    Object.entries<JobRow>(rows).flatMap(([key, row]) => {
      const { hpctrain, "hpctrain --compile": fast, ...others } = row.sides;
      const what = `${titleOf(row)}, ${row.threads === 1 ? "one thread" : `${row.threads} threads`}`;
      const theirs = mediansOf(
        Object.fromEntries(Object.entries(others).map(([side, { seconds }]) => [side, seconds])),
      );
      return [hpctrain, fast].flatMap((own) => {
        if (own === undefined) return [];
        const [title, chief] = own === fast ? [`${what}, \`--compile\``, false] : [what, CHIEF_JOBS.has(key)];
        return byCommand(own, compared(TIME, title, median(own.seconds), theirs, chief));
      });
    }),
  // Results of before 2026-11-28 have steps of another program, which are not read.
  step: ({ startSeconds, steps = {} }) => [
    ...["warm", "cold"].flatMap((how) => {
      const { hpctrain, eager } = startSeconds[how];
      return byCommand(
        { command: startSeconds.commands?.hpctrain },
        compared(TIME, `start to the first step done, ${how}`, median(hpctrain), {
          Python: median(eager),
        }, how === "warm"),
      );
    }),
    ...Object.values<Json>(steps).flatMap(({ title, commands, rounds, peak }) => {
      const { hpctrain: own, "hpctrain --compile": fast, ...others } = rounds;
      const theirs = mediansOf(others), what = `a step of ${title.replace(/, .*/, "")}`;
      const inSeconds = Object.fromEntries(Object.entries(theirs).map(([side, time]) => [side, 1e-6 * time]));
      return [
        ...byCommand(
          { command: commands.hpctrain },
          compared(TIME, what, 1e-6 * median(own), inSeconds, true),
        ),
        ...byCommand(
          { command: commands["hpctrain --compile"] },
          compared(TIME, `${what}, \`--compile\``, 1e-6 * median(fast), inSeconds),
        ),
        ...compared(MEMORY, `memory of ${title.replace(/, .*/, "")}`, peak.hpctrain, {
          eager: peak["PyTorch eager"],
        }, title.startsWith("GPT")),
      ];
    }),
  ],
  loader: ({ speed, first, memory, others = [] }) => [
    ...others.flatMap(({ set, other, speed: { rounds } }: Json) =>
      compared(rate("samples/s"), `reading ${DATA[set]}`, median(rounds.hpctrain), {
        [OTHER_LOADERS[other]]: median(rounds.pytorch),
      }, true)
    ),
    ...Object.entries<Json>(speed).flatMap(([name, { rounds }]) =>
      compared(
        rate("samples/s"),
        `reading ${DATA[name]}`,
        median(rounds.hpctrain),
        { DataLoader: median(rounds.pytorch) },
        /^(imagefolder|recipe|hdf5|packed_maps)$/.test(name),
      )
    ),
    ...Object.entries<Json>(first).flatMap(([name, { hpctrain, pytorch }]) =>
      (["start", "construction"] as const).flatMap((from) =>
        compared(
          TIME,
          `first batch of ${DATA[name]}, from the ${from === "start" ? "program" : "loader"}'s start`,
          median(hpctrain[from]),
          {
            DataLoader: Math.min(...Object.values<Json>(pytorch).map((of) => median(of[from]))),
          },
        )
      )
    ),
    ...Object.entries<Json>(memory).flatMap(([name, { hpctrain, pytorch }]) =>
      compared(MEMORY, `memory of reading ${DATA[name]}`, hpctrain, { DataLoader: pytorch })
    ),
  ],
  maps: ({ speed, tables, files }) => [
    ...Object.entries<Json>(speed).flatMap(([name, { rounds }]) =>
      compared(
        rate("samples/s"),
        `reading ${DATA[name] ?? DATA[`maps_${name}`]}`,
        median(rounds.hpctrain),
        {
          [name === "netcdf_by_file" ? "one by one, by hand" : "xarray, xbatcher"]: median(rounds.pytorch),
        },
        name === "zarr_zstd_1",
      )
    ),
    ...Object.entries<Json>(tables).flatMap(([name, { hpctrain, pandas }]) =>
      compared(TIME, `10 M rows of ${DATA[name]}`, median(hpctrain.seconds), {
        pandas: median(pandas.seconds),
      }, true)
    ),
    ...(["first", "later"] as const).flatMap((when) =>
      compared(TIME, `opening 40 NetCDF files, ${when} start`, median(files[when].seconds), {
        xarray: median(files.xarray.seconds),
      })
    ),
  ],
  save: ({ rounds }) => {
    const of = (side: string, key: string) => median(rounds[side].map((one: Json) => one[key]));
    const safe = { "torch.save, fsync": of("safe", "stall") };
    return [
      ...compared(TIME, "a save of 504 MB holds training", of("training", "stall"), safe, true),
      ...compared(TIME, "a save beside training until in place", of("training", "seconds"), safe),
      ...compared(TIME, "a save that training waits for", of("synchronous", "seconds"), safe),
    ];
  },
  files: ({ ours, python }) =>
    compared({ say: many("files"), more: false }, "opened until the first step", ours.opened, {
      torchrun: python.opened,
    }, true),
  ddp: (found) =>
    (["convnet", "gpt"] as const).flatMap((name) => {
      const of = (side: string, key: string) => median(found[name][side].map((one: Json) => one[key]));
      const what = `2 ranks, ${name === "gpt" ? "GPT 4 x 128" : "simple-convnet"}`;
      return [
        ...compared(
          rate("samples/s"),
          what,
          of("two", "rate"),
          { torchrun: of("torchrun", "rate") },
          true,
        ),
        ...compared(TIME, `${what}, first step`, of("two", "first"), { torchrun: of("torchrun", "first") }),
      ];
    }),
  allreduce: ({ sizes, found }) =>
    ["Open MPI", "MPICH"].flatMap((mpi) =>
      sizes.flatMap((size: number, i: number) =>
        compared(TIME, `all-reduce of ${formatBytes(size)}, ${mpi}`, found[mpi][i], {
          Gloo: found["PyTorch, Gloo"][i],
        }, i === 4)
      )
    ),
  exported: ({ stepMicroseconds }) =>
    Object.entries<Json>(stepMicroseconds).flatMap(([name, { exported, eager }]) =>
      compared(TIME, `${name} of a .pt2, op by op`, 1e-6 * median(exported), {
        [PYTORCH.eager]: 1e-6 * median(eager),
      })
    ),
  generate: ({ rows }) =>
    rows.flatMap(({ title, threads, rates }: Json) =>
      compared(
        rate("tokens/s"),
        `generate, ${title}, ${threads} thread${threads > 1 ? "s" : ""}`,
        median(rates.hpctrain),
        {
          [PYTORCH.eager]: median(rates.eager),
        },
      )
    ),
  "gpu-check": ({ device, rows }) =>
    rows.filter(({ name, detail }: Json) => name.startsWith("step time: ") && detail).flatMap(
      ({ detail }: Json) => {
        const { captured, fast, plain, hpctrain, ...others } = detail.medians ??
          mediansOf(detail.milliseconds);
        const named = Object.entries<number>(others).map((
          [side, ms],
        ) => [PYTORCH[side as keyof typeof PYTORCH], ms / 1e3]);
        const ours = Math.min(...[captured, fast, plain, hpctrain].filter((ms) => ms !== undefined)) / 1e3;
        return compared(
          TIME,
          `${detail.spec.title}; ${device.split(" ")[1]}`,
          ours,
          Object.fromEntries(named),
          true,
        );
      },
    ),
  gpusteps: ({ device, rows }) =>
    Object.values<Json>(rows).flatMap(({ title, ways }) => {
      const { "as it comes": own, captured: _, eager, ...more } = ways;
      const others = { eager, ...more };
      const measured = Object.entries<Json>(others).filter(([, way]) => way?.ms);
      return byCommand(
        own,
        compared(
          TIME,
          `a step of ${title}; ${device.split(" ")[1]}`,
          own.ms / 1e3,
          Object.fromEntries(measured.map(([name, { ms }]) => [name, ms / 1e3])),
          "reduce-overhead" in more, // torch.compile's default waits for the host in short steps
        ),
      );
    }),
};

const OTHER_LOADERS: Readonly<Record<string, string>> = {
  dali: "DALI",
  ffcv: "FFCV",
  ffcv_raw: "FFCV, pixels",
};

const DATA: Readonly<Record<string, string>> = {
  mnist: "MNIST in memory",
  imagefolder: "JPEGs of 224 x 224",
  images_own: "JPEGs of 224 x 224 without libturbojpeg",
  recipe: "JPEGs with RandAugment",
  crops: "JPEGs with resized crops",
  hdf5: "HDF5 maps, one a chunk",
  hdf5_16: "HDF5 maps, sixteen a chunk",
  netcdf: "NetCDF maps, one a chunk",
  netcdf_16: "NetCDF maps, sixteen a chunk",
  packed_vectors: "packed vectors",
  packed_maps: "packed maps",
  zarr_zstd_1: "Zarr maps (zstd), one a chunk",
  zarr_zstd_16: "Zarr maps (zstd), sixteen a chunk",
  zarr_blosc_1: "Zarr maps (Blosc), one a chunk",
  maps_netcdf: "12 NetCDF files of maps",
  netcdf_by_file: "12 NetCDF files of maps",
  parquet: "Parquet (snappy)",
  parquet_zstd: "Parquet (zstd)",
};

/** The comparisons of one file of results, none where it has none, and the benchmark's name. */
function comparisonsOf({ name, text }: ResultsFile): (Comparison & { bench: string; date: string })[] {
  const bench = Object.keys(READERS).find((bench) => name === bench || name.startsWith(`${bench}-`));
  if (bench === undefined) return [];
  const found = JSON.parse(text);
  return READERS[bench](found).map((one) => ({ ...one, bench, date: found.date }));
}

type Dated = ReturnType<typeof comparisonsOf>[number];

const shown = (rows: readonly Dated[]): string =>
  table(
    ["", "hpctrain", "beside it", "ratio", "by"],
    rows.map(({ what, ours, theirs, ratio, bench, date }) => [
      what,
      ours,
      theirs,
      `${ratio.toFixed(ratio < 10 ? 2 : 0)}x`,
      `${bench}, ${date.slice(5)}`,
    ]),
  );

/** The two tables of the page, each with its title: the chief comparisons that are won, and all that are lost. */
export function headlines(files: readonly ResultsFile[]): string {
  const all = files.flatMap(comparisonsOf);
  const lost = all.filter(({ ratio }) => ratio < 0.995).toSorted((a, b) => a.ratio - b.ratio);
  return [
    "### Faster, or smaller",
    shown(all.filter(({ chief, ratio }) => chief && ratio >= 0.995)),
    `### Slower: ${lost.length} of ${all.length} comparisons`,
    shown(lost),
  ].join("\n\n");
}

/** README's table of what command lines gave: the chief comparisons, and every one that is lost. */
export const byCommandLine = (files: readonly ResultsFile[]): string =>
  shown(
    files.flatMap(comparisonsOf).filter(({ chief, command, ratio }) => command && (chief || ratio < 0.995)),
  );
