// A language model of another kind than gpt (an exported program, a TypeScript file) writes on by computing the whole text anew for
// each token.
import { noGrad } from "../../ffi/autograd.ts";
import { readBytes, tensor, toDevice } from "../../ffi/make.ts";
import { contiguous, reshape, select, toDtype } from "../../ffi/ops.ts";
import { type Device, scope } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { ExportedModel } from "../models/exported/model.ts";
import { forward, type Model } from "../models/model.ts";
import { outputOf } from "../train/blocks.ts";
import type { Decoder } from "./decoder.ts";

interface Written {
  readonly path: string;
  readonly device: Device;
  /** Windows of training had so many tokens. */
  readonly context: number;
  readonly vocabulary: number;
}

/** Tokens behind the text fill a window where the model takes no other length: no score may depend on what comes later. */
export function wholeDecoder(model: Model, { path, device, context, vocabulary }: Written): Decoder {
  const { sizes = [] } = (model as Partial<ExportedModel>).inputs?.[0]?.meta ?? {};
  // A graph says which sizes it takes; a user's own model has only ever seen whole windows.
  const fixed = (dim: number): number | null => typeof sizes[dim] === "number" ? sizes[dim] as number : null;
  const graph = sizes.length > 0, atOnce = graph ? fixed(0) : null, window = graph ? fixed(1) : context;
  const most = Math.min(context, window ?? context);
  model.root.train(false);
  let texts: number[][] = [];
  const scoresOf = (some: readonly (readonly number[])[]): Float32Array => {
    const length = some[0].length, columns = window ?? length, rows = atOnce ?? some.length;
    const ids = new BigInt64Array(rows * columns);
    some.forEach((tokens, row) => tokens.forEach((token, i) => ids[row * columns + i] = BigInt(token)));
    return scope(() => {
      const input = toDevice(reshape(tensor(ids), [rows, columns]), device);
      const out = noGrad(() => outputOf(forward(model, input)));
      if (
        out.shape.length !== 3 || out.shape[0] !== rows || out.shape[1] !== columns ||
        out.shape[2] < vocabulary
      ) {
        throw new UserError(
          "usage",
          `${path} gives [${
            out.shape.join(", ")
          }] for ${rows} texts of ${columns} tokens, and generate needs a score for each ` +
            `of ${vocabulary} tokens at each place.`,
        );
      }
      const last = contiguous(toDtype(select(out, 1, length - 1), "f32"));
      const all = new Float32Array(readBytes(last).slice().buffer), wide = out.shape[2];
      const own = new Float32Array(some.length * vocabulary);
      some.forEach((_, row) => own.set(all.subarray(row * wide, row * wide + vocabulary), row * vocabulary));
      return own;
    });
  };
  return {
    vocabulary,
    context: most,
    begin(rows) {
      texts = Array.from({ length: rows }, () => []);
    },
    feed(tokens) {
      texts = texts.map((text, row) => [...text, ...tokens[row]]);
      const step = atOnce ?? texts.length, scores = new Float32Array(texts.length * vocabulary);
      for (let from = 0; from < texts.length; from += step) {
        scores.set(scoresOf(texts.slice(from, from + step)), from * vocabulary);
      }
      return scores;
    },
  };
}
