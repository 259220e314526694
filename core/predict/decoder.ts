// gpt, one token at a time: the keys and values of earlier tokens are kept, so that each token is computed once. A language
// model of another kind (an exported program, a TypeScript file) computes the whole text anew for each token.
import { tensorBytes, type TensorData } from "../checkpoint/value.ts";
import { UserError } from "../base/errors.ts";
import type { ExportedModel } from "../models/exported/model.ts";
import { forward, type Model } from "../models/model.ts";
import { outputOf } from "../train/blocks.ts";
import { noGrad } from "../../ffi/autograd.ts";
import {
  add,
  longLivedUninitialised,
  readBytes,
  tensor,
  toDevice,
  uninitialised,
  writeBytes,
} from "../../ffi/make.ts";
import {
  contiguous,
  copy_,
  embedding,
  gelu,
  layerNorm,
  linear,
  narrow,
  permute,
  reshape,
  scaledDotProductAttention,
  select,
  toDtype,
  transpose,
  view,
} from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";

export interface Decoder {
  readonly vocabulary: number;
  readonly context: number;
  /** Forgets all tokens, and answers for so many texts at once. */
  begin(rows: number): void;
  /** So many more tokens of each text; the scores of the one after them, row by row. */
  feed(tokens: readonly (readonly number[])[]): Float32Array;
}

interface Linear {
  readonly weight: Tensor;
  readonly bias: Tensor | null;
}

interface Layer {
  readonly norm1: Linear;
  readonly attend: Linear;
  readonly project: Linear;
  readonly norm2: Linear;
  readonly widen: Linear;
  readonly narrow: Linear;
}

interface Cache {
  /** [keys and values, rows, heads, context, width] */
  readonly both: Tensor;
  readonly keys: Tensor;
  readonly values: Tensor;
}

/** `tensors` is gpt's state dict, under nanoGPT's names. */
export function gptDecoder(
  tensors: ReadonlyMap<string, TensorData>,
  heads: number,
  { path, device }: { readonly path: string; readonly device: Device },
): Decoder {
  const found = (name: string): TensorData => {
    const data = tensors.get(name);
    if (data) return data;
    throw new UserError("checkpoint", `${path} has no ${name}, so it is no checkpoint of gpt.`);
  };
  const memory = memoryFor([...tensors.values()], device);
  const loaded = (name: string): Tensor => memory(found(name));
  const part = (name: string): Linear => ({
    weight: loaded(`${name}.weight`),
    bias: tensors.has(`${name}.bias`) ? loaded(`${name}.bias`) : null,
  });
  const { shape: [vocabulary, embed] } = found("transformer.wte.weight");
  const { shape: [context] } = found("transformer.wpe.weight");
  if (embed % heads !== 0) {
    throw new UserError(
      "checkpoint",
      `${path} is ${embed} wide, which ${heads} heads can't share: is it damaged?`,
    );
  }
  let depth = 0;
  while (tensors.has(`transformer.h.${depth}.ln_1.weight`)) depth++;
  const layers = Array.from({ length: depth }, (_, i): Layer => ({
    norm1: part(`transformer.h.${i}.ln_1`),
    attend: part(`transformer.h.${i}.attn.c_attn`),
    project: part(`transformer.h.${i}.attn.c_proj`),
    norm2: part(`transformer.h.${i}.ln_2`),
    widen: part(`transformer.h.${i}.mlp.c_fc`),
    narrow: part(`transformer.h.${i}.mlp.c_proj`),
  }));
  const tokens = loaded("transformer.wte.weight"), head = tensors.get("lm_head.weight");
  const weights = {
    ...{ tokens, positions: loaded("transformer.wpe.weight") },
    head: !head || head.storage === found("transformer.wte.weight").storage ? tokens : memory(head),
    ...{ layers, norm: part("transformer.ln_f") },
  };
  return new Gpt(weights, { vocabulary, context, embed, heads }, device);
}

/** One piece of memory for all weights: each token reads all of it, and large pages take less looking up. */
function memoryFor(all: readonly TensorData[], device: Device): (data: TensorData) => Tensor {
  const alignedSize = ({ numel }: TensorData) => Math.ceil(numel / ALIGN) * ALIGN;
  const flat = longLivedUninitialised([all.reduce((sum, data) => sum + alignedSize(data), 0)], { device });
  let taken = 0;
  return (data) =>
    keep(scope(() => {
      const host = uninitialised(data.shape, { dtype: data.dtype });
      writeBytes(host, tensorBytes(data));
      const place = view(narrow(flat, 0, taken, data.numel), data.shape);
      taken += alignedSize(data);
      return copy_(place, host);
    }));
}

/** Weights begin on a multiple of 64 bytes. */
const ALIGN = 16;

