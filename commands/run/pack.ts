// `hpctrain pack`: any data set as packed shards, or a table as npz.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { dataKindOf, hasColumns } from "../../core/data/open/formats.ts";
import { asStored, loadDataReader, openData } from "../../core/data/open/open.ts";
import { readerOf } from "../../core/data/open/readers.ts";
import { encodedImages, packingOf } from "../../core/data/shards/samples.ts";
import { openProgress, type Progress } from "../../core/base/progress.ts";
import { type Report, type Who, writeEncoded, writeShards } from "../../core/data/shards/write.ts";
import { cpuCount } from "../../core/base/topology.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../core/base/format.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { writeColumns, writeSamples, type WrittenArchive } from "../../core/data/writers/npz.ts";
import { OPTIONS, SETTINGS, USAGE } from "../pack.ts";
import { isCorpus, packCorpus, refuseInside } from "./pack_text.ts";
import { wholeCounts } from "../../core/settings/counts.ts";
import { isThere } from "../../core/data/arrays/paths.ts";
import { isResampled } from "../../core/data/arrays/resample.ts";
import { digest, fingerprint } from "../../core/data/arrays/remembered.ts";
import type { PackedOrigin, PackPlan } from "../../core/data/shards/schema.ts";
import { readIndex } from "../../core/data/shards/index.ts";
import { chooseColumns, columnList } from "../../core/data/tables/choose.ts";
import type { Column } from "../../core/data/arrays/table.ts";

// `hpctrain pack`: any readable data set -> packed shards.

