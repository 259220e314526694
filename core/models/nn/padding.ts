// Pads maps beyond their borders: F.pad's modes, and one that a map of the Earth needs.
import { pad } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

/**
 * PyTorch's padding modes; and longitude, which is circular in the last dimension and replicates the edge in the others.
 */
export type PaddingMode = "zeros" | "replicate" | "reflect" | "circular" | "longitude";

const MODES = {
  zeros: "constant",
  replicate: "replicate",
  reflect: "reflect",
  circular: "circular",
} as const;

/** `sizes` are F.pad's: places before and behind the last dimension, then before and behind the one before it. */
export function padder(sizes: readonly number[], mode: PaddingMode): (x: Tensor) => Tensor {
  if (mode !== "longitude") return (x) => pad(x, sizes, MODES[mode]);
  const around = sizes.map((size, i) => i < 2 ? size : 0), atPoles = sizes.map((size, i) => i < 2 ? 0 : size);
  return (x) => pad(pad(x, around, "circular"), atPoles, "replicate");
}
