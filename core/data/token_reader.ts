// The reader of tokens: a window of a file and the token after it. May import its siblings, reading.
import { type OpenFile, openFile } from "./arrays/file.ts";
import type { Kind, ReaderSpec } from "./reading/kinds.ts";
import { BadSample, type Reader } from "./reading/reader.ts";
import { numbersOf, type Tokens, type Width } from "./token_file.ts";
import { planWindows, type WindowsPlan } from "./token_windows.ts";

export interface TokensSpec extends ReaderSpec {
  readonly kind: "tokens";
  /** As the plan's windows have them behind one another. */
  readonly parts: readonly Tokens[];
  readonly plan: WindowsPlan;
  /** Bytes of a token in a batch. */
  readonly width: 2 | 4;
  readonly vocabulary: number;
}

/** Open at one time: every thread has its own, and a process may have about a thousand. */
const MOST_FILES = 16;

function open({ parts, plan, width, vocabulary }: TokensSpec): Reader {
  const { context } = plan, { startOf } = planWindows(plan);
  const files = new Map<number, OpenFile>();
  const fileOf = (part: number): OpenFile => {
    const file = files.get(part) ?? openFile(parts[part].mark);
    files.delete(part); // and in again, as the newest
    files.set(part, file);
    if (files.size > MOST_FILES) {
      const [oldest, old] = files.entries().next().value!;
      files.delete(oldest);
      old.close();
    }
    return file;
  };
  const window = new Uint8Array(width * (context + 1));
  const short = { 1: new Uint8Array(context + 1), 2: new Uint8Array(2 * (context + 1)) };
  const tokens = numbersOf(window, width);
  const readInto = (index: number, input: Uint8Array, target: Uint8Array) => {
    let part = 0, place = startOf(index);
    while (place >= parts[part].length) place -= parts[part++].length;
    const { mark, at, width: own } = parts[part];
    const narrow = own === width || own === 4 ? null : short[own];
    fileOf(part).read(narrow ?? window, at + place * own);
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
    read(index, target) {
      readInto(index, scratch, target);
      return { data: numbersOf(scratch, width), shape: [context] };
    },
    close() {
      for (const file of files.values()) file.close();
    },
  };
}

/** Tokens of one or two bytes, as two or four. */
export function widenInto(from: Uint8Array, own: Width, into: Uint8Array, width: 2 | 4): void {
  numbersOf(into, width).set(numbersOf(from, own));
}

export const tokens: Kind<TokensSpec> = { kind: "tokens", open };
