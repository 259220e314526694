// From a rank on a GPU to its collectives by NCCL: finds the library, sets what the network needs, meets the others.
// May import ffi, its siblings, network, errors.
import { join } from "../../../deps/path.ts";
import { currentStream, poolStream } from "../../../ffi/cuda.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { libraryNamed } from "../../../ffi/loaded.ts";
import { zeros } from "../../../ffi/make.ts";
import { findNccl, noNcclSentence } from "../../../ffi/nccl/find.ts";
import { type Device, keep } from "../../../ffi/tensor.ts";
import { UserError } from "../../errors.ts";
import type { Collectives } from "../collectives.ts";
import type { Flight } from "../flight.ts";
import { type Network, networkVariables } from "../network.ts";
import type { Where } from "../where.ts";
import { openNcclEngine } from "./engine.ts";

/** What NCCL needs of a rank, beside what every engine does. */
export interface NcclNeeds {
  /** Rank 0's bytes, on every rank. */
  readonly share: (bytes?: Uint8Array) => Uint8Array;
  readonly network: Network;
  /** The folder for what NCCL_DEBUG brings. */
  readonly logs: string;
}

interface Options extends NcclNeeds {
  readonly where: Where;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly flight: Flight;
  readonly timeout: number;
}

export async function openNccl(
  { where, device, env, flight, timeout, share, network, logs }: Options,
): Promise<{ collectives: Collectives; said: string }> {
  const { rank, world, nodes } = where;
  const { chosen, rejected } = findNccl(openedLibtorch().dir, env);
  if (!chosen) throw new UserError("environment", noNcclSentence(rejected));
  const debugFile = join(logs, `nccl-rank-${rank}.log`);
  const { set, said } = networkVariables({ network, env, nodes, adapters: adapters(), debugFile });
  for (const [name, value] of Object.entries(set)) Deno.env.set(name, value);
  if (set.NCCL_DEBUG_FILE) Deno.mkdirSync(logs, { recursive: true });
  const index = Number(device.slice("cuda:".length));
  const collectives = await openNcclEngine({
    path: chosen.path,
    cudart: libraryNamed("libcudart"),
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
  const lines = [`Communication: ${version} (${chosen.path}, ${chosen.from}).`, ...said];
  if (against !== null) {
    lines.push(`Known of ${version}: ${against}. Take a newer one, by HPCTRAIN_NCCL for example.`);
  }
  return { collectives, said: lines.join("\n") };
}

function adapters(): string[] {
  try {
    return [...Deno.readDirSync("/sys/class/infiniband")].map(({ name }) => name);
  } catch {
    return []; // none, or a container that hides them
  }
}
