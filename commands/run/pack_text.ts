// `hpctrain pack corpus/*.txt OUT`: text as tokens, with its tokenizer beside them.
import type { parseOptions } from "../../core/settings/options.ts";
import type { Resolved } from "../../core/settings/resolve.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatPlural,
  formatRate,
} from "../../core/base/format.ts";
import { corpusFiles, isNamedAsText } from "../../core/data/text/corpus.ts";
import { isProse } from "../../core/data/text/prose.ts";
import { packText } from "../../core/data/text/pack.ts";
import { openTextProgress } from "../../core/base/progress.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { type OPTIONS, USAGE } from "../pack.ts";
import { isAbsolute, relative, resolve } from "../../deps/path.ts";

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
export function isCorpus(sources: readonly string[], options: Options): boolean {
  if (OF_TEXT.some((name) => options[name] !== undefined && options[name] !== false)) return true;
  if (sources.length === 0 || !sources.every(isNamedAsText)) return false;
  return sources.length > 1 || !/\.txt$/i.test(sources[0]) || isProse(sources[0]);
}

export async function packCorpus({ config, positionals }: Resolved, options: Options): Promise<number> {
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

/** Its files would be taken for samples, and change the data's hash. */
export function refuseInside(from: string, out: string): void {
  const path = relative(resolve(from), resolve(out));
  if (path !== "" && (path.startsWith("..") || isAbsolute(path))) return;
  const where = path === "" ? "is the data to be packed itself" : `is inside the data to be packed (${from})`;
  throw new UserError("usage", `${out} ${where}: name a folder outside it.`);
}
