// What a thread that communicates is told to do so by: plain data, so that another thread can say it.
import { openMpi } from "../../../ffi/mpi/mpi.ts";
import { openShared, type SharedMemory } from "../../../ffi/ranks/shared.ts";
import { type Connections, openTcp } from "../../../ffi/ranks/tcp.ts";
import type { Transport } from "../../../ffi/ranks/transport.ts";

export type By =
  | {
    readonly by: "mpi";
    readonly path: string;
    /** More ranks than cores: who spins keeps a core from those that it waits for. */
    readonly crowded: boolean;
  }
  | { readonly by: "shm"; readonly memory: SharedMemory }
  | { readonly by: "tcp"; readonly connections: Connections };

/** `rest`: between two looks at a collective of MPI's. */
export function openTransport(
  by: By,
  rest: (looks: number, crowded: boolean) => void = () => {},
): Transport {
  switch (by.by) {
    case "mpi":
      return openMpi(by.path, (looks) => rest(looks, by.crowded));
    case "shm":
      return openShared(by.memory);
    case "tcp":
      return openTcp(by.connections);
  }
}
