// Reads the graph of an exported program from torch.export's JSON (schema major version 8 and before) as
// checked values, and finds the user's line of Python that made a node.
import { damagedCheckpoint } from "../../base/file_bytes.ts";
import type { DType } from "../../../ffi/dtype.ts";
import { inlined } from "./inline.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonDict = { readonly [key: string]: Json };

export class JsonReader {
  constructor(readonly path: string) {}

  refuse(what: string): never {
    throw damagedCheckpoint(this.path, `is not an exported program that can be read: ${what}`);
  }
  dict(value: Json | undefined, where: string): JsonDict {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonDict;
    return this.refuse(`${where} is no object`);
  }
  list(value: Json | undefined, where: string): readonly Json[] {
    return Array.isArray(value) ? value : this.refuse(`${where} is no list`);
  }
  text(value: Json | undefined, where: string): string {
    return typeof value === "string" ? value : this.refuse(`${where} is no text`);
  }
  /** The largest 64-bit number stands for "to the end"; the largest that is exact here does, too. */
  int(value: Json | undefined, where: string): number {
    if (typeof value !== "number" || !Number.isInteger(value)) {
      return this.refuse(`${where} is no whole number`);
    }
    return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value));
  }
  /** PyTorch writes what JSON lacks as text. */
  float(value: Json | undefined, where: string): number {
    if (typeof value === "number") return value;
    if (typeof value === "string") {
      const found = /^([+-]?)(inf|infinity|nan)$/i.exec(value);
      if (found) return /nan/i.test(found[2]) ? NaN : found[1] === "-" ? -Infinity : Infinity;
    }
    return this.refuse(`${where} is no number`);
  }
  bool(value: Json | undefined, where: string): boolean {
    return typeof value === "boolean" ? value : this.refuse(`${where} is neither true nor false`);
  }
  /** A union is an object of which one key counts; others are absent or null. */
  union(value: Json | undefined, where: string): [key: string, value: Json] {
    const found = Object.entries(this.dict(value, where)).filter(([, v]) => v !== null);
    return found.length === 1 ? found[0] : this.refuse(`${where} should be one of its kinds, and is not`);
  }
  parse(bytes: Uint8Array, where: string): Json {
    const text = new TextDecoder().decode(bytes);
    try {
      return JSON.parse(text);
    } catch {
      try { // Python writes numbers that JSON does not know.
        return JSON.parse(text.replaceAll(/([:[,]\s*)(-?Infinity|NaN)(?=\s*[,\]}])/g, '$1"$2"'));
      } catch {
        return this.refuse(`${where} is no JSON`);
      }
    }
  }
}

/** A text is a symbol or an expression that is known when the graph runs. */
export type SymbolicSize = number | string;

export interface TensorMeta {
  readonly dtype: DType | null;
  readonly sizes: readonly SymbolicSize[];
  readonly strides: readonly SymbolicSize[];
  readonly offset: number;
  readonly requiresGrad: boolean;
  /** Its layout was one of PyTorch's sparse ones when it was exported. */
  readonly sparse?: true;
}

export type GraphValue =
  | { readonly kind: "none" }
  | { readonly kind: "tensor"; readonly name: string }
  | { readonly kind: "tensors"; readonly names: readonly (string | null)[] }
  | {
    readonly kind: "number";
    readonly value: number;
    readonly as: "int" | "float" | "bool";
    readonly imaginary?: number;
  }
  | { readonly kind: "symbol"; readonly name: string; readonly as: "int" | "float" | "bool" }
  | {
    readonly kind: "numbers";
    readonly values: readonly SymbolicSize[];
    readonly as: "int" | "float" | "bool";
  }
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "dtype"; readonly value: DType | null }
  | { readonly kind: "device" }
  | { readonly kind: "format"; readonly value: string | null }
  | { readonly kind: "layout"; readonly strided: boolean }
  | { readonly kind: "graph"; readonly graph: ExportedGraph }
  /** No op of libtorch takes these: a custom object, nested lists. */
  | { readonly kind: "other"; readonly what: string };

