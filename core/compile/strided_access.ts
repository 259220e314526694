// A group in the fewest loops: dimensions that all its accesses cross in one stride are one.
import type { GroupKernel, Reduction, Stage, StridedAccess } from "./kernel.ts";

/** So many rows are added one after the other. */
const IN_ORDER = 16;

export function simplified(kernel: GroupKernel): GroupKernel {
  let group: GroupKernel = kernel.sizes.length === 0
    ? withDims(kernel, [1], (strides) => [...strides, 1])
    : withZeroStrides(kernel);
  const has = (over: Reduction["over"]) =>
    group.stages.some(({ reductions }) => reductions.some((reduction) => reduction.over === over));
  group = without(group, (size, dim) => size === 1 && dim < group.sizes.length - 1);
  // A single column is summed up as a whole, if it is long enough that its order is not promised.
  const rows = group.sizes.slice(0, -1).reduce((product, size) => product * size, 1);
  if (!has("row") && group.sizes.at(-1) === 1 && (rows > IN_ORDER || rows > 1 && !has("column"))) {
    const last = group.sizes.length - 1;
    group = without(columnsAsWhole(group), (_, dim) => dim === last);
  }
  const mayJoinLast = !has("row") && !has("column");
  for (let dim = group.sizes.length - 2; dim >= 0; dim--) {
    const joins = dim < group.sizes.length - 2 || mayJoinLast;
    if (joins && stridedAccessesOf(group).every(({ strides }) => inOneStride(strides, group.sizes, dim))) {
      const { sizes } = group;
      const joined = sizes.toSpliced(dim, 2, sizes[dim] * sizes[dim + 1]);
      group = withDims(group, joined, (strides) => strides.toSpliced(dim, 1));
    }
  }
  // One element in a row: where the next one would be does not matter.
  if (group.sizes.at(-1) === 1) {
    group = withDims(group, group.sizes, (strides) => [...strides.slice(0, -1), 1]);
  }
  return group;
}

const inOneStride = (strides: readonly number[], sizes: readonly number[], dim: number): boolean =>
  strides[dim] === strides[dim + 1] * sizes[dim + 1];

function without(group: GroupKernel, gone: (size: number, dim: number) => boolean): GroupKernel {
  const stays = group.sizes.map((size, dim) => !gone(size, dim));
  return withDims(
    group,
    group.sizes.filter((_, dim) => stays[dim]),
    (strides) => strides.filter((_, dim) => stays[dim]),
  );
}

/** The strides of a reduction's result over the dimensions that it sums up are 0. */
function withZeroStrides(group: GroupKernel): GroupKernel {
  const last = group.sizes.length - 1;
  return {
    ...group,
    stages: group.stages.map((stage) => ({
      ...stage,
      reductions: stage.reductions.map((reduction) => {
        const { to, over } = reduction;
        if (!to) return reduction;
        const varies = (dim: number) => over === "row" ? dim < last : over === "column" && dim === last;
        const strides = group.sizes.map((_, dim) => varies(dim) ? to.strides[dim] ?? 0 : 0);
        return { ...reduction, to: { ...to, strides } };
      }),
    })),
  };
}

const columnsAsWhole = (group: GroupKernel): GroupKernel => ({
  ...group,
  stages: group.stages.map((stage) => ({
    ...stage,
    reductions: stage.reductions.map((reduction) => ({ ...reduction, over: "all" as const })),
  })),
});

function withDims(
  group: GroupKernel,
  sizes: readonly number[],
  change: (strides: readonly number[]) => readonly number[],
): GroupKernel {
  const changed = (access: StridedAccess) => ({ ...access, strides: change(access.strides) });
  return { ...group, sizes, stages: group.stages.map((stage) => withAccesses(stage, changed)) };
}

/** The same work on other memory. */
export function withAccesses(
  { instructions, stores, reductions }: Stage,
  to: (access: StridedAccess) => StridedAccess,
): Stage {
  return {
    instructions: instructions.map((one) => "from" in one ? { ...one, from: to(one.from) } : one),
    stores: stores.map((store) => ({ ...store, to: to(store.to) })),
    reductions: reductions.map((reduction) => ({ ...reduction, to: reduction.to && to(reduction.to) })),
  };
}

export function stridedAccessesOf(group: GroupKernel): StridedAccess[] {
  return group.stages.flatMap(({ instructions, stores, reductions }) => [
    ...instructions.flatMap((instruction) => "from" in instruction ? [instruction.from] : []),
    ...stores.map(({ to }) => to),
    ...reductions.flatMap(({ to }) => to ?? []),
  ]);
}

/** Sums over columns of more rows are kept apart from sums over rows: threads share either, and add up in fewer steps. */
const TOGETHER = 64;

export function mixesSums({ sizes, stages }: GroupKernel): boolean {
  const rows = sizes.slice(0, -1).reduce((product, size) => product * size, 1);
  const has = (over: Reduction["over"]) =>
    stages.some(({ reductions }) => reductions.some((reduction) => reduction.over === over));
  return rows > TOGETHER && has("row") && has("column");
}
