// A kernel as several that can run at the same time: each has rows or columns of its own, and the bits are the same.
import type { GemmKernel, GroupKernel, Kernel, StridedAccess } from "../kernel.ts";
import type { ProductBatch } from "../batches.ts";
import type { LoopNest } from "./loop_fusion.ts";
import { simplified, stridedAccessesOf, withAccesses } from "../strided_access.ts";

/** Multiplications, and instructions' results, of about 12 us on one core: threads that wait for work meet in 2 us. */
const LEAST_GEMM = 1 << 20, LEAST_GROUP = 3 << 17;
/** A number's way to or from memory takes as long as so many instructions. */
const MEMORY = 4;
/** Columns of a part, but for the last one: whole panels of a product, and whole cache lines. */
const COLUMNS = 64;
/** So few rows of a product keep a thread busy. */
const ROWS = 24;

export function splitKernel(
  kernel: Kernel | ProductBatch | LoopNest,
  parts: number,
): readonly (Kernel | ProductBatch | LoopNest)[] {
  if (parts < 2) return [kernel];
  if (kernel.kernel === "nest") return splitLoopNest(kernel, parts);
  if (kernel.kernel === "batch") return splitBatch(kernel, parts);
  if (kernel.kernel === "gemm") return splitGemm(kernel, parts);
  return kernel.kernel === "group" ? splitGroup(kernel, parts) : [kernel];
}

interface Range {
  readonly from: number;
  readonly count: number;
}

/** Not more parts than have work enough, and room. */
const fewer = (parts: number, work: number, least: number, room: number): number =>
  Math.min(parts, Math.floor(2 * work / least), Math.floor(room));

/** At most so many ranges of 0 to `size` - 1 that begin at multiples of `unit`. */
function ranges(size: number, parts: number, unit: number): Range[] {
  const each = Math.ceil(size / parts / unit) * unit;
  // One that would be left alone joins the others: a single column of a product is summed in another order.
  const count = Math.ceil((size - (unit > 1 ? 1 : 0)) / each);
  return Array.from({ length: count }, (_, i) => ({
    from: i * each,
    count: i === count - 1 ? size - i * each : each,
  }));
}

const moved = (access: StridedAccess, dim: number, by: number): StridedAccess => ({
  ...access,
  offset: access.offset + by * access.strides[dim],
});

function splitBatch(batch: ProductBatch, parts: number): readonly ProductBatch[] {
  const { product, repeats: [first, ...others] } = batch;
  const times = batch.repeats.reduce((all, { count }) => all * count, 1);
  const count = fewer(parts, product.m * product.n * product.k * times, LEAST_GEMM, first.count);
  if (count < 2) return [batch];
  return ranges(first.count, count, 1).map(({ from, count }) => {
    const begin = (name: "a" | "b" | "c"): StridedAccess => ({
      ...product[name],
      offset: product[name].offset + from * first[name],
    });
    return {
      ...batch,
      product: { ...product, a: begin("a"), b: begin("b"), c: begin("c") },
      repeats: [{ ...first, count }, ...others],
    };
  });
}

function splitLoopNest(nest: LoopNest, parts: number): readonly LoopNest[] {
  const { counts: [first, ...others], bodies } = nest;
  const times = others.reduce((all, count) => all * count, first);
  const work = bodies.reduce(
    (sum, { kernel }) => sum + (kernel.kernel === "gemm" ? kernel.m * kernel.n * kernel.k : 0),
    0,
  );
  const count = fewer(parts, work * times, LEAST_GEMM, first);
  if (count < 2) return [nest];
  return ranges(first, count, 1).map(({ from, count }) => ({
    ...nest,
    counts: [count, ...others],
    bodies: bodies.map(({ kernel, starts }) => ({
      kernel,
      starts: starts.map(({ access, steps }) => ({
        steps,
        access: { ...access, offset: access.offset + from * steps[0] },
      })),
    })),
  }));
}

function splitGemm(kernel: GemmKernel, parts: number): readonly Kernel[] {
  const { m, n, k, a, b, c, epilogue } = kernel;
  // By columns each thread gathers panels of its own; by rows all gather all.
  const byColumns = n / COLUMNS >= Math.min(parts, m / ROWS);
  const count = fewer(parts, m * n * k, LEAST_GEMM, byColumns ? n / COLUMNS : m / ROWS);
  if (count < 2) return [kernel];
  const dim = byColumns ? 1 : 0;
  // The product itself, slot -1, begins with the part.
  const move = (by: number) => (access: StridedAccess) =>
    access.slot === -1 ? access : moved(access, dim, by);
  return ranges(byColumns ? n : m, count, byColumns ? COLUMNS : 1).map(({ from, count }) => ({
    ...kernel,
    ...(byColumns ? { n: count, b: moved(b, 1, from) } : { m: count, a: moved(a, 0, from) }),
    c: moved(c, dim, from),
    epilogue: epilogue && withAccesses(epilogue, move(from)),
  }));
}

function splitGroup(kernel: GroupKernel, parts: number): readonly Kernel[] {
  const group = simplified(kernel), { sizes, stages } = group;
  const has = (over: string) => stages.some((stage) => stage.reductions.some((one) => one.over === over));
  const elements = sizes.reduce((product, size) => product * size, 1);
  const instructions = stages.reduce((sum, stage) => sum + stage.instructions.length, 0);
  const work = elements * (instructions + MEMORY * stridedAccessesOf(group).length);
  if (has("all") || has("row") && has("column")) return [kernel];
  const last = sizes.length - 1;
  const dim = has("column") || last === 0 && !has("row") ? last : 0;
  const unit = dim === last ? COLUMNS : 1;
  const count = fewer(parts, work, LEAST_GROUP, sizes[dim] / unit);
  if (count < 2 || last === 0 && has("row")) return [kernel];
  return ranges(sizes[dim], count, unit).map(({ from, count }) => ({
    ...group,
    sizes: sizes.with(dim, count),
    stages: stages.map((stage) => withAccesses(stage, (access) => moved(access, dim, from))),
  }));
}
