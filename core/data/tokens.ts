// Files of tokens -> windows of them to train a language model with. May import errors, format, siblings, ffi.
import { join } from "@std/path";
import { tensor, uninitialised, writeBytes } from "../../ffi/make.ts";
import { asStrided, contiguous, indexSelect, narrow, toDtype } from "../../ffi/ops.ts";
import { keep, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import { formatCount, formatPlural } from "../format.ts";
import type { ColumnSettings } from "./columns.ts";
import { isFolder, namesIn, withFiles } from "./files.ts";
import { checkRoom } from "./room.ts";
import { type Batch, type Source, source } from "./source.ts";
import { CONTEXT } from "./synthetic/tokens.ts";
import { largestToken, readTokens, type TokenFile, type Tokens } from "./token_file.ts";
import { randomWindows, tiledWindows, type Windows } from "./token_windows.ts";

/** Training windows begin anywhere, drawn for each sample; validation windows stand side by side. */
export function tokens(
  { data, training: { seed }, model }: ColumnSettings,
): { train: Source; val: Source | null; notes: string[] } {
  const path = data.data_path, context = model.context || CONTEXT;
  const files = read(path);
  const all = [...files.train, ...files.val];
  const largest = all.reduce((most, file) => Math.max(most, largestToken(file, model.vocab_size)), 0);
  const outputs = model.vocab_size || largest + 1;
  const share = files.val.length === 0 && data.val_samples > 0 ? data.validation_split : 0;
  const { kept, held } = cutEnds(files, share);
  const make = (windows: Windows, parts: readonly Tokens[]): Source => {
    const row = keep(joined(parts));
    return source({
      name: path,
      length: windows.length,
      task: "language",
      outputs,
      fields: ["tokens", "next tokens"],
      description: `${path}: windows of ${context} in ${formatCount(row.numel)} tokens out of ${outputs}`,
      batch: (ids) => gather(row, BigInt64Array.from(ids, (id) => BigInt(windows.startOf(id))), context),
    });
  };
  const random = randomWindows(kept.map(lengthOf), context, data.train_samples, seed);
  const tiled = tiledWindows(held.map(lengthOf), context, data.val_samples, seed);
  if (random.length === 0) throw tooFew(path, count(kept), context);
  const kinds = [...new Set(all.map(({ said }) => said))].join(" and ");
  return {
    train: make(random, kept),
    val: tiled.length > 0 ? make(tiled, held) : null,
    notes: [
      `Tokens are ${kinds}, the largest is ${largest}; ${formatPlural(all.length, "file")}` +
      (share > 0 ? `, of which the last ${formatCount(count(held))} tokens validate` : "") +
      (model.context > 0 ? "" : ". --context sets the length of a window"),
    ],
  };
}

/** The end of each file validates, where no file is there for it. */
function cutEnds(files: { train: TokenFile[]; val: TokenFile[] }, share: number) {
  const train = files.train.map(({ tokens }) => tokens);
  if (share === 0) return { kept: train, held: files.val.map(({ tokens }) => tokens) };
  const cuts = train.map(({ length }) => length - Math.floor(length * share));
  return {
    kept: train.map((tokens, i) => tokens.subarray(0, cuts[i])),
    held: train.map((tokens, i) => tokens.subarray(cuts[i])),
  };
}

/** The files behind one another. */
function joined(parts: readonly Tokens[]): Tensor {
  const wide = parts.some((tokens) => tokens instanceof Uint32Array);
  const row = uninitialised([count(parts)], { dtype: wide ? "u32" : "u16" });
  let at = 0;
  for (const tokens of parts) {
    const { buffer, byteOffset, byteLength } = wide ? Uint32Array.from(tokens) : tokens;
    writeBytes(row, new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return row;
}

/** Row i of this view is the window that begins at i; each target is the token after its input. */
function gather(row: Tensor, starts: BigInt64Array, context: number): Batch {
  const windows = asStrided(row, [row.numel - context, context + 1], [1, 1]);
  const rows = toDtype(indexSelect(windows, 0, tensor(starts)), "i64");
  return { input: contiguous(narrow(rows, 1, 0, context)), target: contiguous(narrow(rows, 1, 1, context)) };
}

const NAMES = { train: /(^|_)train\w*\.bin$/, val: /(^|_)val\w*\.bin$/ };

/** Whether `auto` should take this folder for tokens. */
export const looksLikeTokens = (path: string): boolean => isFolder(path) && inside(path).train.length > 0;

function inside(folder: string): { train: string[]; val: string[] } {
  const names = namesIn(folder);
  const matching = (name: RegExp) =>
    names.filter((found) => name.test(found)).map((found) => join(folder, found));
  return { train: matching(NAMES.train), val: matching(NAMES.val) };
}

function read(path: string): { train: TokenFile[]; val: TokenFile[] } {
  return withFiles((open) => {
    const { train, val } = isFolder(path) ? inside(path) : { train: [path], val: [] };
    if (train.length === 0) {
      throw new UserError(
        "data",
        `${path} has no file of training tokens in it: looked for train.bin, or names such as x_train_000001.bin.`,
      );
    }
    const files = { train: train.map(open), val: val.map(open) };
    const bytes = [...files.train, ...files.val].reduce((sum, { size }) => sum + size, 0);
    checkRoom(path, 2 * bytes, null, "Name one file of it, or make it smaller.");
    return { train: files.train.map(readTokens), val: files.val.map(readTokens) };
  });
}

const lengthOf = ({ length }: Tokens) => length;

const count = (parts: readonly Tokens[]) => parts.reduce((sum, { length }) => sum + length, 0);

function tooFew(path: string, found: number, context: number): UserError {
  return new UserError(
    "data",
    `${path} has ${
      formatPlural(found, "token")
    } to train with, too few for a window of ${context} and the token ` +
      "after it: set a smaller --context, or use more text.",
  );
}
