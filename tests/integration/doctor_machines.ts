// Machines for the tests of doctor: nodes by name, a cable that is cut, a core that is kept from working.
import { inTemp } from "./program.ts";

/**
 * Runs its words on a node of its own name: MPICH's launcher says which rank it is, and takes all for one host. The node
 * that BARE names lacks libtorch.
 */
export const NODE = `#!/bin/sh
export MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 NODE=node$((PMI_RANK + 1))
[ "$NODE" != "$BARE" ] || export HPCTRAIN_LIBTORCH=/not/on/this/node
exec unshare --uts sh -c 'hostname $NODE && exec "$@"' sh "$@"
`;

const does = (program: string, ...args: string[]): boolean => {
  try {
    return new Deno.Command(program, { args, stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false; // no such program
  }
};
const ip = (...args: string[]) => does("ip", ...args);

export interface Host {
  readonly namespace: string;
  readonly card: string;
  readonly address: string;
}

const HOSTS: readonly Host[] = ["a", "b"].map((side, i) => ({
  namespace: `hpctrain-doctor-${side}-${Deno.pid}`,
  card: `hpd${side}${Deno.pid}`.slice(0, 15),
  address: `10.214.${Deno.pid % 200}.${i + 1}`,
}));

function connect(): boolean {
  const [a, b] = HOSTS;
  return HOSTS.every(({ namespace }) => ip("netns", "add", namespace)) &&
    ip("link", "add", a.card, "netns", a.namespace, "type", "veth", "peer", b.card, "netns", b.namespace) &&
    HOSTS.every(({ namespace, card, address }) =>
      ip("-n", namespace, "address", "add", `${address}/24`, "dev", card) &&
      ip("-n", namespace, "link", "set", card, "up") &&
      ip("-n", namespace, "link", "set", "lo", "up")
    );
}

const disconnect = () => HOSTS.forEach(({ namespace }) => ip("netns", "delete", namespace));

/** Takes root, and the right to make namespaces, which containers often lack. */
export const nodesPossible = (() => {
  if (Deno.uid() !== 0 || !does("unshare", "--uts", "true")) return false;
  try {
    return connect();
  } finally {
    disconnect();
  }
})();

/** Two hosts that have addresses, and a cable between them that carries nothing. */
export const onCutLink = (body: (hosts: readonly Host[], folder: string) => Promise<void>): Promise<void> =>
  inTemp(async (folder) => {
    connect();
    try {
      ip("-n", HOSTS[1].namespace, "link", "set", HOSTS[1].card, "down");
      await body(HOSTS, folder);
    } finally {
      disconnect();
    }
  });

/** Late by as much, on a busy machine, it still runs for less than the others do. */
const STOPPED_MS = 100, RUNNING_MS = 5;

/** From when it knows MPI, which is when it has come to measuring, until it ends. */
export async function throttled(pids: () => number[]): Promise<void> {
  const rest = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  let found: number[] = [];
  for (let tries = 0; found.length === 0 && tries < 1000; tries++) {
    await rest(20);
    found = pids().filter(knowsMpi);
  }
  const signal = (name: Deno.Signal) =>
    found = found.filter((pid) => {
      try {
        Deno.kill(pid, name);
        return true;
      } catch {
        return false; // it has ended
      }
    });
  while (found.length > 0) {
    signal("SIGSTOP");
    await rest(STOPPED_MS);
    signal("SIGCONT");
    await rest(RUNNING_MS);
  }
}

function knowsMpi(pid: number): boolean {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/maps`).includes("/libmpi.so");
  } catch {
    return false; // it has ended
  }
}
