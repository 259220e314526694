// How the threads of a GPU share a group's loops. The number of threads depends on the group's shape alone, and so does
// the order of its sums: the same step has the same bits on every GPU.
import { isHalf } from "../graph.ts";
import type { GroupKernel, Reduction } from "../kernel.ts";
import { stridedAccessesOf } from "../strided_access.ts";
import type { Lanes } from "./expressions.ts";

/** Threads of a block; a multiple of a warp's 32. */
const BLOCK = 256, WARP = 32;
/** Blocks that fill a large GPU a few times over; the loops go on from there. */
const MOST_BLOCKS = 2048;
/** So many parts of a sum meet in its second step. */
const MOST_PARTS = 256;
/** A thread or a warp takes rows of so many elements, a block longer ones, and a large block the longest. */
const SHORT = 8, MIDDLE = 1024, LONGEST = 8192;
/** So many rows or more keep a GPU busy by themselves. */
const MANY_ROWS = 256;
/** Few rows at a time are under way then, so that a row is still in the cache when it is read once more. */
const LARGE_BLOCK = 1024;
/** Sums over columns beside those over rows: a thread keeps at most so many numbers of its own. */
const MOST_KEPT = 64;
/** Their blocks: two for each multiprocessor of a large GPU. */
const BLOCKS_OF_COLUMNS = 264;
/** Elements from which on a row is read four at a time, or eight of half precision. */
const LONG = 128;
/** A thread takes four columns where there are so many. */
const FEW_COLUMNS = 16;
/** Each part sums up so many rows at least. */
const ROWS = 8;

export interface KernelSchedule {
  /**
   * flat: a thread goes from element to element. rows: threads share a row, and its sums are known to all of them.
   * columns: a thread stays in its column, and goes from row to row.
   */
  readonly way: "flat" | "rows" | "columns";
  readonly lanes: Lanes;
  readonly blocks: number;
  readonly threads: number;
  /** rows: threads of a row. columns: columns of a block. */
  readonly width: number;
  /** rows: that many take turns. columns: blocks one above the other. */
  readonly workers: number;
  /** rows: each thread keeps the sums over its columns, and a block's are one part. */
  readonly keeps: boolean;
}

const hasReduction = (kernel: GroupKernel, over: Reduction["over"]): boolean =>
  kernel.stages.some(({ reductions }) => reductions.some((one) => one.over === over));

/** The group is simplified. */
export function kernelSchedule(kernel: GroupKernel): KernelSchedule {
  const { sizes } = kernel, inner = sizes.at(-1)!;
  const rows = sizes.slice(0, -1).reduce((product, size) => product * size, 1);
  if (hasReduction(kernel, "row")) return byRows(rows, inner, columnSums(kernel));
  const eight = inner % 8 === 0 && inner >= LONG && isHalfOnly(kernel);
  if (hasReduction(kernel, "column")) return byColumns(rows, inner, eight);
  if (rows >= MANY_ROWS && inner >= LONGEST && hasRowValues(kernel)) return byRows(rows, inner, 0);
  const lanes = eight ? 8 : rows === 1 ? inner >= LONG ? 4 : 1 : inner % 4 === 0 ? 4 : 1;
  const most = hasReduction(kernel, "all") ? MOST_PARTS : MOST_BLOCKS;
  const blocks = Math.min(most, Math.ceil(rows * inner / lanes / BLOCK));
  return { way: "flat", lanes, blocks, threads: BLOCK, width: 1, workers: blocks, keeps: false };
}

/** Sums over columns beside sums over rows stay in registers, or they had better be another group's. */
export function sumsShareLoops(kernel: GroupKernel): boolean {
  return !hasReduction(kernel, "row") || columnSums(kernel) === 0 || kernelSchedule(kernel).keeps;
}

/** All that is read or written from column to column is of half precision: 16 bytes are eight numbers. */
const isHalfOnly = ({ stages }: GroupKernel): boolean =>
  stages.flatMap(({ instructions, stores }) => [
    ...instructions.flatMap((one) => "from" in one ? [one.from] : []),
    ...stores.map(({ to }) => to),
  ]).every(({ kind, strides }) => isHalf(kind) || strides.at(-1) === 0);

/** A value that differs from row to row alone is computed once by each of those who share the row. */
const hasRowValues = (kernel: GroupKernel): boolean =>
  stridedAccessesOf(kernel).some(({ strides }) =>
    strides.at(-1) === 0 && strides.some((stride) => stride !== 0)
  );

const columnSums = ({ stages }: GroupKernel): number =>
  stages.flatMap(({ reductions }) => reductions).filter(({ over, to }) => over === "column" && to !== null)
    .length;

/** Columns that a thread has to itself. */
export const ownColumns = (
  inner: number,
  { way, width, lanes }: Pick<KernelSchedule, "way" | "width" | "lanes">,
): number => way === "columns" ? lanes : Math.ceil(inner / (width * lanes)) * lanes;

function byRows(rows: number, inner: number, columns: number): KernelSchedule {
  const lanes = inner % 4 === 0 && inner >= LONG ? 4 : 1;
  const width = inner <= SHORT
    ? 1
    : inner <= MIDDLE
    ? WARP
    : columns === 0 && inner >= LONGEST
    ? LARGE_BLOCK
    : BLOCK;
  const threads = Math.max(BLOCK, width), each = threads / width;
  const own = ownColumns(inner, { way: "rows", width, lanes });
  const keeps = columns > 0 && width > 1 && columns * own <= MOST_KEPT;
  if (keeps) {
    const blocks = Math.min(BLOCKS_OF_COLUMNS, Math.ceil(rows / each));
    return { way: "rows", lanes, blocks, threads, width, workers: blocks * each, keeps };
  }
  const wanted = columns > 0 ? Math.min(MOST_PARTS, Math.ceil(rows / ROWS)) : rows;
  const blocks = Math.min(MOST_BLOCKS, Math.ceil(wanted / each));
  return { way: "rows", lanes, blocks, threads, width, workers: Math.min(wanted, blocks * each), keeps };
}

function byColumns(rows: number, inner: number, eight: boolean): KernelSchedule {
  const lanes = eight ? 8 : inner % 4 === 0 && inner >= FEW_COLUMNS ? 4 : 1;
  let width = WARP;
  while (width / 2 * lanes >= inner) width /= 2;
  const across = Math.ceil(inner / (width * lanes)), high = BLOCK / width;
  const most = Math.max(1, Math.min(MOST_PARTS, Math.floor(MOST_BLOCKS / across)));
  const workers = Math.max(1, Math.min(most, Math.floor(rows / (high * ROWS))));
  return { way: "columns", lanes, blocks: across * workers, threads: BLOCK, width, workers, keeps: false };
}
