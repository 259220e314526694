// Where ranks meet under --deterministic=world: each gives the sums of the tree's nodes that it holds, and all add them up
// in the tree's order. May import ffi, dist (types), sum_tree, virtual_shards (types).
import { zeros } from "../../../ffi/make.ts";
import { copy_, select } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Collectives } from "../../dist/collectives.ts";
import { nodesWithin, shardsOfRank, type Sum } from "../sum_tree.ts";
import type { Combine } from "../virtual_shards.ts";

export function combineOver(collectives: Collectives, shards: number): Combine {
  const { world } = collectives;
  const nodes = Array.from(
    { length: world },
    (_, rank) => nodesWithin(shardsOfRank(shards, rank, world), shards),
  );
  const most = Math.max(...nodes.map((of) => of.length));
  return (own) => {
    const { numel, device } = own[0].value;
    const mine = zeros([most, numel], { device });
    own.forEach(({ value }, i) => copy_(select(mine, 0, i), value));
    const all = zeros([world, most, numel], { device });
    collectives.wait(collectives.allGather(all, mine, "gradients of virtual shards"));
    return nodes.flatMap((of, rank) => {
      const theirs = select(all, 0, rank);
      return of.map((node, i): Sum<Tensor> => ({ ...node, value: select(theirs, 0, i) }));
    });
  };
}
