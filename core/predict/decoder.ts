// gpt, one token at a time: the keys and values of earlier tokens are kept, so that each token is computed once.
import type { TensorData } from "../checkpoint/value.ts";
import { tensorBytes } from "../checkpoint/value.ts";
import { UserError } from "../base/errors.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { add, readBytes, tensor, toDevice, uninitialised, writeBytes } from "../../ffi/make.ts";
import {
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
  const loaded = (name: string): Tensor => load(found(name), device);
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
    head: !head || head.storage === found("transformer.wte.weight").storage ? tokens : load(head, device),
    ...{ layers, norm: part("transformer.ln_f") },
  };
  return new Gpt(weights, { vocabulary, context, embed, heads }, device);
}

function load(data: TensorData, device: Device): Tensor {
  return keep(scope(() => {
    const host = uninitialised(data.shape, { dtype: data.dtype });
    writeBytes(host, tensorBytes(data));
    return toDevice(toDtype(host, "f32"), device);
  }));
}

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
  readonly #joined: number[];
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
    this.#joined = [0, 0, embed];
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

  #forward(rows: readonly (readonly number[])[], count: number): Tensor {
    const { tokens, head, positions, layers, norm } = this.#weights;
    const ids = BigInt64Array.from(rows.flat(), BigInt);
    const host = tensor(ids, [rows.length, count]);
    this.#parts[0] = this.#joined[0] = rows.length;
    this.#parts[1] = this.#joined[1] = count;
    let x = add(
      embedding(tokens, this.#device === "cpu" ? host : toDevice(host, this.#device)),
      narrow(positions, 0, this.#length, count),
    );
    for (let i = 0; i < layers.length; i++) {
      x = add(x, this.#attention(layers[i], this.#caches[i], x, count));
      x = add(x, this.#mlp(layers[i], x));
    }
    if (count > 1) x = narrow(x, 1, count - 1, 1);
    return linear(layerNorm(x, this.#normed, norm.weight, norm.bias), head, null);
  }

  #attention(
    { norm1, attend, project }: Layer,
    { both, keys, values }: Cache,
    x: Tensor,
    count: number,
  ): Tensor {
    const all = linear(layerNorm(x, this.#normed, norm1.weight, norm1.bias), attend.weight, attend.bias);
    const parts = permute(view(all, this.#parts), ORDER);
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
    return linear(reshape(transpose(y, 1, 2), this.#joined), project.weight, project.bias);
  }

  #mlp({ norm2, widen, narrow }: Layer, x: Tensor): Tensor {
    const wide = linear(layerNorm(x, this.#normed, norm2.weight, norm2.bias), widen.weight, widen.bias);
    return linear(gelu(wide, "tanh"), narrow.weight, narrow.bias);
  }
}

/** [rows, tokens, part, heads, width] to [part, rows, heads, tokens, width] */
const ORDER: readonly number[] = [2, 0, 3, 1, 4];
