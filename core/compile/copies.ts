// Groups that move memory: a copy, a copy that adds, a fill.
import type { GroupKernel, Walk } from "./kernel.ts";

/** Copies, or adds. Dimensions that both sides cross in one stride are joined. */
export function copyKernel(
  name: string,
  shape: readonly number[],
  from: Walk,
  to: Walk,
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
  const strides = (walk: Walk) => ({
    ...walk,
    strides: merged.length === 0 ? [0] : merged.map((group) => walk.strides[group.at(-1)!]),
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

export const fillKernel = (slot: number, elements: number, value: number): GroupKernel => ({
  kernel: "group",
  name: "fill",
  sizes: [elements],
  stages: [{
    instructions: [{ op: "number", value }],
    stores: [{ value: 0, to: { slot, offset: 0, strides: [elements > 1 ? 1 : 0], kind: "f32" } }],
    reductions: [],
  }],
});
