// The rewrites of a graph before it is fused, in order: each gives a graph with the same results.
import type { FuseOptions } from "./draft.ts";
import { sumOriginalRows } from "./cuda/column_sums.ts";
import { halved } from "./cuda/halves.ts";
import { expanded } from "./expand.ts";
import type { Graph } from "./graph.ts";
import { savingLess } from "./saved_values.ts";
import { arranged } from "./layouts.ts";
import { recomputed } from "./recompute.ts";
import { simplify } from "./simplify.ts";

interface Pass {
  readonly name: string;
  readonly when: (options: FuseOptions) => boolean;
  readonly rewrite: (graph: Graph, options: FuseOptions) => Graph;
}

const fast = ({ exact }: FuseOptions) => !exact;
const onGpu = ({ libraryProducts }: FuseOptions) => libraryProducts === true;

const PASSES: readonly Pass[] = [
  {
    name: "calls that simple ops do better",
    when: fast,
    rewrite: (graph, o) => expanded(graph, !onGpu(o) ? "cpu" : o.recomputes ? "gpu, computed twice" : "gpu"),
  },
  {
    name: "blocks that backward computes once more",
    when: ({ recomputes }) => recomputes === true,
    rewrite: recomputed,
  },
  {
    name: "images channels last",
    when: () => true,
    rewrite: (graph, o) => arranged(graph, fast(o) && !onGpu(o)),
  },
  {
    name: "sums and rounding",
    when: () => true,
    rewrite: (graph, { exact }) => simplify(graph, exact),
  },
  {
    name: "what backward reads of forward",
    when: fast,
    rewrite: savingLess,
  },
  {
    name: "half precision",
    when: ({ halves }) => halves !== undefined,
    rewrite: (graph, { halves }) => halved(graph, halves!),
  },
  {
    name: "sums over the rows of what was turned",
    when: onGpu,
    rewrite: sumOriginalRows,
  },
];

export const rewritten = (graph: Graph, options: FuseOptions): Graph =>
  PASSES.filter(({ when }) => when(options)).reduce((now, { rewrite }) => rewrite(now, options), graph);
