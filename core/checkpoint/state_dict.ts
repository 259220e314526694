// Finds a model's weights in a checkpoint and compares them with what a model expects.
import { UserError } from "../base/errors.ts";
import type { Positions } from "./positions.ts";
import { TensorData, type Value } from "./value.ts";

interface StateDict {
  /** The key is "" when the file is a state dict and nothing else. */
  readonly key: string;
  readonly tensors: Map<string, TensorData>;
  /** These are no tensors, such as a module's extra state. */
  readonly others: string[];
}

export interface TensorShape {
  readonly name: string;
  readonly shape: readonly number[];
}

const KEYS = ["model_state_dict", "state_dict", "model", "module", "net", "weights"];
const MAX_LINES = 40;

export function findStateDict(root: Value, path: string): StateDict {
  if (root instanceof Map) {
    for (const key of KEYS) {
      const found = asStateDict(root.get(key), key);
      if (found) return found;
    }
    const bare = asStateDict(root, "");
    if (bare) return bare;
  }
  const holds = root instanceof Map
    ? `a dict with the keys ${listed([...root.keys()].map(String))}`
    : "no dict";
  throw new UserError(
    "checkpoint",
    `${path}: holds no state dict: expected names and tensors, by themselves or under one of ${
      KEYS.join(", ")
    }; found ${holds}`,
  );
}

function asStateDict(value: Value | undefined, key: string): StateDict | undefined {
  if (!(value instanceof Map)) return undefined;
  const tensors = new Map<string, TensorData>();
  const others: string[] = [];
  for (const [name, item] of value) {
    if (item instanceof TensorData && typeof name === "string") tensors.set(name, item);
    else others.push(String(name));
  }
  return tensors.size > 0 ? { key, tensors, others } : undefined;
}

/** DistributedDataParallel and torch.compile put prefixes into names; the notice reports their removal. */
export function withoutWrappers(
  expected: readonly TensorShape[],
  tensors: ReadonlyMap<string, TensorData>,
): { tensors: Map<string, TensorData>; notice?: string } {
  const wanted = new Set(expected.map(({ name }) => name));
  const renamed = new Map(
    [...tensors].map(([name, tensor]) => [wanted.has(name) ? name : unwrapped(name), tensor]),
  );
  const taken = [...tensors.keys()].filter((name) => !renamed.has(name));
  // Two names that become one would lose a tensor.
  if (taken.length === 0 || renamed.size < tensors.size) return { tensors: new Map(tensors) };
  const from = /^module\./.test(taken[0])
    ? '"module." (DistributedDataParallel)'
    : '"_orig_mod." (torch.compile)';
  return {
    tensors: renamed,
    notice: `Took ${from} off the names of ${taken.length} tensors, e.g. ${taken[0]}.`,
  };
}

const unwrapped = (name: string) =>
  name.replace(/^module\./, "").replaceAll(/(^|\.)_orig_mod\./g, "$1").replace(/^module\./, "");

/**
 * One error lists every missing, extra and wrongly shaped tensor. Element types may differ: loading converts.
 */
export function compareStateDicts(
  expected: readonly TensorShape[],
  found: ReadonlyMap<string, { readonly shape: readonly number[] }>,
  path: string,
  more: Fresh["advice"] = () => null,
): void {
  const want = new Set(expected.map(({ name }) => name));
  const missing = expected.filter(({ name }) => !found.has(name));
  const extra = [...found].filter(([name]) => !want.has(name)).map(([name, { shape }]) => ({ name, shape }));
  const reshaped = expected.flatMap(({ name, shape }) => {
    const saved = found.get(name)?.shape;
    return saved && !sameShape(saved, shape) ? [{ name, shape, saved }] : [];
  });
  if (missing.length + extra.length + reshaped.length === 0) return;
  const lines = [
    ...reshaped.map(({ name, shape, saved }) =>
      `  shape    ${name} is [${saved.join(", ")}] in the file, [${shape.join(", ")}] in the model`
    ),
    ...missing.map(({ name, shape }) => `  missing  ${name} [${shape.join(", ")}]`),
    ...extra.map(({ name, shape }) => `  extra    ${name} [${shape.join(", ")}]`),
  ];
  const cut = lines.length > MAX_LINES
    ? [...lines.slice(0, MAX_LINES), `  ... and ${lines.length - MAX_LINES} more`]
    : lines;
  throw new UserError(
    "checkpoint",
    `${path}: its tensors do not fit the model: ${reshaped.length} of another shape, ${missing.length} missing, ${extra.length} extra.\n` +
      `${cut.join("\n")}\n${
        more([...reshaped, ...missing].map(({ name }) => name)) ?? advice(missing, extra, path)
      }`,
  );
}

