// How many samples at a time a GPU has room for: what training with AdamW keeps of a model. Pure; may import core/errors,
// cost (types).
import { UserError } from "../../errors.ts";
import type { ModelCost } from "./cost.ts";

export interface Fit {
  readonly gpuBytes: number;
  /** Parameters, gradients, the optimizer's two averages, buffers: whatever the batch. */
  readonly fixed: number;
  /** For one sample: plain, with --amp bf16, with gradient checkpointing. */
  readonly ways: readonly { readonly name: string; readonly perSample: number; readonly batch: number }[];
}

/** Kernels, the libraries' workspaces, and what the allocator can't use. */
const RESERVED = 1 << 30;
const USABLE = 0.9;

/** Bytes that one sample takes of memory while it is trained with, by how that is done. */
export interface PerSample {
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

export function fitOf(cost: ModelCost, gpuBytes: number): Fit {
  const fixed = 4 * cost.weights + cost.buffers;
  const room = (gpuBytes - RESERVED) * USABLE - fixed;
  const way = (name: string, perSample: number) => ({
    name,
    perSample,
    batch: Math.max(0, Math.floor(room / perSample)),
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

/** "80GB", "24 GiB", "40g"; a bare number is GB. */
export function memorySize(text: string): number {
  const found = /^(\d+(?:\.\d+)?)\s*([kmg])?(i?)b?$/i.exec(text.trim());
  const unit = `${(found?.[2] ?? "g").toUpperCase()}${found?.[3] ? "I" : ""}B`;
  const bytes = found ? Number(found[1]) * (UNITS[unit] ?? 0) : 0;
  if (bytes > 0) return bytes;
  throw new UserError("usage", `--gpu takes a GPU's memory, such as 80GB or 24GiB, but got "${text}".`);
}
