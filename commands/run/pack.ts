// `hpctrain pack`: any data set as packed shards, or a table as npz.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { hasColumns } from "../../core/data/open/formats.ts";
import { loadDataReader, openData } from "../../core/data/open/open.ts";
import { asPacked, originOf, refuseInside, withColumns } from "../../core/data/open/pack.ts";
import { encodedImages, packingOf } from "../../core/data/formats/packed/samples.ts";
import { openProgress, openTextProgress, type Progress } from "../../core/base/progress.ts";
import { type Report, type Who, writeEncoded, writeShards } from "../../core/data/formats/packed/write.ts";
import { cpuCount } from "../../core/base/cores.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatPlural,
  formatRate,
} from "../../core/base/format.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { writeColumns, writeSamples, type WrittenArchive } from "../../core/data/formats/npz/write.ts";
import { OPTIONS, SETTINGS, USAGE } from "../pack.ts";
import { corpusFiles, isNamedAsText, isProse } from "../../core/data/text/corpus.ts";
import { packText } from "../../core/data/text/pack.ts";

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

// `hpctrain pack corpus/*.txt OUT`: text as tokens, with its tokenizer beside them.

type Options = ReturnType<typeof parseOptions<typeof OPTIONS>>["options"];

const OF_TEXT = [
  "tokenizer",
  "train-tokenizer",
  "pattern",
  "separator",
  "text-field",
  "special-tokens",
] as const;

/** A .txt file may be a table. */
function isCorpus(sources: readonly string[], options: Options): boolean {
  if (OF_TEXT.some((name) => options[name] !== undefined && options[name] !== false)) return true;
  if (sources.length === 0 || !sources.every(isNamedAsText)) return false;
  return sources.length > 1 || !/\.txt$/i.test(sources[0]) || isProse(sources[0]);
}

async function packCorpus({ config, positionals }: Resolved, options: Options): Promise<number> {
  const out = positionals.at(-1)!, sources = positionals.slice(0, -1);
  if (sources.length === 0) {
    throw new UserError(
      "usage",
      `pack takes files of text and a new folder for their tokens. Usage: ${USAGE}, e.g. hpctrain pack corpus/*.txt tokens.`,
    );
  }
  for (const source of sources) refuseInside(source, out);
  // One writer is enough: the others have nothing to do.
  if (rankContext(Deno.env.toObject(), placeFlags(config.distributed)).rank > 0) return EXIT.done;
  const files = corpusFiles(sources), { quiet, json } = config.output;
  const progress = openTextProgress(quiet || json), began = performance.now();
  const made = await packText({
    files,
    out,
    tokenizer: tokenizerOf(options),
    pattern: options.pattern,
    field: options["text-field"] ?? "text",
    separator: options.separator ?? "",
    special: options["special-tokens"],
    share: config.data.validation_split,
    seed: config.training.seed,
    progress: progress.update,
  }).finally(progress.clear);
  const seconds = (performance.now() - began) / 1000;
  if (json) {
    console.log(JSON.stringify({ out, files: files.length, ...made, seconds }));
    return EXIT.done;
  }
  const { train, val } = made,
    bytes = train.bytes + (val?.bytes ?? 0),
    tokens = train.tokens + (val?.tokens ?? 0);
  const documents = train.documents + (val?.documents ?? 0);
  console.log(
    `Packed ${formatPlural(documents, "document")} (${formatBytes(bytes)}) into ${out}: ${
      formatCount(train.tokens)
    } tokens ` +
      `to train with${val ? `, ${formatCount(val.tokens)} to validate with` : ""}, ` +
      `${(bytes / tokens).toFixed(2)} bytes a token, ` +
      `in ${formatDuration(seconds)} (${formatRate(bytes / 1e6 / seconds)} MB/s).`,
  );
  if (!quiet) {
    if (made.by === "ends") {
      console.log("The end of each document validates: they are too few to hold some of them out.");
    }
    if (made.by === "documents") console.log(`${formatPlural(val!.documents, "whole document")} validate.`);
    if (made.end === null) {
      console.log(
        `${made.tokenizer} has no token that ends a document, such as <|endoftext|>: documents follow each other.`,
      );
    }
    console.log(`Train with it: hpctrain --model gpt --data-path ${out}`);
  }
  return EXIT.done;
}

function tokenizerOf(options: Options): string | number {
  const { tokenizer = "bytes", "train-tokenizer": size, pattern } = options;
  if (pattern !== undefined && !tokenizer.endsWith(".tiktoken")) {
    throw new UserError(
      "usage",
      "--pattern is for a .tiktoken file (--tokenizer FILE.tiktoken): leave it out.",
    );
  }
  if (size === undefined) return tokenizer;
  if (options.tokenizer !== undefined) {
    throw new UserError(
      "usage",
      "--tokenizer names a tokenizer, and --train-tokenizer learns one: leave one of them out.",
    );
  }
  const number = Number(size);
  if (Number.isInteger(number) && number > 257 && number <= 2 ** 20) return number;
  throw new UserError(
    "usage",
    `--train-tokenizer takes how many tokens there should be, from 258 to ${2 ** 20}, but got "${size}".`,
  );
}
