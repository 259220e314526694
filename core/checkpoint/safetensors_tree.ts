// A whole checkpoint in a safetensors file: its tensors under names, and all else as JSON that says where each of them
// belongs. Imports file_bytes, safetensors_names, value.
import { damaged } from "./file_bytes.ts";
import { isObject } from "./safetensors_names.ts";
import { field, type Key, OrderedDict, TensorData, Tuple, type Value } from "./value.ts";

/** Its value in the metadata is the tree. */
export const TREE_KEY = "hpctrain_tree";

const MAX_DEPTH = 64;
// A list that is met twice is written twice, so a small file could unfold without end.
const MAX_VALUES = 1_000_000;

export interface Flat {
  readonly tensors: ReadonlyMap<string, TensorData>;
  /** Text beside them, with the tree in it. */
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Values as JSON. What JSON can't say is an object with one key: {"$tensor": its name}, {"$dict": pairs} for a dict whose
 * keys are not text or would change places, and so on.
 */
export function flatten(root: Value, path: string): Flat {
  const tensors = new Map<string, TensorData>();
  const names = parameterNames(root);
  const add = (tensor: TensorData, keys: readonly Key[]): string => {
    let name = nameOf(keys, names);
    while (tensors.has(name)) name += "_";
    tensors.set(name, tensor);
    return name;
  };
  let values = 0;
  const encode = (value: Value, keys: readonly Key[]): unknown => {
    if (keys.length > MAX_DEPTH) throw damaged(path, `nests its values more than ${MAX_DEPTH} deep`);
    if (++values > MAX_VALUES) throw damaged(path, `holds more than ${MAX_VALUES} single values`);
    const list = (items: Iterable<Value>) => [...items].map((item, i) => encode(item, [...keys, i]));
    const pairs = (map: Map<Key, Value>) =>
      [...map].map(([key, item]) => [encode(key, [...keys, "key"]), encode(item, [...keys, key])]);
    if (value === null || typeof value === "boolean" || typeof value === "string") return value;
    if (typeof value === "number") {
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $float: Object.is(value, -0) ? "-0" : `${value}` };
    }
    if (typeof value === "bigint") return { $int: String(value) };
    if (value instanceof TensorData) return { $tensor: add(value, keys) };
    if (value instanceof Uint8Array) return { $bytes: value.toBase64() };
    if (value instanceof Tuple) return { $tuple: list(value.items) };
    if (value instanceof Set) return { $set: list(value) };
    if (Array.isArray(value)) return list(value);
    if (value instanceof OrderedDict) return { $ordered: pairs(value) };
    if (!(value instanceof Map)) {
      throw damaged(path, `${keys.join(".")} is ${value.name}, which safetensors can't carry`);
    }
    if (!value.keys().every(isPlainKey)) return { $dict: pairs(value) };
    return Object.fromEntries([...value].map(([key, item]) => [key, encode(item, [...keys, key])]));
  };
  const tree = JSON.stringify(encode(root, []));
  return { tensors, metadata: { format: "pt", [TREE_KEY]: tree } };
}

/** A number as the key of an object would move to the front. */
const isPlainKey = (key: Key): boolean => typeof key === "string" && !/^(\$|\d+$)/.test(key);

/** Back from what `flatten` gave. */
export function unflatten(tree: string, tensors: ReadonlyMap<string, TensorData>, path: string): Value {
  const wrong = (what: string) =>
    damaged(path, `its metadata "${TREE_KEY}" is not what hpctrain writes there: ${what}`);
  const list = (value: unknown): unknown[] => {
    if (Array.isArray(value)) return value;
    throw wrong("something else where a list should stand");
  };
  const decode = (value: unknown, depth: number): Value => {
    if (depth > MAX_DEPTH) throw wrong(`more than ${MAX_DEPTH} values inside each other`);
    const all = (items: unknown) => list(items).map((item) => decode(item, depth + 1));
    const pairs = (items: unknown) =>
      list(items).map((pair): [Key, Value] => {
        const [key, item] = all(pair);
        if (item === undefined || (typeof key === "object" && key !== null && !(key instanceof Tuple))) {
          throw wrong("a dict of something that is not pairs");
        }
        return [key as Key, item];
      });
    if (value === null || typeof value !== "object") return value as null | boolean | number | string;
    if (!isObject(value)) return all(value);
    const entries = Object.entries(value);
    const [[what, content] = ["", null]] = entries;
    if (!what.startsWith("$")) return new Map(entries.map(([key, item]) => [key, decode(item, depth + 1)]));
    if (what === "$tuple") return new Tuple(all(content));
    if (what === "$set") return new Set(all(content));
    if (what === "$ordered") return new OrderedDict(pairs(content));
    if (what === "$dict") return new Map(pairs(content));
    if (typeof content !== "string") throw wrong(`${what} of something that is not text`);
    return ofText(what, content) ?? decodeTensor(content);
  };
  const ofText = (what: string, text: string): Value | undefined => {
    if (what === "$tensor") return undefined;
    if (what === "$float" && /^(NaN|-?Infinity|-0)$/.test(text)) return Number(text);
    if (what === "$int" && /^-?\d{1,2500}$/.test(text)) return BigInt(text);
    if (what === "$bytes" && /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0) {
      return Uint8Array.fromBase64(text);
    }
    throw wrong(`${JSON.stringify(what.slice(0, 20))} of ${JSON.stringify(text.slice(0, 20))}`);
  };
  const decodeTensor = (name: string): TensorData => {
    const tensor = tensors.get(name);
    if (tensor) return tensor;
    throw wrong(`the tensor ${JSON.stringify(name.slice(0, 100))}, which is not in the file`);
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(tree);
  } catch {
    throw wrong("no JSON");
  }
  return decode(parsed, 0);
}

/** A parameter's number in the optimizer's state -> its name, where the checkpoint tells. */
function parameterNames(root: Value): ReadonlyMap<Key, string> {
  const names = new Map<Key, string>();
  const groups = field(field(root, "optimizer_state_dict"), "param_groups");
  for (const group of Array.isArray(groups) ? groups : []) {
    const [numbers, given] = [field(group, "params"), field(group, "param_names")];
    if (!Array.isArray(numbers) || !Array.isArray(given)) continue;
    numbers.forEach((number, i) => typeof given[i] === "string" && names.set(number as Key, given[i]));
  }
  return names;
}

/** model.NAME, optimizer.SLOT.NAME, ema.NAME; elsewhere the keys that lead to it. */
function nameOf(keys: readonly Key[], names: ReadonlyMap<Key, string>): string {
  const [first, second, third, ...rest] = keys;
  if (first === "model_state_dict") return ["model", ...keys.slice(1)].join(".");
  if (first === "optimizer_state_dict" && second === "state" && rest.length === 1) {
    return `optimizer.${rest[0]}.${names.get(third) ?? third}`;
  }
  if (first === "hpctrain" && second === "ema_state_dict") return ["ema", ...keys.slice(2)].join(".");
  return keys.join(".") || "tensor";
}
