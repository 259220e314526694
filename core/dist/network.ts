// What distributed.network means to NCCL: the variables that a user would set by hand, and never over one that is set.
// Pure. Imports nothing.

export type Network = "auto" | "infiniband" | "ethernet";

export interface NetworkOptions {
  readonly network: Network;
  readonly env: Readonly<Record<string, string>>;
  /** How many nodes take part. */
  readonly nodes: number;
  /** Names in /sys/class/infiniband. */
  readonly adapters: readonly string[];
  /** What NCCL_DEBUG brings goes there. */
  readonly debugFile: string;
}

/** `said`: lines for the log. */
export function networkVariables(
  { network, env, nodes, adapters, debugFile }: NetworkOptions,
): { set: Record<string, string>; said: string[] } {
  const wanted: Record<string, string> = {
    ...(network === "infiniband" ? INFINIBAND : network === "ethernet" ? ETHERNET : {}),
    // On one node nothing else may be there but the loopback.
    ...(network !== "auto" && nodes > 1 ? { NCCL_SOCKET_IFNAME: "^docker,lo" } : {}),
    ...(env.NCCL_DEBUG ? { NCCL_DEBUG_FILE: debugFile } : {}),
  };
  const names = Object.keys(wanted);
  const kept = names.filter((name) => env[name] !== undefined && env[name] !== wanted[name]);
  const set = Object.fromEntries(
    names.filter((name) => env[name] === undefined).map((name) => [name, wanted[name]]),
  );
  const said: string[] = [];
  const list = (values: Readonly<Record<string, string>>, names: readonly string[]) =>
    names.map((name) => `${name}=${values[name]}`).join(" ");
  const mine = Object.keys(set);
  if (mine.length > 0) said.push(`For NCCL: ${list(set, mine)}.`);
  if (kept.length > 0) said.push(`From the environment, and kept: ${list(env, kept)}.`);
  if (network === "infiniband" && adapters.length === 0) {
    said.push(
      "--network infiniband, but this node shows no InfiniBand adapter (/sys/class/infiniband): NCCL will use its sockets.",
    );
  }
  return { set, said };
}

/** NCCL knows best how far adapters may read a GPU's memory and over how many queues: both hang some fabrics. */
const INFINIBAND = { NCCL_IB_DISABLE: "0" };
const ETHERNET = { NCCL_IB_DISABLE: "1" };