export interface GraphNode {
  readonly target: string;
  readonly inputs: readonly { readonly name: string; readonly value: GraphValue }[];
  readonly outputs: readonly GraphValue[];
  /** It is a path: "layer1.0.conv1". */
  readonly module: string;
  readonly trace: string;
  readonly mode?: GraphMode;
}

/** torch.no_grad and torch.autocast set these for a part of forward. */
export interface GraphMode {
  readonly grad?: false;
  /** The type is null where autocast is off. */
  readonly autocast?: { readonly dtype: DType | null; readonly gpu: boolean };
}

export interface ExportedGraph {
  readonly inputs: readonly GraphValue[];
  readonly outputs: readonly { readonly value: GraphValue }[];
  readonly nodes: readonly GraphNode[];
  readonly tensors: ReadonlyMap<string, TensorMeta>;
  readonly symbols: ReadonlyMap<string, SymbolicSize>;
}

type GraphInput =
  | { readonly kind: "user"; readonly value: GraphValue }
  | { readonly kind: "parameter" | "buffer" | "constant"; readonly name: string; readonly of: string }
  | { readonly kind: "other"; readonly name: string };

export interface GraphOutput {
  readonly kind: "user" | "loss" | "buffer" | "parameter" | "input" | "other";
  readonly value: GraphValue;
  /** A mutation has the buffer's, parameter's or input's name. */
  readonly of: string;
}

export interface ExportedProgram {
  readonly version: string;
  readonly torch: string;
  readonly inputs: readonly GraphInput[];
  readonly outputs: readonly GraphOutput[];
  readonly nodes: readonly GraphNode[];
  readonly tensors: ReadonlyMap<string, TensorMeta>;
  readonly symbols: ReadonlyMap<string, SymbolicSize>;
  readonly ranges: ReadonlyMap<string, { readonly min: number; readonly max: number }>;
  /** These are the keys in the user's dict or dataclass, "" elsewhere. */
  readonly outputNames: readonly string[];
  readonly inputNames: readonly string[];
}

/** A major change of the schema breaks readers. */
const NEWEST_MAJOR = 8;

/** torch.export has its own codes, which are not libtorch's. */
export const SCALAR_TYPES: Readonly<Record<number, DType>> = {
  1: "u8",
  2: "i8",
  3: "i16",
  4: "i32",
  5: "i64",
  6: "f16",
  7: "f32",
  8: "f64",
  10: "c64",
  11: "c128",
  12: "bool",
  13: "bf16",
  28: "u16",
  34: "u32",
  35: "u64",
};
export const MEMORY_FORMATS: Readonly<Record<number, string>> = {
  1: "contiguous",
  2: "channels_last",
  3: "channels_last_3d",
  4: "preserve",
};

const dtypeOfCode = (code: number): DType | null => SCALAR_TYPES[code] ?? null;

export function readProgram(json: Json, path: string): ExportedProgram {
  const r = new JsonReader(path);
  const root = r.dict(json, "the program");
  const version = r.dict(root.schema_version, "schema_version");
  const major = r.int(version.major, "the schema's major version");
  const minor = r.int(version.minor, "the schema's minor version");
  const torch = typeof root.torch_version === "string" ? root.torch_version : "?";
  if (major > NEWEST_MAJOR || major < 5) {
    r.refuse(
      `its schema is version ${major}.${minor} (PyTorch ${torch}), and this program reads 5 to ${NEWEST_MAJOR}; ` +
        "export it again with PyTorch 2.6 or later",
    );
  }
  const module = r.dict(root.graph_module, "graph_module");
  const graph = r.dict(module.graph, "the graph");
  const signature = r.dict(module.signature, "the signature");
  const outputs = r.list(signature.output_specs, "output_specs").map((spec) => readOutput(r, spec));
  const whole = { inputs: [], outputs, ...readNodes(r, graph) };
  return {
    version: `${major}.${minor}`,
    torch,
    ...inlined(whole),
    inputs: r.list(signature.input_specs, "input_specs").map((spec) => readInput(r, spec)),
    ranges: readRanges(r, root.range_constraints),
    ...readCalling(module),
  };
}

