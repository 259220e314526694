// Groups that move memory: a copy, a copy that adds, a fill; and the values of a graph that are made of them.
import { count, rowMajor } from "./access.ts";
import type { Draft } from "./draft.ts";
import type { Node, Ref } from "./graph.ts";
import type { GroupKernel, StridedAccess } from "./kernel.ts";
import type { Home } from "./program.ts";

/** Copies, or adds. Dimensions that both sides cross in one stride are joined. */
export function copyKernel(
  name: string,
  shape: readonly number[],
  from: StridedAccess,
  to: StridedAccess,
  adds = false,
): GroupKernel {
  const dims = shape.flatMap((size, i) => size > 1 ? [i] : []);
  const merged: number[][] = [];
  for (const i of dims) {
    const before = merged.at(-1)?.at(-1);
    const joins = before !== undefined &&
      [from, to].every(({ strides }) => strides[before] === strides[i] * shape[i]);
    if (joins) merged.at(-1)!.push(i);
    else merged.push([i]);
  }
  const strides = (access: StridedAccess) => ({
    ...access,
    strides: merged.length === 0 ? [0] : merged.map((group) => access.strides[group.at(-1)!]),
  });
  const sizes = merged.length === 0
    ? [1]
    : merged.map((group) => group.reduce((all, i) => all * shape[i], 1));
  const load = { op: "load", from: strides(from) } as const;
  const value = adds ? 2 : 0;
  const instructions = adds
    ? [load, { op: "load", from: strides(to) } as const, { op: "add", args: [1, 0] }]
    : [load];
  const stage = { instructions, stores: [{ value, to: strides(to) }], reductions: [] };
  return { kernel: "group", name, sizes, stages: [stage] };
}

const fillKernel = (
  slot: number,
  elements: number,
  value: number,
  kind: StridedAccess["kind"] = "f32",
): GroupKernel => ({
  kernel: "group",
  name: "fill",
  sizes: [elements],
  stages: [{
    instructions: [{ op: "number", value }],
    stores: [{ value: 0, to: { slot, offset: 0, strides: [elements > 1 ? 1 : 0], kind } }],
    reductions: [],
  }],
});

/** Zeros around a value. */
export function embedded(draft: Draft, ref: Ref, node: Node & { op: "embed" }): void {
  const [source] = node.args;
  const slot = draft.define(ref);
  draft.parts.push(fillKernel(slot, count(node.shape), 0, draft.buffers[slot].kind));
  copyInto(draft, source, slot, node.shape, node.dim, node.start);
  draft.ends(ref);
}

export function joined(draft: Draft, ref: Ref, node: Node & { op: "cat" }): void {
  const slot = draft.define(ref);
  let start = 0;
  for (const arg of node.args) {
    copyInto(draft, arg, slot, node.shape, node.dim, start);
    start += draft.graph.nodes[arg].shape[node.dim];
  }
  draft.ends(ref);
}

/** A part of a larger value; its source must be in memory. */
function copyInto(
  draft: Draft,
  source: Ref,
  slot: number,
  shape: readonly number[],
  dim: number,
  start: number,
): void {
  const { shape: sizes } = draft.graph.nodes[source];
  const steps = rowMajor(shape), at = draft.stridesOf(source);
  const from = { slot: at.slot, offset: at.offset, strides: at.strides, kind: at.kind };
  const to = { slot, offset: start * steps[dim], strides: steps, kind: draft.buffers[slot].kind };
  draft.parts.push(copyKernel("copy", sizes, from, to));
}

/** A result that can't be computed where it is wanted. */
export function copied(draft: Draft, ref: Ref, home: Home, adds: boolean): void {
  const { shape } = draft.graph.nodes[ref], at = draft.stridesOf(ref), slot = draft.buffer(ref, home);
  const from = { slot: at.slot, offset: at.offset, strides: at.strides, kind: at.kind };
  const to = { slot, offset: 0, strides: rowMajor(shape), kind: draft.buffers[slot].kind };
  draft.parts.push(copyKernel(adds ? "add" : "copy", shape, from, to, adds));
}

/** A parameter that is not reached has a gradient of zeros. */
export function cleared(draft: Draft, index: number): void {
  const { nodes } = draft.graph;
  const ref = nodes.findIndex((node) =>
    node.op === "tensor" && node.origin.from === "parameter" && node.origin.index === index
  );
  if (ref < 0) return;
  const slot = draft.buffer(ref, { from: "gradient", index });
  draft.parts.push(fillKernel(slot, count(nodes[ref].shape), 0));
}