export async function pack(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const resolved = resolveSettings({
    argv: rest,
    env,
    positionals: Infinity,
    usage: USAGE,
    takes: SETTINGS,
  });
  const { positionals } = resolved;
  if (isCorpus(positionals.slice(0, -1), options)) return await packCorpus(resolved, options);
  const [from, out] = positionals;
  if (positionals.length !== 2) {
    throw new UserError(
      "usage",
      `pack takes a data set and a place for it, or files of text and a folder, but got ${
        formatPlural(positionals.length, "word")
      }. Usage: ${USAGE}, e.g. hpctrain pack photos packed --resize 256.`,
    );
  }
  refuseInside(from, out);
  const keep = options["keep-encoded"];
  const config = asPacked(resolved, from, keep);
  const perShard = shardSize(options["samples-per-shard"]);
  const who = rankContext(env, placeFlags(config.distributed));
  const quiet = who.rank > 0 || config.output.quiet || config.output.json;
  const say = (line: string) => quiet ? undefined : console.log(line);
  const threads = Math.min(config.data.num_workers, cpuCount());
  try {
    openDevice(config);
    await loadDataReader(config.data);
    if (!out.endsWith(".npz")) await packShards(config, { out, perShard, keep, who, threads, quiet, say });
    else if (who.rank === 0) packNpz(config, out, threads, say); // one file, one writer
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

interface PackOptions {
  readonly out: string;
  readonly perShard: number | undefined;
  readonly keep: boolean;
  readonly who: Who;
  readonly threads: number;
  readonly quiet: boolean;
  say(line: string): void;
}

async function packShards(config: Config, options: PackOptions): Promise<void> {
  const { out, perShard, keep, who, quiet, say } = options;
  const began = performance.now();
  const { train, val, notes } = openData(config.data, config.training, config.model);
  notes.forEach(say);
  const packing = keep ? encodedImages(train, val) : packingOf(train, val, options.threads);
  const plan = { ...packing, out, perShard, origin: originOf(config, packing) };
  const line = openProgress("Packing", { quiet });
  let packed = 0;
  const progress = (at: Progress) => {
    packed = at.done - at.kept;
    line.update(at);
  };
  const written = "close" in packing
    ? writeShards(plan, who, packing.make, progress).finally(packing.close)
    : writeEncoded(plan, who, packing.make, progress);
  const report = await written.finally(line.clear);
  const seconds = (performance.now() - began) / 1000;
  const passedOver = "close" in packing ? packing.passedOver() : 0;
  if (config.output.json) {
    return console.log(
      JSON.stringify({
        out,
        rank: who.rank,
        world: who.world,
        samples: plan.samples,
        ...report,
        packed,
        passedOver,
        seconds,
      }),
    );
  }
  if (passedOver > 0) {
    console.log(
      `${formatPlural(passedOver, "bad sample")} could not be read: those after them stand in for them.`,
    );
  }
  if (!report.complete) {
    return say(
      `Rank ${who.rank} of ${who.world} has packed its samples; the last rank to end writes the index.`,
    );
  }
  console.log(
    `Packed ${formatPlural(plan.samples, "sample")} into ${out}: ${summary(report, packed, seconds)}.`,
  );
  say(`Train with it: hpctrain --data-path ${out}`);
}

function summary({ shards, kept, bytes }: Report, packed: number, seconds: number): string {
  const size = `${formatPlural(shards, "shard")}, ${formatBytes(bytes)}`;
  if (packed === 0) return `${size}, all of it was there already`;
  const earlier = kept > 0 ? `, ${formatPlural(kept, "shard")} kept from an earlier run` : "";
  return `${size}, in ${formatDuration(seconds)} (${formatRate(packed / seconds)} samples/s${earlier})`;
}

function shardSize(text: string | undefined): number | undefined {
  const size = text === undefined ? undefined : Number(text);
  if (size === undefined || (Number.isSafeInteger(size) && size >= 1)) return size;
  throw new UserError("usage", `--samples-per-shard must be a whole number from 1 on, but got "${text}".`);
}

// `hpctrain pack SRC OUT.npz`: a table's columns by their names, any other data as x and y.

function packNpz(config: Config, out: string, threads: number, say: (line: string) => void): void {
  const began = performance.now();
  const { arrays, bytes } = hasColumns(config.data)
    ? withColumns(config.data, (columns, notes) => {
      notes.forEach(say);
      return writeColumns(out, columns);
    })
    : samplesTo(out, config, threads, say);
  const seconds = (performance.now() - began) / 1000;
  if (config.output.json) return console.log(JSON.stringify({ out, arrays, bytes, seconds }));
  const names = arrays.map(({ name, shape }) => `${name} [${shape.join(", ")}]`).join(", ");
  console.log(`Wrote ${names} to ${out}: ${formatBytes(bytes)} in ${formatDuration(seconds)}.`);
}

function samplesTo(
  out: string,
  config: Config,
  threads: number,
  say: (line: string) => void,
): WrittenArchive {
  const { data, training, model, output } = config;
  const { train, val, notes } = openData(data, training, model);
  notes.forEach(say);
  const packing = packingOf(train, val, threads);
  const progress = openProgress("Writing", { quiet: output.quiet || output.json });
  try {
    return writeSamples(out, packing, progress.update);
  } finally {
    progress.clear();
    packing.close();
  }
}

/** These settings do not affect packed samples. */
const OF_TRAINING = [
  ...["normalise", "normalise_targets", "mean", "std", "fill", "mask_channel", "scaling", "softening"],
  ...["anomaly", "climatology", "climatology_channel"],
  ...["mixup", "cutmix", "one_hot"],
  ...["augment", "random_crop", "crop_padding", "flip", "rotate", "stage"],
];

/** Images that are not decoded do not depend on these either. */
const OF_DECODING = ["resize", "centre_crop"];

/** All samples are packed, before anything random, on the host. */
export function asPacked({ config, origin, originText }: Resolved, from: string, encoded: boolean): Config {
  const unfit = [...OF_TRAINING, ...(encoded ? OF_DECODING : [])].find((name) =>
    origin(`data.${name}`).kind === "flag"
  );
  if (unfit) {
    throw new UserError(
      "usage",
      `${originText(`data.${unfit}`)} is done in training, on whatever was packed: leave it out here.`,
    );
  }
  const still = { ...asStored(config.data), ...wholeCounts(config.data, origin), stage: "" };
  const size = encoded ? { resize: 0, centre_crop: 1 } : {}; // any sizes will do
  const data = { ...still, ...size, data_path: from };
  return { ...config, data, training: { ...config.training, device: "cpu" } };
}

/** These settings change how data is read, but not what is read. */
const OF_READING = ["num_workers", "in_memory", "prefetch_mib", "shuffle", "data_path"];

export function originOf(
  { data, training, model }: Config,
  { schema, samples, val }: Pick<PackPlan, "schema" | "samples" | "val">,
): PackedOrigin {
  const path = data.data_path, from = isThere(path) ? Deno.realPathSync(path) : path;
  const kind: string = dataKindOf(data);
  const chosen = Object.entries(data).filter(([key]) => !OF_READING.includes(key));
  const { seed, loss, ignore_index } = training;
  const { input_size, output_size } = model;
  const facts = { kind, chosen, seed, loss, ignore_index, input_size, output_size, schema, samples, val };
  return {
    // Repacked samples keep their kind, which decides on normalisation.
    kind: kind === "packed" ? readIndex(from).origin.kind : kind,
    hash: digest(`${fingerprint(from)} ${JSON.stringify(facts)}`),
    said: from,
  };
}

export function withColumns<R>(
  data: Config["data"],
  use: (columns: readonly Column[], notes: readonly string[]) => R,
): R {
  if (data.sel.length > 0 || data.sample_dim !== "" || isResampled(data)) {
    throw new UserError(
      "usage",
      "An .npz gets whole variables, so --sel, --sample-dim, --resample and --coarsen have no place here: choose when training with it, or " +
        "pack the samples into a folder (hpctrain pack DATA FOLDER --sel ...).",
    );
  }
  return readerOf(dataKindOf(data)).table!(data.data_path, (table) => {
    const { columns } = table;
    const { features, targets } = chooseColumns(table, data);
    const all = [...new Set([...features, ...targets])]; // a forecast has some in both
    const left = columns.filter((column) => !all.includes(column));
    const texts = all.flatMap(({ name, text }) =>
      text
        ? [
          `${name} is text, written as its numbers: ${
            text.classes().map((one, i) => `${i} = ${one}`).join(", ")
          }`,
        ]
        : []
    );
    return use(all, [...(left.length > 0 ? [`Left aside: ${columnList(left)}`] : []), ...texts]);
  });
}