function readNodes(r: JsonReader, graph: JsonDict): Pick<ExportedGraph, "nodes" | "tensors" | "symbols"> {
  const metas = Object.entries(r.dict(graph.tensor_values, "tensor_values"));
  return {
    nodes: r.list(graph.nodes, "the nodes").map((node, i) => readNode(r, node, `node ${i}`)),
    tensors: new Map(metas.map(([name, meta]) => [name, readMeta(r, meta, `tensor ${name}`)])),
    symbols: readSymbols(r, graph),
  };
}

function readInner(r: JsonReader, json: Json, where: string): ExportedGraph {
  const graph = r.dict(r.dict(json, where).graph, `the graph in ${where}`);
  const values = (key: string) =>
    r.list(graph[key], `the ${key} in ${where}`).map((v) => readValue(r, v, where));
  return {
    inputs: values("inputs"),
    outputs: values("outputs").map((value) => ({ value })),
    ...readNodes(r, graph),
  };
}

function readSymbols(r: JsonReader, graph: JsonDict): Map<string, SymbolicSize> {
  const found = new Map<string, SymbolicSize>();
  for (const kind of ["sym_int_values", "sym_bool_values", "sym_float_values"]) {
    for (const [name, value] of Object.entries(r.dict(graph[kind] ?? {}, kind))) {
      const [, given] = r.union(value, name);
      const dict = typeof given === "object" ? r.dict(given, name) : null;
      found.set(name, dict ? r.text(dict.expr_str, name) : Number(given));
    }
  }
  return found;
}

function readRanges(r: JsonReader, json: Json | undefined): Map<string, { min: number; max: number }> {
  const bound = (value: Json | undefined, otherwise: number) => typeof value === "number" ? value : otherwise;
  return new Map(
    Object.entries(r.dict(json ?? {}, "range_constraints")).map(([name, value]) => {
      const range = r.dict(value, `the range of ${name}`);
      return [name, { min: bound(range.min_val, -Infinity), max: bound(range.max_val, Infinity) }];
    }),
  );
}

/** Names only help messages: where they can't be read, there are none. */
function readCalling(module: JsonDict): Pick<ExportedProgram, "outputNames" | "inputNames"> {
  const names = (key: string): string[] => {
    try {
      const r = new JsonReader("");
      const calls = r.list(module.module_call_graph, "");
      const signature = r.dict(r.dict(calls[0], "").signature, "");
      const [, tree] = r.list(JSON.parse(r.text(signature[key], "")), "");
      return leafNames(r, tree, "", 0);
    } catch {
      return [];
    }
  };
  return { outputNames: names("out_spec"), inputNames: names("in_spec") };
}

const DEEPEST_TREE = 64;

/** torch.utils._pytree writes the tree. Lists and tuples have no keys. */
function leafNames(r: JsonReader, json: Json, path: string, depth: number): string[] {
  const { type, context, children_spec } = r.dict(json, "");
  if (type === null || depth > DEEPEST_TREE) return [path];
  const children = r.list(children_spec, "");
  const keys = keysIn(context, children.length);
  return children.flatMap((child, i) => {
    const inner = keys ? (path === "" ? keys[i] : `${path}.${keys[i]}`) : path;
    return leafNames(r, child, inner, depth + 1);
  });
}

/** A dict's context is its keys; a dataclass's is its fields, and those of them that are None. */
function keysIn(context: Json, count: number): string[] | null {
  if (typeof context !== "string" || !context.startsWith("[")) return null;
  const found = JSON.parse(context);
  const keys = Array.isArray(found[0]) && found.length === 2 ? found[0] : found;
  return keys.length === count && keys.every((key: unknown) => typeof key === "string") ? keys : null;
}

export function readMeta(r: JsonReader, json: Json | undefined, where: string): TensorMeta {
  const meta = r.dict(json, where);
  const size = (value: Json): SymbolicSize => {
    const [kind, given] = r.union(value, `a size of ${where}`);
    return kind === "as_int" ? r.int(given, where) : r.text(r.dict(given, where).expr_str, where);
  };
  const offset = size(meta.storage_offset ?? { as_int: 0 });
  return {
    dtype: dtypeOfCode(r.int(meta.dtype, `the type of ${where}`)),
    sizes: r.list(meta.sizes, `the sizes of ${where}`).map(size),
    strides: r.list(meta.strides, `the strides of ${where}`).map(size),
    offset: typeof offset === "number" ? offset : 0,
    requiresGrad: meta.requires_grad === true,
    ...(SPARSE.includes(Number(meta.layout)) && { sparse: true }),
  };
}

