// `hpctrain generate-data`: made universes, or the quickstart's fields, as packed shards.
import { describeDefault, helpLine, placeholder } from "../../core/settings/reference.ts";
import { choice, type ConfigOf, int, path, type Setting } from "../../core/settings/setting.ts";
import { type OptionSpec, parseOptions } from "../../core/settings/options.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { defaultConfig } from "../../core/settings/settings.ts";
import { flagOrigin, fromText } from "../../core/settings/values.ts";
import type { Generator, Made } from "../../core/data/format.ts";
import { loadAllReaders } from "../../core/data/open/readers.ts";
import { bytesOf, gaussianFields, packMade } from "../../core/data/synthetic/generate.ts";
import { openProgress } from "../../core/base/progress.ts";
import type { Report } from "../../core/data/shards/write.ts";
import { usableCores } from "../../core/base/topology.ts";
import { type RankContext, rankContext } from "../../core/ranks/context.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatDuration, formatPlural } from "../../core/base/format.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";

const EXAMPLES = [
  "hpctrain generate-data --data-type 2lpt --samples 2000 --val-samples 200 --out maps",
  "srun -n 16 ./hpctrain generate-data --data-type des --samples 100000 --out /scratch/des --masked 0.3",
];
const MOST = 2 ** 31 - 1;

const FIELDS = {
  grid: int(32, { min: 4, max: 1024, help: "pixels along the side of a map" }),
  maps: int(1, { min: 1, max: 64, help: "channels" }),
} satisfies Options;

/** The options that each type takes beside the common ones, and how it is made. */
const GENERATORS: Readonly<Record<string, Generator>> = {
  ...Object.fromEntries(
    (await loadAllReaders()).flatMap(([kind, { generator }]) => generator ? [[kind, generator]] : []),
  ),
  synthetic: {
    options: FIELDS,
    make(values, { seed, samples, val_samples }) {
      const { grid, maps } = values as ConfigOf<typeof FIELDS>;
      return gaussianFields(samples, val_samples, seed, grid, maps);
    },
  },
};
const TYPES = Object.keys(GENERATORS);

const USAGE = `hpctrain generate-data --data-type ${TYPES.join("|")} --samples N --out DIR [OPTIONS]`;

type Options = Readonly<Record<string, Setting>>;

/** These three have to be given. */
const NEEDED = ["data_type", "samples", "out"] as const;
const COMMON = {
  data_type: choice(TYPES, TYPES[0], { empty: "needed", help: "what is made" }),
  samples: int(1, { min: 1, max: MOST, empty: "needed", help: "to train with" }),
  out: path("", { empty: "needed", help: "folder for the shards" }),
  val_samples: int(0, { min: 0, max: MOST, empty: "none", help: "to validate with, made beside them" }),
  seed: int(0, { min: 0, max: Number.MAX_SAFE_INTEGER, help: "start of all random numbers" }),
  samples_per_shard: int(0, {
    min: 0,
    max: MOST,
    empty: "as many as take 64 MiB, or a 256th of all",
    help: "in one file",
  }),
  threads: int(0, {
    min: 0,
    max: 1024,
    empty: "all cores, shared by the ranks here",
    help: "that make samples",
  }),
  libtorch: path("", { empty: "the one found", help: "folder of libtorch" }),
} satisfies Options;
type Common = ConfigOf<typeof COMMON>;

const flagOf = (name: string) => name.replaceAll("_", "-");

