import { openMpi } from "../mpi/mpi.ts";
import { openShared, type SharedMemory } from "./shared.ts";
import { type Connections, TcpTransport } from "./tcp.ts";
import type { Transport } from "./transport.ts";

export type TransportOptions =
  | {
    readonly by: "mpi";
    readonly path: string;
    /** There are more ranks than cores: a spinning rank keeps a core from those that it waits for. */
    readonly crowded: boolean;
  }
  | { readonly by: "shm"; readonly memory: SharedMemory }
  | { readonly by: "tcp"; readonly connections: Connections };

export function openTransport(
  by: TransportOptions,
  rest: (polls: number, crowded: boolean) => void = () => {},
): Transport {
  switch (by.by) {
    case "mpi":
      return openMpi(by.path, (polls) => rest(polls, by.crowded));
    case "shm":
      return openShared(by.memory);
    case "tcp":
      return new TcpTransport(by.connections);
  }
}
