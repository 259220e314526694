// Sums of a graph in exact plans: which have libtorch's order within a group, and the others as parts of their own.
import { count, loopsOver, rowMajor } from "./access.ts";
import { callFor } from "./calls.ts";
import type { Draft } from "./draft.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import type { GroupKernel } from "./kernel.ts";
import { columnSums, hasOrder, isPlain, wholeSum } from "./sums.ts";

const SUM =
  "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";

export type SumNode = Node & { op: "sum"; args: readonly [Ref]; dims: readonly number[] };

/** A sum that has libtorch's order only by itself. */
export function standsAlone(graph: Graph, { args: [source], dims }: SumNode, threads: number): boolean {
  const { rows, columns, plain } = asRows(graph, source, dims);
  return !plain || !isPlain(columns) || !hasOrder(rows, columns, threads);
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
  const { graph, options } = draft, { base, offset, strides } = draft.located(source);
  const { rows, columns, plain } = asRows(graph, source, dims);
  const together = String(strides) === String(rowMajor(loopsOver(graph.nodes[source].shape)));
  if (!plain || !together || !hasOrder(rows, columns, options.threads ?? 1)) {
    return callFor(draft, ref, SUM, [{ ref: source }, dims, true, null], [draft.argument(source)]);
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