/**
 * Tells which tensors of a model do not come from a file.
 * @internal
 */
export interface Fresh {
  /** A new head's own tensors. */
  head(name: string): boolean;
  /** It is new where the file does not have it, as an adapter is. */
  maybe(name: string): boolean;
  /** They are fitted to the model's images. */
  readonly positions?: Positions;
  /** Says what to do about tensors that don't fit; null where the ordinary advice is best. */
  advice(misfits: readonly string[]): string | null;
}

interface Left {
  /** The file's, without what nobody takes. */
  readonly tensors: Map<string, TensorData>;
  /** The model's, which stay as they are. */
  readonly names: ReadonlySet<string>;
  readonly notice?: string;
}

/** With a new head, what the file has beside the model's tensors is left out, too. */
export function leaveOut(
  expected: readonly TensorShape[],
  found: ReadonlyMap<string, TensorData>,
  fresh: Fresh,
): Left {
  const heads = expected.filter(({ name }) => fresh.head(name));
  const adapters = expected.filter(({ name }) => fresh.maybe(name) && !found.has(name));
  const names = new Set([...heads, ...adapters].map(({ name }) => name));
  if (heads.length === 0) return { tensors: new Map(found), names };
  const known = new Set(expected.map(({ name }) => name));
  const unused = [...found].filter(([name]) => !known.has(name));
  const tensors = new Map([...found].filter(([name]) => known.has(name) && !names.has(name)));
  const lines = [
    ...heads.map(({ name, shape }) => {
      const saved = found.get(name);
      return `${name} is [${shape.join(", ")}]${
        saved ? `, and [${saved.shape.join(", ")}] in the file` : ", and not in the file"
      }`;
    }),
    ...unused.map(([name, { shape }]) => `${name} [${shape.join(", ")}] of the file is left out`),
  ];
  const shown = lines.length > MOST_SHOWN
    ? [...lines.slice(0, MOST_SHOWN), `and ${lines.length - MOST_SHOWN} more`]
    : lines;
  return { tensors, names, notice: `The head is new (--new-head): ${shown.join("; ")}` };
}

const MOST_SHOWN = 8;

function advice(missing: readonly TensorShape[], extra: readonly TensorShape[], path: string): string {
  const prefix = commonPrefix(missing, extra);
  if (prefix !== undefined) {
    return `The names fit but for "${prefix}" in front. Did you mean: hpctrain convert ${path} fitting.pt --strip ${prefix}`;
  }
  const others = [...missing, ...extra];
  if (
    missing.length * extra.length === 0 && others.every(({ name }) => /^transformer\..*\.bias$/.test(name))
  ) {
    return missing.length > 0
      ? "The file's model has no biases: --no-bias."
      : "The file's model has biases: leave out --no-bias.";
  }
  return "Set the model (--model and its sizes) as in the run that wrote the file; `hpctrain inspect` shows what is in it.";
}

function commonPrefix(missing: readonly TensorShape[], extra: readonly TensorShape[]): string | undefined {
  if (missing.length === 0) return undefined;
  const names = new Set(extra.map(({ name }) => name));
  const first = extra.find(({ name }) => name.endsWith(`.${missing[0].name}`))?.name;
  const prefix = first?.slice(0, -missing[0].name.length);
  return prefix !== undefined && missing.every(({ name }) => names.has(prefix + name)) ? prefix : undefined;
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}

function listed(names: string[]): string {
  const shown = names.slice(0, 12).join(", ");
  return names.length > 12 ? `${shown}, ... (${names.length})` : shown || "(none)";
}
