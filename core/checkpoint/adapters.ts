// LoRA's adapters in a checkpoint, and the weights that they and their layers come to.
import { field, memoryStorage, tensorBytes, TensorData, type Value } from "./value.ts";

/** peft's names: layer.lora_A.weight, layer.lora_B.weight. */
export const isAdapter = (name: string): boolean => /(^|\.)lora_[AB]\./.test(name);

/** The same weights without adapters: each layer's has what its adapter adds. `root` is the checkpoint's. */
export function mergeAdapters(root: Value, tensors: Map<string, TensorData>): Map<string, TensorData> {
  const names = [...tensors.keys()].filter((name) => name.endsWith(".lora_A.weight"));
  if (names.length === 0) return tensors;
  const settings = field(field(root, "config"), "model");
  const scale = Number(field(settings, "lora_alpha")) / Number(field(settings, "lora_rank"));
  if (!Number.isFinite(scale)) return tensors;
  const merged = new Map([...tensors].filter(([name]) => !isAdapter(name)));
  for (const name of names) {
    const layer = name.slice(0, -".lora_A.weight".length);
    const down = tensors.get(name)!, up = tensors.get(`${layer}.lora_B.weight`);
    const own = [`${layer}.weight`, `${layer}.in_proj_weight`].find((weight) => merged.has(weight));
    if (up && own) merged.set(own, sum(merged.get(own)!, product(up, down), scale));
  }
  return merged;
}

/** [out, rank] times [rank, ...]: a convolution's kernel is a long row. */
function product(up: TensorData, down: TensorData): Float64Array {
  const rank = down.shape[0], out = up.shape[0], row = down.numel / rank;
  const a = numbers(down), b = numbers(up), made = new Float64Array(out * row);
  for (let o = 0; o < out; o++) {
    for (let r = 0; r < rank; r++) {
      const factor = b[o * rank + r];
      for (let i = 0, to = o * row, from = r * row; i < row; i++) made[to + i] += factor * a[from + i];
    }
  }
  return made;
}

function sum(weight: TensorData, added: Float64Array, scale: number): TensorData {
  const made = numbers(weight).map((value, i) => value + scale * added[i]);
  return new TensorData("f32", weight.shape, memoryStorage(new Uint8Array(made.buffer)));
}

/** Weights of a run are f32. */
const numbers = (t: TensorData): Float32Array<ArrayBuffer> => new Float32Array(tensorBytes(t).slice().buffer);
