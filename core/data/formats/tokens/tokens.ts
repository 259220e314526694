import { isFolder } from "../../../base/files.ts";
import { basename } from "../../../../deps/path.ts";
import { borrowBytes, tensor, uninitialised } from "../../../../ffi/make.ts";
import { asStrided, contiguous, indexSelect, narrow, toDtype } from "../../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import { UserError } from "../../../base/errors.ts";
import { formatBytes, formatCount, formatPlural } from "../../../base/format.ts";
import type { DataReader, DataRequest, Sources } from "../../format.ts";
import { withFiles } from "../../arrays/files.ts";
import { type Batch, type Source, source, threadedSource } from "../../source/source.ts";
import { checkFreeMemory, heldInMemory } from "../../../base/memory.ts";
import { CONTEXT } from "../../synthetic/synthetic.ts";
import { type About, type PartAbout, readAbout } from "../../text/open.ts";
import { vocabularyBeside, vocabularyOfBytes } from "../../text/vocabulary.ts";
import { tokenFilesIn } from "./format.ts";
import { findTokens, largestToken, type TokenFile, tokenNumbers, type TokenSpan } from "./file.ts";
import { planWindows, tokensReader, type TokensSpec, widenInto, type WindowsPlan } from "./reader.ts";
import type { Preview } from "../../preview/preview.ts";
import { loadReader } from "../../source/reader.ts";

/** Training windows begin where --windows says; validation windows stand side by side. */
function openTokens({ data, training: { seed }, model }: DataRequest): Sources {
  const path = data.data_path, context = model.context || CONTEXT;
  return withFiles((open) => {
    const names = filesOf(path);
    const found = (name: string) => findTokens(open(name), data.token_type);
    const train = names.train.map(found);
    const val = names.val.map(found);
    const all = [...train, ...val];
    const width = all.some((tokens) => tokens.width === 4) ? 4 : 2;
    const bytes = count(all) * width;
    const inMemory = heldInMemory(data.in_memory, bytes);
    if (inMemory) checkFreeMemory(path, bytes, null, "Read it from its files (--in-memory no).");
    // With a known vocabulary, streamed windows are checked one by one instead of all at once.
    const about = isFolder(path) ? readAbout(path) : null;
    const known = model.vocab_size || (about?.vocabulary ?? 0);
    const isText = all.every(({ text }) => text), mixed = all.find(({ text }) => text);
    const largest = (known > 0 ? !inMemory : isText)
      ? null
      : all.reduce((most, tokens) => Math.max(most, largestToken(open, tokens, known)), 0);
    if (mixed && !isText) {
      throw new UserError(
        "data",
        `${mixed.mark.path} is text, and other files of ${path} are tokens: pack the text (hpctrain pack), or take it out.`,
      );
    }
    const bytesAlone = data.token_type === "uint8" || isText; // another text may have any of them
    const vocabulary = known || (bytesAlone ? 256 : largest! + 1);
    const share = val.length === 0 && data.val_samples > 0 ? data.validation_split : 0;
    const { kept, held } = cutEnds(train, val, share);
    const make = inMemory ? fromMemory : fromFiles;
    const sized = (part: PartAbout | null | undefined) =>
      isText ? 1 : part && part.tokens > 0 ? part.bytes / part.tokens : undefined;
    const windows = (
      kind: WindowsPlan["kind"],
      parts: readonly TokenSpan[],
      most: number,
      bytesPerToken = sized(about?.train),
    ): Source | null => {
      const plan = { kind, lengths: parts.map(({ length }) => length), context, most, seed };
      return planWindows(plan).length === 0 ? null : {
        ...make({ path, parts, plan, width, vocabulary, bad: data.bad_samples, open }),
        ...{ bytesPerToken, vocabulary: isText ? vocabularyOfBytes : () => vocabularyBeside(path) },
      };
    };
    const random = windows(data.windows, kept, data.train_samples);
    if (random === null) throw tooFew(path, count(kept), context);
    const why = data.in_memory === "no"
      ? "--in-memory no"
      : `${formatBytes(bytes)} is more than a quarter of what is free`;
    return {
      train: random,
      ...(val.length > 0 && data.val_samples > 0 && { divided: val[0].mark.path }),
      val: windows("tiled", held, data.val_samples, sized(about?.val ?? about?.train)),
      notes: [
        `Tokens are ${[...new Set(all.map(({ type }) => type))].join(" and ")}` + tokenizerNote(about) +
        (largest === null ? "" : `, the largest is ${largest}`) + `; ${formatPlural(all.length, "file")}` +
        (share > 0 ? `, of which the last ${formatCount(count(held))} tokens validate` : "") +
        (model.context > 0 ? "" : ". --context sets the length of a window"),
        ...(inMemory
          ? []
          : [`Windows are read from the ${all.length > 1 ? "files" : "file"} one by one: ${why}`]),
      ],
    };
  });
}

const tokenizerNote = (about: About | null): string =>
  about === null
    ? ""
    : ` by ${about.tokenizer} (${(about.train.bytes / about.train.tokens).toFixed(2)} bytes of text a token)`;

