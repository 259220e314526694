// Sums in libtorch's order (cascade_sum in SumKernel.cpp), written as sums over columns, which have its order: 16 rows at
// a time, then 16 of those sums. Columns that fill no four vectors are summed four rows in turn.
import type { GroupKernel, Instruction, StridedAccess } from "./kernel.ts";
import { count, isView, loopsOver, rowMajor } from "./access.ts";
import { callFor } from "./calls.ts";
import type { Draft } from "./draft.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import { argsOf } from "./uses.ts";

/** Numbers of f32 in memory: rows of contiguous columns. */
interface SummedRows {
  readonly slot: number;
  readonly offset: number;
  readonly rows: number;
  readonly columns: number;
  /** Elements from one row to the next. */
  readonly stride: number;
}

export interface SumPlan {
  readonly kernels: GroupKernel[];
  /** Makes room for so many numbers, and gives its slot. */
  scratch(elements: number): number;
}

interface Spot {
  readonly slot: number;
  readonly offset: number;
}

/** libtorch's vectors here have 8 lanes, whatever the processor has. */
const LANES = 8, SIDE = 4;
/** From here on it takes larger steps. */
const MOST_ROWS = 2 ** 19;
/** libtorch divides larger sums among threads, those over rows by columns. */
const GRAIN = 32_768;

/** A sum over the rows is the same where it is part of a larger group. */
const isPlain = (columns: number): boolean => columns > 1 && columns % (LANES * SIDE) === 0;

const hasOrder = (rows: number, columns: number, threads: number): boolean =>
  rows < MOST_ROWS &&
  (threads === 1 || rows * columns < GRAIN || columns % (LANES * SIDE * threads) === 0);

/** Sums of each column of a matrix without gaps: sum(0). */
export function columnSums(plan: SumPlan, from: SummedRows, to: Spot): void {
  const { columns } = from;
  if (columns === 1) return wholeSum(plan, { ...from, columns: from.rows, rows: 1 }, to);
  const wide = columns >= LANES ? LANES * SIDE : SIDE;
  const together = columns - columns % wide;
  const part = (start: number, count: number): [SummedRows, Spot] => [
    { ...from, offset: from.offset + start, columns: count },
    { ...to, offset: to.offset + start },
  ];
  if (together > 0) cascade(plan, ...part(0, together));
  const left = columns - together;
  if (left > 1) return inTurn(plan, ...part(together, left));
  if (left === 0) return;
  // Kernels sum a single column in another order: its neighbour goes with it.
  const pair = plan.scratch(2);
  inTurn(plan, { ...from, offset: from.offset + together - 1, columns: 2 }, { slot: pair, offset: 0 });
  chain(plan, [[{ slot: pair, offset: 1 }]], { ...to, offset: to.offset + together });
}

/** The sum of contiguous numbers, one row of them. */
export function wholeSum(plan: SumPlan, from: SummedRows, to: Spot): void {
  const { slot, offset, columns: count } = from;
  const vectors = Math.floor(count / LANES);
  if (vectors === 0) return chain(plan, few(slot, offset, count), to);
  const lanes = { slot: plan.scratch(LANES), offset: 0 };
  inTurn(plan, { slot, offset, rows: vectors, columns: LANES, stride: LANES }, lanes);
  const tail = count % LANES;
  const spots = Array.from({ length: tail }, (_, i) => ({ slot, offset: offset + count - tail + i }));
  for (let i = 0; i < LANES; i++) spots.push({ slot: lanes.slot, offset: i });
  chain(plan, [spots], to);
}

/** Fewer numbers than a vector has lanes are summed in four turns. */
function few(slot: number, offset: number, count: number): Spot[][] {
  const at = (i: number): Spot => ({ slot, offset: offset + i });
  const turns = count >= SIDE ? SIDE : 1;
  return Array.from({ length: turns }, (_, k) => {
    const own = [at(k)];
    if (k === 0) { for (let i = turns; i < count; i++) own.push(at(i)); }
    return own;
  });
}

/** Four rows in turn, each with a sum of its own. */
function inTurn(plan: SumPlan, from: SummedRows, to: Spot): void {
  const { slot, offset, rows, columns, stride } = from;
  const times = Math.floor(rows / SIDE);
  const part = (row: number, count: number, step: number): SummedRows => ({
    ...from,
    offset: offset + row * stride,
    rows: count,
    stride: step * stride,
  });
  if (times === 0) return cascade(plan, from, to);
  const left = rows % SIDE;
  const sums = plan.scratch(SIDE * columns);
  for (let k = 0; k < SIDE; k++) cascade(plan, part(k, times, SIDE), { slot: sums, offset: k * columns });
  const terms: Spot[] = [{ slot: sums, offset: 0 }];
  for (let i = 0; i < left; i++) terms.push({ slot, offset: offset + (rows - left + i) * stride });
  for (let k = 1; k < SIDE; k++) terms.push({ slot: sums, offset: k * columns });
  added(plan, terms, columns, to);
}