interface GptWeights {
  readonly tokens: Tensor;
  /** The same tensor, but where an adapter was merged into one of the two. */
  readonly head: Tensor;
  readonly positions: Tensor;
  readonly layers: readonly Layer[];
  readonly norm: Linear;
}

interface Sizes {
  readonly vocabulary: number;
  readonly context: number;
  readonly embed: number;
  readonly heads: number;
}

class Gpt implements Decoder {
  readonly vocabulary: number;
  readonly context: number;
  readonly #weights: GptWeights;
  readonly #sizes: Sizes;
  readonly #device: Device;
  readonly #normed: readonly number[];
  // These shapes of a call are used again for each layer, so that it makes no lists.
  readonly #parts: number[];
  /** [3, 1, heads, 1, width]: one token of one text needs no turning. */
  readonly #one: readonly number[];
  /** [rows * tokens, embed] */
  readonly #flat: number[];
  #caches: Cache[] = [];
  #rows = 0;
  #length = 0;

  constructor(weights: GptWeights, sizes: Sizes, device: Device) {
    this.vocabulary = sizes.vocabulary;
    this.context = sizes.context;
    this.#weights = weights;
    this.#sizes = sizes;
    this.#device = device;
    const { embed, heads } = sizes;
    this.#normed = [embed];
    this.#parts = [0, 0, 3, heads, embed / heads];
    this.#one = [3, 1, heads, 1, embed / heads];
    this.#flat = [0, embed];
  }

  begin(rows: number): void {
    this.#length = 0;
    if (rows === this.#rows) return;
    for (const { both, keys, values } of this.#caches) [keys, values, both].forEach((t) => t.free());
    this.#rows = rows;
    const { context, heads, embed } = this.#sizes;
    const shape = [2, rows, heads, context, embed / heads];
    this.#caches = this.#weights.layers.map(() => {
      const both = keep(uninitialised(shape, { device: this.#device }));
      return { both, keys: keep(select(both, 0, 0)), values: keep(select(both, 0, 1)) };
    });
  }

  feed(tokens: readonly (readonly number[])[]): Float32Array {
    const count = tokens[0].length;
    if (tokens.length !== this.#rows || count === 0 || this.#length + count > this.context) {
      throw new Error(`internal: ${count} tokens after ${this.#length} of ${this.context}.`);
    }
    const scores = scope(() => noGrad(() => readBytes(this.#forward(tokens, count))));
    this.#length += count;
    return new Float32Array(scores.buffer, scores.byteOffset, scores.byteLength / 4);
  }

  /** Activations are rows of tokens. */
  #forward(rows: readonly (readonly number[])[], count: number): Tensor {
    const { tokens, head, positions, layers, norm } = this.#weights;
    const ids = BigInt64Array.from(rows.flat(), BigInt);
    const host = tensor(ids, [rows.length, count]);
    this.#parts[0] = rows.length;
    this.#parts[1] = count;
    this.#flat[0] = rows.length * count;
    const embedded = add(
      embedding(tokens, this.#device === "cpu" ? host : toDevice(host, this.#device)),
      narrow(positions, 0, this.#length, count),
    );
    let x = view(embedded, this.#flat);
    for (let i = 0; i < layers.length; i++) {
      x = add(x, this.#attention(layers[i], this.#caches[i], x, count));
      x = add(x, this.#mlp(layers[i], x));
    }
    if (count > 1) x = select(view(x, [rows.length, count, this.#sizes.embed]), 1, count - 1);
    return linear(layerNorm(x, this.#normed, norm.weight, norm.bias), head, null);
  }

  #attention(
    { norm1, attend, project }: Layer,
    { both, keys, values }: Cache,
    x: Tensor,
    count: number,
  ): Tensor {
    const all = applied(attend, layerNorm(x, this.#normed, norm1.weight, norm1.bias));
    const parts = this.#flat[0] === 1 ? view(all, this.#one) : permute(view(all, this.#parts), ORDER);
    copy_(narrow(both, 3, this.#length, count), narrow(parts, 0, 1, 2));
    const end = this.#length + count;
    // One token attends to all before it; the first tokens together attend each to those before.
    const y = scaledDotProductAttention(
      select(parts, 0, 0),
      narrow(keys, 2, 0, end),
      narrow(values, 2, 0, end),
      null,
      0,
      count > 1,
    );
    return applied(project, reshape(count === 1 ? y : transpose(y, 1, 2), this.#flat));
  }

  #mlp({ norm2, widen, narrow }: Layer, x: Tensor): Tensor {
    const wide = applied(widen, layerNorm(x, this.#normed, norm2.weight, norm2.bias));
    return applied(narrow, gelu(wide, "tanh"));
  }
}

const applied = ({ bias, weight }: Linear, x: Tensor): Tensor => linear(x, weight, bias);

/** [rows, tokens, part, heads, width] to [part, rows, heads, tokens, width] */
const ORDER: readonly number[] = [2, 0, 3, 1, 4];

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
