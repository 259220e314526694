import { join } from "../../../deps/path.ts";
import { currentStream, gpuBackend, gpuRuntime, poolStream } from "../../../ffi/cuda.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { zeros } from "../../../ffi/make.ts";
import { findNccl, noNcclSentence } from "../../../ffi/nccl/find.ts";
import { keep } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { OpenedCollectives } from "../collectives.ts";
import type { GpuEngineOptions, Network } from "../engines.ts";
import { openNcclEngine } from "./engine.ts";

export async function openNcclCollectives(
  { where, device, env, flight, timeout, share, network, logs }: GpuEngineOptions,
): Promise<OpenedCollectives> {
  const { rank, world, nodes } = where;
  const { chosen, rejected } = findNccl(openedLibtorch().dir, env, gpuBackend());
  if (!chosen) throw new UserError("environment", noNcclSentence(rejected, gpuBackend()));
  const debugFile = join(logs, `nccl-rank-${rank}.log`);
  const { set, notes } = networkVariables({ network, env, nodes, adapters: adapters(), debugFile });
  for (const [name, value] of Object.entries(set)) Deno.env.set(name, value);
  if (set.NCCL_DEBUG_FILE) Deno.mkdirSync(logs, { recursive: true });
  const index = Number(device.slice("cuda:".length));
  const collectives = await openNcclEngine({
    path: chosen.path,
    runtime: gpuRuntime(),
    device: index,
    rank,
    world,
    flight,
    timeout,
    share,
    stream: poolStream(index, true),
    computing: () => currentStream(index),
    one: keep(zeros([1], { device })),
  });
  const { version, against } = collectives;
  const lines = [`Communication: ${version} (${chosen.path}, ${chosen.from}).`, ...notes];
  if (against !== null) {
    lines.push(`Known of ${version}: ${against}. Take a newer one, by HPCTRAIN_NCCL for example.`);
  }
  return { collectives, notes: lines };
}

function adapters(): string[] {
  try {
    return [...Deno.readDirSync("/sys/class/infiniband")].map(({ name }) => name);
  } catch {
    return []; // none, or a container that hides them
  }
}

// The variables are those that a user would set by hand. A variable that is already set stays.

export interface NetworkOptions {
  readonly network: Network;
  readonly env: Readonly<Record<string, string>>;
  readonly nodes: number;
  /** Names in /sys/class/infiniband. */
  readonly adapters: readonly string[];
  readonly debugFile: string;
}

export function networkVariables(
  { network, env, nodes, adapters, debugFile }: NetworkOptions,
): { set: Record<string, string>; notes: string[] } {
  const wanted: Record<string, string> = {
    ...(network === "infiniband" ? INFINIBAND : network === "ethernet" ? ETHERNET : {}),
    // One node may have nothing but the loopback.
    ...(network !== "auto" && nodes > 1 ? { NCCL_SOCKET_IFNAME: "^docker,lo" } : {}),
    ...(env.NCCL_DEBUG ? { NCCL_DEBUG_FILE: debugFile } : {}),
  };
  const names = Object.keys(wanted);
  const kept = names.filter((name) => env[name] !== undefined && env[name] !== wanted[name]);
  const set = Object.fromEntries(
    names.filter((name) => env[name] === undefined).map((name) => [name, wanted[name]]),
  );
  const notes: string[] = [];
  const list = (values: Readonly<Record<string, string>>, names: readonly string[]) =>
    names.map((name) => `${name}=${values[name]}`).join(" ");
  const mine = Object.keys(set);
  if (mine.length > 0) notes.push(`For NCCL: ${list(set, mine)}.`);
  if (kept.length > 0) notes.push(`From the environment, and kept: ${list(env, kept)}.`);
  if (network === "infiniband" && adapters.length === 0) {
    notes.push(
      "--network infiniband, but this node shows no InfiniBand adapter (/sys/class/infiniband): NCCL will use its sockets.",
    );
  }
  return { set, notes };
}

/**
 * NCCL knows best how far adapters may read a GPU's memory and over how many queues: both hang some fabrics.
 */
const INFINIBAND = { NCCL_IB_DISABLE: "0" };
const ETHERNET = { NCCL_IB_DISABLE: "1" };
