// A whole checkpoint as one safetensors file. Imports its siblings.
import { flatten } from "./safetensors_tree.ts";
import { writeSafetensors } from "./safetensors_writer.ts";
import type { Value } from "./value.ts";
import type { WriteOptions } from "./write_options.ts";

/** Stock readers find the weights as model.NAME. Gives the size of the file. */
export function writeWhole(path: string, root: Value, options: WriteOptions = {}): number {
  const { tensors, metadata } = flatten(root, path);
  return writeSafetensors(path, tensors, { ...options, metadata, sums: true });
}
