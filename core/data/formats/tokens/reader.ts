// A sample is a window of a token file and the token after it.
import { key, MOST_POSITIONS, uniformInt } from "../../../base/random.ts";
import type { Config } from "../../../settings/settings.ts";
import { BadSample } from "../../arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../../source/reader.ts";
import { tokenNumbers, type TokenSpan, type Width } from "./file.ts";
import { someOf } from "../../source/order.ts";
import { openPool } from "../../arrays/files.ts";

interface Windows {
  readonly length: number;
  /** The place counts tokens of all files joined; no window crosses from one into the next. */
  startOf(sample: number, epoch: number): number;
}

export interface WindowsPlan {
  /** `tiled` is for validation; the others are --windows. */
  readonly kind: Config["data"]["windows"] | "tiled";
  readonly lengths: readonly number[];
  readonly context: number;
  readonly most: number;
  readonly seed: number;
}

export const planWindows = (plan: WindowsPlan): Windows =>
  plan.kind === "tiled" ? tiledWindows(plan) : trainingWindows(plan);

/** An epoch reads about as many tokens as there are. */
function trainingWindows({ kind, lengths, context, most, seed }: WindowsPlan): Windows {
  const starts = lengths.map((length) => Math.max(length - context, 0)), all = sum(starts);
  const length = Math.min(sum(starts.map((count) => Math.ceil(count / context))), most, MOST_POSITIONS);
  const place = placer(lengths, starts, 1);
  if (kind === "fixed") {
    const draw = uniformInt(key(seed, "windows"), all);
    return { length, startOf: (sample) => place(draw(sample)) };
  }
  let of = -1, draw: (i: number) => number;
  return {
    length,
    startOf(sample, epoch) {
      if (epoch !== of) draw = uniformInt(key(seed, "windows", epoch), all);
      of = epoch;
      if (kind === "random") return place(draw(sample));
      return place((draw(0) + Math.floor(sample * all / length)) % all); // side by side, from another place each epoch
    },
  };
}

/** Windows lie side by side, so that each token is predicted once; `most` draws some of them. */
function tiledWindows({ lengths, context, most, seed }: WindowsPlan): Windows {
  const tiles = lengths.map((length) => Math.max(Math.floor((length - 1) / context), 0));
  const total = Math.min(sum(tiles), MOST_POSITIONS);
  const chosen = someOf(total, most, seed);
  const place = placer(lengths, tiles, context);
  return { length: chosen.length, startOf: (sample) => place(chosen[sample]) };
}

/** Window `index` becomes a place; files have `counts` of them, `step` tokens apart. */
function placer(lengths: readonly number[], counts: readonly number[], step: number) {
  return (index: number): number => {
    let file = 0, before = 0;
    while (index >= counts[file]) {
      index -= counts[file];
      before += lengths[file++];
    }
    return before + index * step;
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

export interface TokensSpec extends ReaderSpec {
  readonly parts: readonly TokenSpan[];
  readonly plan: WindowsPlan;
  readonly width: 2 | 4;
  readonly vocabulary: number;
}

/** Each thread opens its own files, and a process may have about a thousand. */
const MOST_FILES = 16;

function open({ parts, plan, width, vocabulary }: TokensSpec): Reader {
  const { context } = plan, { startOf } = planWindows(plan);
  const pool = openPool(MOST_FILES), files = parts.map(({ mark }) => pool.passing(mark));
  const window = new Uint8Array(width * (context + 1));
  const short = { 1: new Uint8Array(context + 1), 2: new Uint8Array(2 * (context + 1)) };
  const tokens = tokenNumbers(window, width);
  const readInto = (index: number, input: Uint8Array, target: Uint8Array, epoch: number) => {
    let part = 0, place = startOf(index, epoch);
    while (place >= parts[part].length) place -= parts[part++].length;
    const { mark, at, width: own } = parts[part];
    const narrow = own === width || own === 4 ? null : short[own];
    files[part].read(narrow ?? window, at + place * own);
    if (narrow) widenInto(narrow, own, window, width);
    for (let i = 0; i < tokens.length; i++) {
      if (tokens[i] < vocabulary) continue;
      throw new BadSample(
        mark.path,
        `has the token ${tokens[i]} in it, outside of the vocabulary of ${vocabulary} (model.vocab_size)`,
      );
    }
    input.set(window.subarray(0, width * context));
    target.set(window.subarray(width));
  };
  const scratch = new Uint8Array(width * context);
  return {
    readInto,
    read(index, target, epoch) {
      readInto(index, scratch, target, epoch);
      return { data: tokenNumbers(scratch, width), shape: [context] };
    },
    close: pool.close,
  };
}

export function widenInto(from: Uint8Array, own: Width, into: Uint8Array, width: 2 | 4): void {
  tokenNumbers(into, width).set(tokenNumbers(from, own));
}

export const tokensReader: string = import.meta.url;

export default { open } satisfies ReaderModule<TokensSpec>;