function readInput(r: JsonReader, json: Json): GraphInput {
  const [kind, value] = r.union(json, "an input");
  const spec = r.dict(value, "an input");
  const name = () => r.text(r.dict(spec.arg, "an input").name, "an input's name");
  switch (kind) {
    case "user_input":
      return { kind: "user", value: readValue(r, spec.arg, "an input") };
    case "parameter":
      return { kind: "parameter", name: name(), of: r.text(spec.parameter_name, "a parameter's name") };
    case "buffer":
      return { kind: "buffer", name: name(), of: r.text(spec.buffer_name, "a buffer's name") };
    case "tensor_constant":
      return { kind: "constant", name: name(), of: r.text(spec.tensor_constant_name, "a constant's name") };
    case "constant_input": // a number or text given to forward: it is in the nodes already
      return { kind: "user", value: { kind: "none" } };
    default:
      return { kind: "other", name: kind };
  }
}

function readOutput(r: JsonReader, json: Json): GraphOutput {
  const [kind, value] = r.union(json, "an output");
  const spec = r.dict(value, "an output");
  const given = (): GraphValue =>
    kind === "user_output"
      ? readValue(r, spec.arg, "an output")
      : { kind: "tensor", name: r.text(r.dict(spec.arg, "an output").name, "an output's name") };
  const of = String(spec.buffer_name ?? spec.user_input_name ?? spec.parameter_name ?? "");
  const kinds: Record<string, GraphOutput["kind"]> = {
    user_output: "user",
    loss_output: "loss",
    buffer_mutation: "buffer",
    parameter_mutation: "parameter",
    user_input_mutation: "input",
  };
  return { kind: kinds[kind] ?? "other", value: given(), of };
}

function readNode(r: JsonReader, json: Json, where: string): GraphNode {
  const node = r.dict(json, where);
  const metadata = r.dict(node.metadata ?? {}, `the metadata of ${where}`);
  const target = asWritten(r.text(node.target, `the target of ${where}`), metadata);
  const stack = typeof metadata.nn_module_stack === "string" ? metadata.nn_module_stack : "";
  return {
    target,
    inputs: r.list(node.inputs, `the inputs of ${where}`).map((input) => {
      const argument = r.dict(input, `an input of ${where}`);
      const value = readValue(r, argument.arg, `an input of ${where} (${target})`);
      return { name: r.text(argument.name, `an input's name of ${where}`), value };
    }),
    outputs: r.list(node.outputs, `the outputs of ${where}`).map((v) =>
      readValue(r, v, `an output of ${where}`)
    ),
    module: moduleOf(stack),
    trace: typeof metadata.stack_trace === "string" ? metadata.stack_trace : "",
  };
}

/**
 * run_decompositions() writes detach as alias, which a gradient goes through. The metadata still name the
 * function that the user called.
 */
const asWritten = (target: string, { torch_fn }: JsonDict): string =>
  target === "torch.ops.aten.alias.default" && typeof torch_fn === "string" && /\.detach_?$/.test(torch_fn)
    ? "torch.ops.aten.detach.default"
    : target;

/**
 * The stack is "key,path,class;key,path,class", innermost last. A module called again has "@1" behind its
 * name.
 */
function moduleOf(stack: string): string {
  const [, path = ""] = (stack.split(";").at(-1) ?? "").split(",");
  if (path.startsWith("_empty_nn_module_stack")) return ""; // The exporter itself made it.
  return path.replace(/^L\['self'\]\.?/, "").replaceAll(/@\d+/g, "");
}

