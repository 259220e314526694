// Products that follow each other and differ only in where their matrices begin, by the same steps each time, are one
// loop: the heads of an attention, of each sample.
import type { GemmKernel, Kernel } from "./kernel.ts";

/** So many times, and elements from one time to the next. */
export interface Repeat {
  readonly count: number;
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

export interface ProductBatch {
  readonly kernel: "batch";
  readonly product: GemmKernel;
  /** The outermost first. */
  readonly repeats: readonly Repeat[];
}

/** `backwards`: a step may be negative, which the strides of libtorch's tensors may not. */
export function inBatches(
  kernels: readonly Kernel[],
  { backwards } = { backwards: true },
): (Kernel | ProductBatch)[] {
  const joined: (Kernel | ProductBatch)[] = [];
  for (let at = 0; at < kernels.length;) {
    const batch = batchAt(kernels, at, backwards);
    joined.push(batch ?? kernels[at]);
    at += batch?.repeats.reduce((product, { count }) => product * count, 1) ?? 1;
  }
  return joined;
}

function batchAt(kernels: readonly Kernel[], at: number, backwards: boolean): ProductBatch | null {
  const product = kernels[at];
  if (product.kernel !== "gemm" || product.epilogue) return null;
  const same: GemmKernel[] = [];
  for (let i = at; i < kernels.length; i++) {
    const kernel = kernels[i];
    if (kernel.kernel !== "gemm" || !sameProduct(product, kernel)) break;
    same.push(kernel);
  }
  const inner = evenly(same);
  if (inner.count < 2 || !backwards && goesBack(inner)) return null;
  // Whole runs of the inner steps, as often as they follow each other evenly.
  const starts: GemmKernel[] = [];
  for (let i = 0; i + inner.count <= same.length; i += inner.count) {
    const run = evenly(same.slice(i, i + inner.count));
    if (!equal(run, inner)) break;
    starts.push(same[i]);
  }
  const outer = evenly(starts);
  const twice = outer.count >= 2 && (backwards || !goesBack(outer));
  return { kernel: "batch", product, repeats: twice ? [outer, inner] : [inner] };
}

const goesBack = ({ a, b, c }: Repeat): boolean => Math.min(a, b, c) < 0;

const sameProduct = (one: GemmKernel, other: GemmKernel): boolean =>
  other.epilogue === null && one.m === other.m && one.n === other.n && one.k === other.k &&
  one.add === other.add && (["a", "b", "c"] as const).every((name) =>
    one[name].slot === other[name].slot && String(one[name].strides) === String(other[name].strides)
  );

const step = (one: GemmKernel, other: GemmKernel): Omit<Repeat, "count"> => ({
  a: other.a.offset - one.a.offset,
  b: other.b.offset - one.b.offset,
  c: other.c.offset - one.c.offset,
});

const equal = (one: Repeat, other: Repeat): boolean =>
  one.count === other.count && one.a === other.a && one.b === other.b && one.c === other.c;

/** How many from the first on are equally far from each other. */
function evenly(kernels: readonly GemmKernel[]): Repeat {
  if (kernels.length < 2) return { count: kernels.length, a: 0, b: 0, c: 0 };
  const first = step(kernels[0], kernels[1]);
  let count = 2;
  while (count < kernels.length) {
    const next = step(kernels[count - 1], kernels[count]);
    if (next.a !== first.a || next.b !== first.b || next.c !== first.c) break;
    count++;
  }
  return { count, ...first };
}
