// Computes the cost of a model, block by block, and the batch that fits on a GPU.
import { type DType, dtypeBytes } from "../../ffi/dtype.ts";
import { forwardCost } from "../../ffi/profile.ts";
import { zeros } from "../../ffi/make.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { type Activation, type Model, parameterCount } from "./model.ts";
import { UserError } from "../base/errors.ts";

export interface BlockCost {
  readonly name: string;
  /** The shape is of one sample. */
  readonly output: readonly number[];
  /** A tied parameter counts at its first block. */
  readonly parameters: number;
  /** The operations are of one sample, forward. */
  readonly flops: number;
  /** These bytes of one sample are kept from forward to backward in f32. */
  readonly activations: number;
  readonly handedOn: number;
}

export interface ModelCost {
  readonly blocks: readonly BlockCost[];
  readonly parameters: number;
  readonly weights: number;
  readonly buffers: number;
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly flops: number;
  readonly activations: number;
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/**
 * `shape` is that of one sample. Two rows pass through the model: batch norm has no variance of one. No
 * running statistics move, and nothing is drawn.
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
    }), model.root.stateDict().map(([, tensor]) => tensor));
  const blocks = found.map((block, i) => ({
    ...block,
    flops: parts[i + 1].operations / rows,
    activations: parts[i + 1].saved / rows,
  }));
  return {
    blocks,
    parameters: parameterCount(model.root),
    weights: sumOf(model.root.namedParameters().map(([, t]) => t.byteLength)),
    buffers: sumOf(model.root.namedBuffers().map(([, t]) => t.byteLength)),
    inputBytes: shape.reduce((product, size) => product * size, dtypeBytes(dtype)),
    outputBytes: 4 * blocks[blocks.length - 1].output.reduce((product, size) => product * size, 1),
    flops: sumOf(blocks.map(({ flops }) => flops)),
    activations: sumOf(blocks.map(({ activations }) => activations)),
  };
}

export interface MemoryFit {
  readonly gpuBytes: number;
  /** These bytes do not depend on the batch: parameters, gradients, AdamW's two averages, buffers. */
  readonly fixed: number;
  /** The ways are plain, --amp bf16 and gradient checkpointing. */
  readonly ways: readonly {
    readonly name: string;
    readonly perSample: number;
    readonly batch: number;
    /** The memory of a captured step comes on top of that of the first steps, which run op by op. */
    readonly capturedBatch: number;
  }[];
}

/** This is for kernels, the libraries' workspaces, and what the allocator can't use. */
const RESERVED = 1 << 30;
const USABLE = 0.9;

interface PerSample {
  readonly plain: number;
  readonly bf16: number;
  readonly checkpointing: number;
}

export function perSampleOf(cost: ModelCost): PerSample {
  const largest = Math.max(0, ...cost.blocks.map(({ activations }) => activations));
  const between = cost.blocks.reduce((sum, { handedOn }) => sum + handedOn, 0);
  // A loss keeps something as large as the output, and makes its gradient.
  const with_ = (activations: number) => cost.inputBytes + activations + 2 * cost.outputBytes;
  return {
    plain: with_(cost.activations),
    bf16: with_(cost.activations / 2),
    checkpointing: with_(between + largest),
  };
}

export function fitOf(cost: ModelCost, gpuBytes: number): MemoryFit {
  const fixed = 4 * cost.weights + cost.buffers;
  const room = (gpuBytes - RESERVED) * USABLE - fixed;
  const way = (name: string, perSample: number) => ({
    name,
    perSample,
    batch: Math.max(0, Math.floor(room / perSample)),
    capturedBatch: Math.max(0, Math.floor(room / (2 * perSample))),
  });
  const { plain, bf16, checkpointing } = perSampleOf(cost);
  return {
    gpuBytes,
    fixed,
    ways: [
      way("as it is (f32)", plain),
      way("--amp bf16", bf16),
      way("--gradient-checkpointing", checkpointing),
    ],
  };
}

const UNITS: Readonly<Record<string, number>> = { MB: 1e6, GB: 1e9, MIB: 2 ** 20, GIB: 2 ** 30 };

/** Reads "80GB", "24 GiB", "40g"; a bare number is GB. */
export function memorySize(text: string): number {
  const found = /^(\d+(?:\.\d+)?)\s*([kmg])?(i?)b?$/i.exec(text.trim());
  const unit = `${(found?.[2] ?? "g").toUpperCase()}${found?.[3] ? "I" : ""}B`;
  const bytes = found ? Number(found[1]) * (UNITS[unit] ?? 0) : 0;
  if (bytes > 0) return bytes;
  throw new UserError(
    "usage",
    `--gpu takes a GPU's memory, such as 80GB or 24GiB, or a name of AMD's (MI250X, gfx90a), but got "${text}".`,
  );
}