/** Without a validation file, the end of each file validates. */
function cutEnds(
  train: readonly TokenFile[],
  val: readonly TokenFile[],
  share: number,
): { kept: readonly TokenSpan[]; held: readonly TokenSpan[] } {
  if (share === 0) return { kept: train, held: val };
  const cuts = train.map(({ length }) => length - Math.floor(length * share));
  return {
    kept: train.map((tokens, i) => ({ ...tokens, length: cuts[i] })),
    held: train.map((tokens, i) => ({
      ...tokens,
      at: tokens.at + cuts[i] * tokens.width,
      length: tokens.length - cuts[i],
    })),
  };
}

interface Parts {
  readonly path: string;
  readonly parts: readonly TokenSpan[];
  readonly plan: WindowsPlan;
  readonly width: 2 | 4;
  readonly vocabulary: number;
  readonly bad: "fail" | "skip";
  open(path: string): FileBytes;
}

const factsOf = ({ path, parts, plan, vocabulary }: Parts) => ({
  name: path,
  task: "language" as const,
  outputs: vocabulary,
  fields: ["tokens", "next tokens"] as const,
  description: `${path}: windows of ${plan.context} in ${
    formatCount(count(parts))
  } tokens out of ${vocabulary}`,
  finish: ({ input, target }: Batch) => ({ input: toDtype(input, "i64"), target: toDtype(target, "i64") }),
});

const dtypeOf = (width: 2 | 4) => width === 4 ? "u32" : "u16";

function fromMemory(all: Parts): Source {
  const { plan } = all, windows = planWindows(plan);
  const row = keep(joined(all));
  return source({
    ...factsOf(all),
    length: windows.length,
    raw: (ids, epoch) =>
      gather(row, BigInt64Array.from(ids, (id) => BigInt(windows.startOf(id, epoch))), plan.context),
  });
}

function joined({ parts, width, open }: Parts): Tensor {
  const row = uninitialised([count(parts)], { dtype: dtypeOf(width) });
  const bytes = borrowBytes(row);
  let place = 0;
  for (const { mark, at, length, width: own } of parts) {
    const into = bytes.subarray(place, place += length * width);
    if (own === width) open(mark.path).readInto(at, into);
    else widenInto(open(mark.path).read(at, length * own), own, into, width);
  }
  return row;
}

function fromFiles(all: Parts): Source {
  const { parts, plan, width, vocabulary, bad } = all;
  const reader: TokensSpec = { module: tokensReader, parts, plan, width, vocabulary };
  const field = (name: string) => ({ name, shape: [plan.context], dtype: dtypeOf(width) } as const);
  const facts = factsOf(all);
  return threadedSource({
    ...facts,
    length: planWindows(plan).length,
    indices: null,
    reader,
    stored: field(facts.fields[0]),
    target: field(facts.fields[1]),
    bad,
  });
}

/** Row i is the window that begins at i; each target is the token after its input. */
function gather(row: Tensor, starts: BigInt64Array, context: number): Batch {
  const windows = asStrided(row, [row.numel - context, context + 1], [1, 1]);
  const rows = indexSelect(windows, 0, tensor(starts));
  return { input: contiguous(narrow(rows, 1, 0, context)), target: contiguous(narrow(rows, 1, 1, context)) };
}

function filesOf(path: string): { train: string[]; val: string[] } {
  const found = isFolder(path) ? tokenFilesIn(path) : { train: [path], val: [] };
  if (found.train.length > 0) return found;
  throw new UserError(
    "data",
    `${path} has no file of training tokens in it: looked for train.bin, or names such as x_train_000001.bin.`,
  );
}

const count = (parts: readonly TokenSpan[]) => parts.reduce((sum, { length }) => sum + length, 0);

function tooFew(path: string, found: number, context: number): UserError {
  return new UserError(
    "data",
    `${path} has ${
      formatPlural(found, "token")
    } to train with, too few for a window of ${context} and the token ` +
      "after it: set a smaller --context, or use more text.",
  );
}

function previewTokens<R>(path: string, use: (preview: Preview) => R): R {
  return withFiles((open) => {
    const names = filesOf(path);
    const about = isFolder(path) ? readAbout(path) : null;
    const found = [...names.train, ...names.val].map((name) => {
      const bytes = open(name);
      return { ...findTokens(bytes), name: basename(name), bytes };
    });
    return use({
      path,
      kind: "files of tokens",
      bytes: found.reduce((sum, { bytes }) => sum + bytes.size, 0),
      samples: null,
      row: "token",
      noun: "file",
      facts: {
        stored: [...new Set(found.map(({ type }) => type))].join(" and "),
        ...(about && { tokenizer: `${about.tokenizer}, ${formatPlural(about.vocabulary, "token")}` }),
        "validate with": names.val.length > 0
          ? names.val.map((name) => basename(name)).join(", ")
          : "no file of its own",
      },
      fields: found.map(({ bytes, name, at, length, width }) => ({
        name,
        shape: [length],
        dtype: width === 4 ? "u32" : width === 2 ? "u16" : "u8",
        read: (first, count) => tokenNumbers(bytes.read(at + first * width, count * width), width),
      })),
      classes: null,
      pictures: null,
    });
  });
}

export const reader: DataReader = {
  prepare: () => loadReader({ module: tokensReader }),
  open: openTokens,
  preview: previewTokens,
};
