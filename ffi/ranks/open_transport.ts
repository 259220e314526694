import { openShared, type SharedMemory } from "./shared.ts";
import { type Connections, TcpTransport } from "./tcp.ts";
import type { Transport } from "./transport.ts";

export type TransportOptions =
  | {
    readonly by: "mpi";
    /** The module that opens it, by its address: MPI is a part of the program. */
    readonly module: string;
    readonly path: string;
    /** There are more ranks than cores: a spinning rank keeps a core from those that it waits for. */
    readonly crowded: boolean;
  }
  | { readonly by: "shm"; readonly memory: SharedMemory }
  | { readonly by: "tcp"; readonly connections: Connections };

export async function openTransport(
  by: TransportOptions,
  rest: (polls: number, crowded: boolean) => void = () => {},
): Promise<Transport> {
  switch (by.by) {
    case "mpi":
      return (await import(by.module)).openMpi(by.path, (polls: number) => rest(polls, by.crowded));
    case "shm":
      return openShared(by.memory);
    case "tcp":
      return new TcpTransport(by.connections);
  }
}
