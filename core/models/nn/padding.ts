// Pads maps beyond their borders: F.pad's modes, and one that a map of the Earth needs.
import { pad, reflectionPad2d, replicationPad2d } from "../../../ffi/ops.ts";
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

/** Places that are missing to a multiple in each dimension, half of them on each side; `sizes` are F.pad's. */
export function frameAround(sides: readonly number[], multiple: number) {
  const missing = sides.map((side) => (multiple - side % multiple) % multiple);
  const starts = missing.map((places) => Math.floor(places / 2));
  const sizes = missing.map((places, i) => [starts[i], places - starts[i]]).reverse().flat();
  return { starts, sizes: missing.every((places) => places === 0) ? null : sizes };
}

/** `sizes` are F.pad's: places before and behind the last dimension, then before and behind the one before it. */
export function padder(sizes: readonly number[], mode: PaddingMode): (x: Tensor) => Tensor {
  const flat = sizes.length === 4;
  if (mode === "reflect" && flat) return (x) => reflectionPad2d(x, sizes);
  if (mode === "replicate" && flat) return (x) => replicationPad2d(x, sizes);
  if (mode !== "longitude") return (x) => pad(x, sizes, MODES[mode]);
  const around = sizes.map((size, i) => i < 2 ? size : 0), atPoles = sizes.map((size, i) => i < 2 ? 0 : size);
  // In this order: replicate keeps its input for the backward pass, and a layer's own result is kept in any case.
  return (x) => pad(flat ? replicationPad2d(x, atPoles) : pad(x, atPoles, "replicate"), around, "circular");
}