/** The exit code. */
export async function generateData(argv: string[]): Promise<number> {
  if (argv.includes("--help") || argv.includes("-h")) {
    console.log(help());
    return EXIT.done;
  }
  const { common, own } = read(argv);
  const place = rankContext(Deno.env.toObject());
  try {
    const config = defaultConfig();
    config.environment.libtorch = common.libtorch;
    config.training.device = "cpu";
    const { libtorch } = openDevice(config);
    const made = GENERATORS[common.data_type].make(own, common);
    if (place.rank === 0) console.log(intent(made, common.out, place));
    const { update: progress, clear } = openProgress("Generating", { quiet: place.rank > 0 });
    const began = performance.now();
    const report = await packMade(made, {
      out: common.out,
      perShard: common.samples_per_shard || undefined,
      who: place,
      threads: common.threads || Math.max(1, Math.floor(usableCores() / place.localWorld)),
      libtorch,
      progress,
    }).finally(clear);
    console.log(ending(report, common, (performance.now() - began) / 1000));
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

function intent(made: Made, out: string, { world, description: place }: RankContext): string {
  const { train, val, description, targets } = made;
  const samples = formatPlural(train.length + (val?.length ?? 0), "sample");
  return `Generating ${samples} of [${train.input.shape.join(", ")}] (${
    formatBytes(bytesOf(made))
  }) into ${out}: ` +
    `${description} -> ${targets.join(", ")}.${world > 1 ? ` ${place}` : ""}`;
}

function ending(
  { shards, written, kept, bytes, complete }: Report,
  { data_type, out }: Common,
  seconds: number,
): string {
  const all = `${formatPlural(shards, "shard")} in ${out} (${formatBytes(bytes)})`;
  if (!complete) {
    return `Wrote ${formatPlural(written, "shard")} in ${
      formatDuration(seconds)
    }. Other ranks are at theirs; ` +
      "the last of them writes the index.";
  }
  const type = data_type === "synthetic" ? "packed" : data_type;
  const before = kept > 0 ? `, found ${kept} there` : "";
  return [
    written === 0
      ? `Nothing to do: ${all} are there.`
      : `Wrote ${formatPlural(written, "shard")} in ${formatDuration(seconds)}${before}: ${all}.`,
    `Train on them: hpctrain --model cosmo-cnn --data-type ${type} --data-path ${out}`,
  ].join("\n");
}

/**
 * Checked values: of the options of all types, and of this type's own. Of a job, some may come from its environment
 * (SAMPLES, OUT, DATA_TYPE): what is lacking then is not `complete`.
 */
export function read(
  argv: readonly string[],
  complete = true,
): { common: Common; own: Record<string, unknown> } {
  const every: Options = Object.assign(
    {},
    ...Object.values(GENERATORS).map(({ options }) => options),
    COMMON,
  );
  const specs = Object.entries(every).map(([name, { kind, help }]): [string, OptionSpec] => [
    flagOf(name),
    kind === "bool" ? { kind, help } : { kind: "text", help, value: placeholder(every[name]) },
  ]);
  const { options: given, positionals } = parseOptions(argv, Object.fromEntries(specs), USAGE);
  if (positionals.length > 0) {
    throw new UserError(
      "usage",
      `generate-data takes options only, and got "${positionals[0]}". Usage: ${USAGE}`,
    );
  }
  const value = (name: string, setting: Setting) => {
    const text = given[flagOf(name)];
    if (typeof text === "boolean") return text;
    return text === undefined
      ? setting.default
      : fromText({ path: name, setting }, text, flagOrigin(flagOf(name))).value;
  };
  const valuesOf = (options: Options) =>
    Object.fromEntries(Object.entries(options).map(([name, setting]) => [name, value(name, setting)]));
  const missing = NEEDED.find((name) => complete && !given[flagOf(name)]);
  if (missing) {
    throw new UserError(
      "usage",
      `generate-data needs --${flagOf(missing)}: ${COMMON[missing].help}. Usage: ${USAGE}`,
    );
  }
  const common = valuesOf(COMMON) as Common, own = GENERATORS[common.data_type].options;
  const typed = complete || given["data-type"] !== undefined;
  const idle = Object.keys(every).find((name) =>
    typed &&
    (given[flagOf(name)] ?? false) !== false && !(name in own) && !(name in COMMON)
  );
  if (idle) {
    throw new UserError(
      "usage",
      `--${flagOf(idle)} has no effect on data of type ${common.data_type}: leave it out.` +
        didYouMean(flagOf(idle), Object.keys(own).map(flagOf)),
    );
  }
  return { common, own: valuesOf(own) };
}

function help(): string {
  const lines = (options: Options) =>
    Object.entries(options).map(([name, setting]) => {
      const value = setting.kind === "bool" ? "" : ` ${placeholder(setting)}`;
      return helpLine(`--${flagOf(name)}${value}`, `${setting.help} [${describeDefault(setting)}]`);
    }).join("\n");
  const blocks = Object.entries(GENERATORS).map(([type, { options }]) => `Of ${type}\n${lines(options)}`);
  return [
    `${USAGE}\n\nMakes a data set and writes it as packed shards. Ranks share the work; after a kill, the same ` +
    "command\ngoes on where it was. extensions/universes/README.md says what is simulated, and how.",
    `Examples\n${EXAMPLES.map((example) => `  ${example}`).join("\n")}`,
    lines(COMMON),
    ...blocks,
  ].join("\n\n");
}