const stridedAccess = ({ slot, offset }: Spot, strides: readonly number[]): StridedAccess => ({
  slot,
  offset,
  strides,
  kind: "f32",
});

/** Row after row, and 16 of them at a time. */
function cascade({ kernels }: SumPlan, { slot, offset, rows, columns, stride }: SummedRows, to: Spot): void {
  kernels.push({
    kernel: "group",
    name: "sum",
    sizes: [rows, columns],
    stages: [{
      instructions: [{ op: "load", from: stridedAccess({ slot, offset }, [stride, 1]) }],
      stores: [],
      reductions: [{ op: "sum", over: "column", value: 0, to: stridedAccess(to, [0, 1]) }],
    }],
  });
}

/** One after the other. */
function added({ kernels }: SumPlan, terms: readonly Spot[], columns: number, to: Spot): void {
  const instructions: Instruction[] = terms.map((spot) => ({ op: "load", from: stridedAccess(spot, [1]) }));
  let sum = 0;
  for (let i = 1; i < terms.length; i++) sum = instructions.push({ op: "add", args: [sum, i] }) - 1;
  const stores = [{ value: sum, to: stridedAccess(to, [1]) }];
  kernels.push({
    kernel: "group",
    name: "sum",
    sizes: [columns],
    stages: [{ instructions, stores, reductions: [] }],
  });
}

/** Sums of single numbers, and their sum. */
function chain(plan: SumPlan, sums: readonly (readonly Spot[])[], to: Spot): void {
  const instructions: Instruction[] = [];
  const add = (one: Instruction) => instructions.push(one) - 1;
  const load = (spot: Spot) => add({ op: "load", from: stridedAccess(spot, [0]) });
  const parts = sums.map((spots) => spots.map(load).reduce((a, b) => add({ op: "add", args: [a, b] })));
  const value = parts.reduce((a, b) => add({ op: "add", args: [a, b] }));
  const stores = [{ value, to: stridedAccess(to, [0]) }];
  plan.kernels.push({
    kernel: "group",
    name: "sum",
    sizes: [1],
    stages: [{ instructions, stores, reductions: [] }],
  });
}

// Sums of a graph in exact plans: which have libtorch's order within a group, and the others as parts of their own.

const SUM =
  "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";

export type SumNode = Node & { op: "sum"; args: readonly [Ref]; dims: readonly number[] };

/** A sum that has libtorch's order only by itself. */
export function standsAlone(graph: Graph, { args: [source], dims }: SumNode, threads: number): boolean {
  const { rows, columns, plain } = asRows(graph, source, dims);
  return !plain || !isPlain(columns) || !hasOrder(rows, columns, threads) || isTurned(graph, source);
}

/** libtorch's order follows how a value lies, and not its dimensions. */
function isTurned(graph: Graph, source: Ref): boolean {
  const node = graph.nodes[source];
  if (!isView(node)) return false;
  const wide = node.op === "permute" ? node.dims.filter((_, d) => node.shape[d] > 1) : [];
  return wide.some((d, i) => i > 0 && d < wide[i - 1]) || isTurned(graph, argsOf(node)[0]);
}

/** A sum over the first dimensions is one over rows. */
function asRows(
  graph: Graph,
  source: Ref,
  dims: readonly number[],
): { rows: number; columns: number; plain: boolean } {
  const { shape } = graph.nodes[source], sizes = loopsOver(shape);
  const over = shape.flatMap((size, i) => size > 1 ? [dims.includes(i)] : []);
  const last = over.lastIndexOf(true);
  const rows = count(sizes.slice(0, last + 1)), columns = count(sizes.slice(last + 1));
  return { rows, columns, plain: over.slice(0, last + 1).every((one) => one) };
}

/** A sum in libtorch's order, of a value that lies in memory. */
export function orderedSum(draft: Draft, ref: Ref, { args: [source], dims }: SumNode): void {
  const { graph, options } = draft, turned = isTurned(graph, source);
  const { base, offset, strides } = draft.located(source, turned);
  const { rows, columns, plain } = asRows(graph, source, dims);
  const together = String(strides) === String(rowMajor(loopsOver(graph.nodes[source].shape)));
  if (!plain || !together || !hasOrder(rows, columns, options.threads ?? 1)) {
    return callFor(draft, ref, SUM, [{ ref: source }, dims, true, null], [draft.argument(source, turned)]);
  }
  const kernels: GroupKernel[] = [];
  const to = { slot: draft.define(ref), offset: 0 };
  const from = { slot: draft.bufferOf.get(base)!, offset };
  const plan = { kernels, scratch: (elements: number) => draft.scratch(elements) };
  if (columns === 1) wholeSum(plan, { ...from, rows: 1, columns: rows, stride: rows }, to);
  else columnSums(plan, { ...from, rows, columns, stride: columns }, to);
  draft.parts.push(...kernels);
  draft.ends(ref);
}
