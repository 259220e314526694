// Memory of a rank comes from its own NUMA domain.
import { preferMemoryOf } from "../../ffi/libc.ts";
import { ownTopology, type Topology } from "../base/topology.ts";

export interface Near {
  /** The domains of the machine that this process has cores of. */
  readonly domains: readonly number[];
  readonly ofMachine: number;
  /** The domain that memory comes from first; null where the cores are of several, or the kernel refuses. */
  readonly memory: number | null;
}

/**
 * Linux takes memory where a thread touches it first, and a thread that is not bound may be elsewhere then. A rank
 * with cores of one domain alone asks for that domain's memory. It prefers it and does not insist: a rank whose
 * data is larger than its domain would be killed with memory to spare.
 */
export function keepMemoryNear(
  { domains, ofMachine }: Topology = ownTopology(),
  prefer: (domain: number) => boolean = preferMemoryOf,
): Near {
  const ids = domains.map(({ id }) => id);
  const one = ofMachine > 1 && ids.length === 1;
  return { domains: ids, ofMachine, memory: one && prefer(ids[0]) ? ids[0] : null };
}

let near: Near | undefined;

/** Once, before libtorch takes memory: threads have what the one has that starts them. */
export const nearMemory = (): Near => near ??= keepMemoryNear();