function readValue(r: JsonReader, json: Json | undefined, where: string): GraphValue {
  const [kind, given] = r.union(json, where);
  const items = () => r.list(given, where);
  switch (kind) {
    case "as_none":
      return { kind: "none" };
    case "as_tensor":
      return { kind: "tensor", name: nameIn(r, given, where) };
    case "as_tensors":
      return { kind: "tensors", names: items().map((v) => nameIn(r, v, where)) };
    case "as_optional_tensors":
      return { kind: "tensors", names: items().map((v) => optionalName(r, v, where)) };
    case "as_optional_tensor": {
      const name = optionalName(r, given, where);
      return name === null ? { kind: "none" } : { kind: "tensor", name };
    }
    case "as_string":
      return { kind: "text", value: r.text(given, where) };
    case "as_scalar_type":
      return { kind: "dtype", value: dtypeOfCode(r.int(given, where)) };
    case "as_memory_format":
      return { kind: "format", value: MEMORY_FORMATS[r.int(given, where)] ?? null };
    case "as_layout":
      return { kind: "layout", strided: given === STRIDED };
    case "as_device":
      return { kind: "device" };
    case "as_complex": {
      const { real, imag } = r.dict(given, where);
      return { kind: "number", as: "float", value: r.float(real, where), imaginary: r.float(imag, where) };
    }
    case "as_graph":
      return { kind: "graph", graph: readInner(r, given, where) };
  }
  return readNumbers(r, kind, given, where) ??
    { kind: "other", what: kind.replace(/^as_/, "").replaceAll("_", " ") };
}

// torch.export's codes of layouts.
const STRIDED = 7, SPARSE = [1, 2, 3, 4, 5];

const nameIn = (r: JsonReader, json: Json, where: string) => r.text(r.dict(json, where).name, where);

function optionalName(r: JsonReader, json: Json, where: string): string | null {
  const [kind, given] = r.union(json, where);
  return kind === "as_none" ? null : nameIn(r, given, where);
}

/** Reads "as_int", "as_floats", "as_sym_bool" and the like; null for any other kind. */
function readNumbers(r: JsonReader, kind: string, given: Json, where: string): GraphValue | null {
  const found = /^as_(sym_)?(int|float|bool)(s?)$/.exec(kind);
  if (!found) return null;
  const [, symbols, type, several] = found;
  const as = type as "int" | "float" | "bool";
  const plain = (v: Json): number =>
    as === "int" ? r.int(v, where) : as === "float" ? r.float(v, where) : Number(r.bool(v, where));
  const one = (v: Json): SymbolicSize => symbols ? symbolic(r, v, where) : plain(v);
  if (several) return { kind: "numbers", values: r.list(given, where).map(one), as };
  const value = one(given);
  return typeof value === "string" ? { kind: "symbol", name: value, as } : { kind: "number", value, as };
}

function symbolic(r: JsonReader, json: Json, where: string): SymbolicSize {
  const [kind, given] = r.union(json, where);
  if (kind === "as_name") return r.text(given, where);
  return kind === "as_bool" ? Number(r.bool(given, where)) : r.float(given, where);
}

const FRAME = /File "([^"]*)", line (\d+), in (\S+)\n\s*(.*)/g;

/** Gives 'model.py, line 12: x = torch.cond(...)': the innermost line that is not PyTorch's own, or "". */
export function sourceLineOf(node: Pick<GraphNode, "trace" | "module">): string {
  const frames = [...node.trace.matchAll(FRAME)].map(([, file, line, , code]) => ({ file, line, code }));
  // PyTorch's own files and generated code don't count.
  const own = frames.filter(({ file }) => !/^<|[/\\](torch|torchvision)[/\\]/.test(file)).at(-1) ??
    frames.at(-1);
  if (own) return `${own.file.split(/[/\\]/).at(-1)}, line ${own.line}: ${own.code.trim()}`;
  return node.module === "" ? "" : `in ${node.module}`;
}

// torch.vmap begins and ends in a graph by these nodes.

const MARKS = {
  "torch._functorch.predispatch.lazy_load_decompositions": "nothing",
  "torch._functorch.predispatch._vmap_increment_nesting": "begin",
  "torch._functorch.predispatch._add_batch_dim": "hide",
  "torch._functorch.predispatch._remove_batch_dim": "show",
  "torch._functorch.predispatch._vmap_decrement_nesting": "end",
} as const;

export type GraphMark = typeof MARKS[keyof typeof MARKS];

export const graphMarkOf = (target: string): GraphMark | null =>
  Object.hasOwn(MARKS, target) ? MARKS[target as keyof typeof MARKS] : null;
