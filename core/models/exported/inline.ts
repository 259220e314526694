// Puts graphs that only set how a part is run (torch.no_grad, torch.autocast in forward) in their place, node
// by node, and drops what the exporter left unused.
import type {
  ExportedGraph,
  ExportedProgram,
  GraphMode,
  GraphNode,
  GraphValue,
  JsonReader,
  SymbolicSize,
  TensorMeta,
} from "./graph.ts";

const PARTS = /^torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast)$/;
const DEEPEST = 16;

/** Planning refuses any other graph inside. */
export function inlined<G extends ExportedGraph>(graph: G): G {
  const done = new Inliner(graph);
  const nodes = done.nodes(graph.nodes, (name) => done.latest(name), undefined, 0);
  const outputs = graph.outputs.map((output) => ({
    ...output,
    value: renamed(output.value, (n) => done.latest(n)),
  }));
  const tensors = done.tensors;
  return { ...graph, nodes: withoutOut(nodes, tensors), outputs, tensors, symbols: done.symbols };
}

const OUT = /^(torch\.ops\.aten\.\w+)\.out$/;

/**
 * An operation that writes to an out= tensor is the operation without it, and a copy to there, which can't
 * change that tensor's sizes.
 */
function withoutOut(nodes: readonly GraphNode[], tensors: Map<string, TensorMeta>): GraphNode[] {
  return nodes.flatMap((node) => {
    const [, name] = OUT.exec(node.target) ?? [];
    const place = node.inputs.at(-1), [result] = node.outputs;
    if (!name || place?.name !== "out" || node.outputs.length !== 1 || result.kind !== "tensor") {
      return [node];
    }
    const inputs = node.inputs.slice(0, -1),
      made = { kind: "tensor", name: `${result.name} before` } as const;
    const meta = tensors.get(result.name);
    if (meta) tensors.set(made.name, meta);
    const overload = inputs.some((input) => input.name === "other") ? "Tensor" : "default";
    return [
      { ...node, target: `${name}.${overload}`, inputs, outputs: [made] },
      {
        ...node,
        target: "torch.ops.aten.copy_.default",
        inputs: [{ name: "self", value: place.value }, { name: "src", value: made }],
      },
    ];
  });
}

/**
 * PyTorch's exporter leaves constants without values, and nodes that use them, where it looks twice at
 * torch.vmap. Nothing depends on them.
 */
export function withoutLeftovers(
  program: ExportedProgram,
  empty: ReadonlySet<string>,
  r: JsonReader,
): ExportedProgram {
  if (empty.size === 0) return program;
  const isEmpty = (input: ExportedProgram["inputs"][number]) =>
    input.kind === "constant" && empty.has(input.of);
  const hollow = new Map<string, string>();
  for (const input of program.inputs) {
    if (input.kind === "constant" && isEmpty(input)) hollow.set(input.name, input.of);
  }
  const nodes = program.nodes.filter(({ target, inputs, outputs }) => {
    const constants = inputs.flatMap(({ value }) => valueNames(value)).map((name) => hollow.get(name));
    const constant = constants.find((name) => name !== undefined);
    if (constant === undefined) return true;
    if (/_\.\w+$/.test(target)) return r.refuse(`its constant ${constant} has no values`);
    for (const name of outputs.flatMap(valueNames)) hollow.set(name, constant);
    return false;
  });
  const wanted = program.outputs.flatMap(({ value }) => valueNames(value)).find((name) => hollow.has(name));
  if (wanted !== undefined) {
    r.refuse(`its constant ${hollow.get(wanted)} has no values, and an output is made from it`);
  }
  return { ...program, nodes, inputs: program.inputs.filter((input) => !isEmpty(input)) };
}

type Rename = (name: string) => string;

class Inliner {
  readonly tensors: Map<string, TensorMeta>;
  readonly symbols: Map<string, SymbolicSize>;
  /** A result may be an input of the inner graph, or another result. */
  readonly #same = new Map<string, string>();
  #count = 0;

  constructor(graph: ExportedGraph) {
    this.tensors = new Map(graph.tensors);
    this.symbols = new Map(graph.symbols);
  }

