// Finds all tensors of a checkpoint's tree, each under the keys that lead to it.
import { damagedCheckpoint } from "../base/file_bytes.ts";
import { type Key, TensorData, Tuple, type Value } from "./value.ts";

interface NamedTensor {
  readonly name: string;
  readonly tensor: TensorData;
}

const MAX_DEPTH = 64;

/** A container that is met twice is walked once. */
export function findTensors(root: Value, path: string): NamedTensor[] {
  const found: NamedTensor[] = [];
  const seen = new Set<Value>();
  const walk = (value: Value, name: string, depth: number) => {
    if (value instanceof TensorData) found.push({ name, tensor: value });
    const children = childrenOf(value);
    if (!children || seen.has(value)) return;
    if (depth > MAX_DEPTH) throw damagedCheckpoint(path, `nests its values more than ${MAX_DEPTH} deep`);
    seen.add(value);
    for (const [key, child] of children) walk(child, name === "" ? String(key) : `${name}.${key}`, depth + 1);
  };
  walk(root, "", 0);
  return found;
}

function childrenOf(value: Value): Iterable<[Key, Value]> | undefined {
  if (value instanceof Map) return value;
  if (value instanceof Tuple) return value.items.entries();
  return Array.isArray(value) ? value.entries() : undefined;
}
