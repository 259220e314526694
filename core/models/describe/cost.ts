// A model block by block: what comes out, its parameters, operations and the memory that training keeps of it. One
// pass over a small batch of zeros tells. May import ffi, model, exported/model (types).
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { forwardCost } from "../../../ffi/forward_cost.ts";
import { zeros } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { type Activation, type Model, parameterCount } from "../model.ts";

export interface BlockCost {
  readonly name: string;
  /** Of one sample, of what it adds to the model: the first tensor that it hands on. */
  readonly output: readonly number[];
  /** A tied parameter counts where it is first. */
  readonly parameters: number;
  /** Floating-point operations of one sample, forward. */
  readonly flops: number;
  /** Bytes of one sample, kept from forward to backward in f32. */
  readonly activations: number;
  /** Bytes of one sample that pass to the next block. */
  readonly handedOn: number;
}

export interface ModelCost {
  readonly blocks: readonly BlockCost[];
  readonly parameters: number;
  /** Bytes of parameters, and of what is saved beside them. */
  readonly weights: number;
  readonly buffers: number;
  /** Bytes of one sample's input, and of the model's output. */
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly flops: number;
  readonly activations: number;
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/**
 * `shape` is one sample's. Two rows at a time: batch norm can't tell the variance of one. A model that is to be trained is
 * not in training here: no running statistics move, and nothing is drawn.
 */
export function costOf(
  model: Model,
  { shape, dtype }: { shape: readonly number[]; dtype: DType },
  rows = 2,
  training = true,
): ModelCost {
  const seen = new Set<Tensor>();
  model.root.train(training);
  const found: BlockCost[] = [];
  const parts = forwardCost((end) =>
    scope(() => {
      const input = zeros([rows, ...shape], { dtype });
      end([input]);
      let x: Activation = input;
      for (const block of model.blocks) {
        const before: Activation = x;
        x = scope((): Activation => block.forward(before));
        const all: readonly Tensor[] = Array.isArray(x) ? x as readonly Tensor[] : [x as Tensor];
        end(all);
        const own = (block.module?.namedParameters() ?? []).filter(([, t]) => !seen.has(t) && seen.add(t));
        found.push({
          name: block.name,
          output: all[0].shape.slice(1),
          parameters: sumOf(own.map(([, t]) => t.numel)),
          flops: 0,
          activations: 0,
          handedOn: block === model.blocks.at(-1) ? 0 : sumOf(all.map((t) => t.byteLength)) / rows,
        });
      }
    })
  );
  // The first part is the input.
  const blocks = found.map((block, i) => ({
    ...block,
    flops: parts[i + 1].operations / rows,
    activations: parts[i + 1].kept / rows,
  }));
  return {
    blocks,
    parameters: parameterCount(model.root),
    weights: sumOf(model.root.namedParameters().map(([, t]) => t.byteLength)),
    buffers: sumOf(model.root.namedBuffers().map(([, t]) => t.byteLength)),
    inputBytes: shape.reduce((product, size) => product * size, dtypeBytes(dtype)),
    outputBytes: 4 * blocks.at(-1)!.output.reduce((product, size) => product * size, 1),
    flops: sumOf(blocks.map(({ flops }) => flops)),
    activations: sumOf(blocks.map(({ activations }) => activations)),
  };
}
