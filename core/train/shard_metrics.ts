// Running metrics of --deterministic=world: sums are kept for each virtual shard, over the whole epoch, and added up in
// the tree's order, so they too don't depend on who computed which. A shard's sums are 0 where it is another rank's, so
// those of all ranks are put together by adding them, in any order. May import its siblings.
import type { RunningMetrics } from "./metrics.ts";
import { treeSum } from "./sum_tree.ts";

/** `make` gives metrics of the task without anything in them. */
export function metricsOfShards(
  { count }: { readonly count: number },
  make: () => RunningMetrics,
): RunningMetrics {
  const each = Array.from({ length: count }, make);
  const leaf = (from: number, to: number) => to - from === 1 ? each[from].sums() : undefined;
  const both = (a: readonly number[], b: readonly number[]) => a.map((value, i) => value + b[i]);
  return {
    observe: (output, target, loss, items, shard = 0) => each[shard].observe(output, target, loss, items),
    result() {
      const all = make();
      all.restore(treeSum({ from: 0, to: count }, leaf, both));
      return all.result();
    },
    mark: () => each.forEach((one) => one.mark()),
    undo: () => each.forEach((one) => one.undo()),
    sums: () => each.flatMap((one) => one.sums()),
    restore(sums) {
      const size = each[0].sums().length;
      const same = sums.length === count * size; // else from a run that was cut otherwise: all of it is the first's
      const of = (i: number) => same ? sums.slice(i * size, (i + 1) * size) : i === 0 ? sums : [];
      each.forEach((one, i) => one.restore(of(i)));
    },
  };
}