  latest(name: string): string {
    for (let i = 0; i <= this.#same.size && this.#same.has(name); i++) name = this.#same.get(name)!;
    return name;
  }

  nodes(
    nodes: readonly GraphNode[],
    rename: Rename,
    mode: GraphMode | undefined,
    depth: number,
  ): GraphNode[] {
    return nodes.flatMap((node) => {
      const part = depth < DEEPEST ? partOf(node, mode) : null;
      if (part) {
        const given = part.given.map((value) => renamed(value, rename));
        const wanted = node.outputs.map((value) => renamed(value, rename));
        return this.#inner(part.graph, given, wanted, part.mode, depth);
      }
      const inputs = node.inputs.map((input) => ({ ...input, value: renamed(input.value, rename) }));
      const outputs = node.outputs.map((value) => renamed(value, rename));
      return [{ ...node, inputs, outputs, ...(mode && { mode }) }];
    });
  }

  #inner(
    graph: ExportedGraph,
    given: readonly GraphValue[],
    wanted: readonly GraphValue[],
    mode: GraphMode,
    depth: number,
  ): GraphNode[] {
    const prefix = `inner ${this.#count++} `;
    const names = new Map<string, string>();
    const from = graph.inputs.flatMap(valueNames), to = given.flatMap(valueNames);
    from.forEach((name, i) => to[i] !== undefined && names.set(name, to[i]));
    const results = graph.outputs.flatMap(({ value }) => valueNames(value));
    wanted.flatMap(valueNames).forEach((outer, i) => {
      const known = names.get(results[i]);
      if (known !== undefined) this.#same.set(outer, known);
      else if (results[i] !== undefined) names.set(results[i], outer);
    });
    const rename: Rename = (name) => this.latest(names.get(name) ?? prefix + name);
    for (const [name, meta] of graph.tensors) {
      if (!this.tensors.has(rename(name))) this.tensors.set(rename(name), meta);
    }
    for (const [name, size] of graph.symbols) {
      if (!this.symbols.has(rename(name))) this.symbols.set(rename(name), size);
    }
    return this.nodes(graph.nodes, rename, mode, depth + 1);
  }
}

/** Gives the graph in such a node, its inputs and its mode; null for any other node. */
function partOf(
  { target, inputs }: GraphNode,
  around: GraphMode | undefined,
): { graph: ExportedGraph; given: GraphValue[]; mode: GraphMode } | null {
  const [, kind] = PARTS.exec(target) ?? [];
  const values = inputs.map(({ value }) => value), at = values.findIndex((value) => value.kind === "graph");
  const graph = values[at];
  if (kind === undefined || graph?.kind !== "graph") return null;
  const given = values.slice(at + 1);
  if (kind === "wrap_with_set_grad_enabled") {
    const [enabled] = values;
    if (at !== 1 || enabled.kind !== "number") return null;
    const { grad: _, ...others } = around ?? {};
    return { graph: graph.graph, given, mode: enabled.value === 0 ? { ...others, grad: false } : others };
  }
  const [device, dtype, enabled] = values;
  if (at !== 4 || device.kind !== "text" || enabled.kind !== "number") return null;
  if (!/^(cpu|cuda)$/.test(device.value)) return null;
  const type = dtype.kind === "dtype" && (dtype.value === "bf16" || dtype.value === "f16")
    ? dtype.value
    : null;
  if (enabled.value !== 0 && type === null) return null;
  const autocast = { dtype: enabled.value === 0 ? null : type, gpu: device.value === "cuda" };
  return { graph: graph.graph, given, mode: { ...around, autocast } };
}

export function valueNames(value: GraphValue): string[] {
  if (value.kind === "tensor" || value.kind === "symbol") return [value.name];
  return value.kind === "tensors" ? value.names.map((name) => name ?? "") : [];
}

function renamed(value: GraphValue, rename: Rename): GraphValue {
  switch (value.kind) {
    case "tensor":
    case "symbol":
      return { ...value, name: rename(value.name) };
    case "tensors":
      return { ...value, names: value.names.map((name) => name === null ? null : rename(name)) };
    case "numbers":
      return { ...value, values: value.values.map((size) => typeof size === "string" ? rename(size) : size) };
    default:
      return value;
  }
}
