// Writes on from a prompt, one text or several at once.
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import type { Decoder } from "./decoder.ts";
import { sampler, type TokenSampling } from "./sampling.ts";

export interface GenerateOptions extends TokenSampling {
  /** In tokens. */
  readonly prompt: readonly number[];
  readonly most: number;
  readonly count: number;
  /** A text is at its end after this token; null where there is none. */
  readonly end: number | null;
  /** Each token as it comes. */
  take?(row: number, token: number): void;
}

export interface Generated {
  /** Without the prompt, and without the token that ends a document. */
  readonly tokens: readonly number[];
  readonly stopped: "end" | "length";
}

export interface Generation {
  readonly texts: readonly Generated[];
  readonly seconds: number;
  /** The tokens of all texts count, and those of the prompt do not. */
  readonly tokensPerSecond: number;
}

export function generate(decoder: Decoder, options: GenerateOptions): Generation {
  const { prompt, most, count, end, take } = options;
  checkPrompt(prompt, decoder);
  const draw = sampler(options, count), { vocabulary, context } = decoder;
  const rows = Array.from({ length: count }, () => [...prompt]);
  const ended = new Array<boolean>(count).fill(false);
  const lengths = new Array<number>(count).fill(0);
  const began = performance.now();
  let length = prompt.length, done = 0;
  decoder.begin(count);
  let scores = most > 0 ? decoder.feed(rows) : new Float32Array();
  for (let step = 0; step < most; step++) {
    for (let row = 0; row < count; row++) {
      const token = draw(scores.subarray(row * vocabulary, (row + 1) * vocabulary), row, step);
      rows[row].push(token);
      if (ended[row]) continue;
      ended[row] = token === end;
      if (ended[row]) continue;
      lengths[row]++;
      take?.(row, token);
    }
    done = step + 1;
    if (done === most || ended.every(Boolean)) break;
    if (length < context) {
      length++;
      scores = decoder.feed(rows.map((row) => row.slice(-1)));
    } else {
      // The context is full: the later half of it is read again, and the text goes on after that.
      length = Math.max(1, context >> 1);
      decoder.begin(count);
      scores = decoder.feed(rows.map((row) => row.slice(-length)));
    }
  }
  const seconds = (performance.now() - began) / 1000;
  return {
    texts: rows.map((row, i) => ({
      tokens: row.slice(prompt.length, prompt.length + lengths[i]),
      stopped: ended[i] ? "end" : "length",
    })),
    seconds,
    tokensPerSecond: done * count / seconds,
  };
}

export function checkPrompt(prompt: readonly number[], { vocabulary, context }: Decoder): void {
  if (prompt.length > context) {
    throw new UserError(
      "usage",
      `The prompt has ${
        formatPlural(prompt.length, "token")
      }, and the model's context is ${context}: shorten the prompt, ` +
        "or train with a larger --context.",
    );
  }
  const outside = prompt.find((token) => token >= vocabulary);
  if (outside === undefined) return;
  throw new UserError(
    "usage",
    `The prompt has the token ${outside}, and the model knows ${vocabulary}: it was trained with another tokenizer. Name ` +
      "its own with --tokenizer.",
  );
}
