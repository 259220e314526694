// Some of the ranks as a world of their own: where the engine can split itself, by that; else by another communicator.
// May import ffi, dist.
import type { Device } from "../../../../ffi/tensor.ts";
import { openFlight } from "../../../dist/flight.ts";
import { openNccl } from "../../../dist/nccl/open.ts";
import type { Network } from "../../../dist/network.ts";
import type { Team } from "../../../dist/team.ts";
import type { Where } from "../../../dist/where.ts";
import type { Part } from "./pairs.ts";

export interface PartOptions {
  readonly team: Team;
  readonly where: Where;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly network: Network;
  /** The folder for what NCCL_DEBUG brings. */
  readonly logs: string;
  readonly timeout: number;
}

/** Every rank calls what it gives, whether it takes part or sits out. */
export function openParts(options: PartOptions) {
  const { team } = options;
  return team.collectives.split
    ? (_: readonly number[] | null, number: number) => Promise.resolve(splitPart(team, number))
    : (members: readonly number[] | null) => ncclPart(options, members);
}

function splitPart(team: Team, number: number): Part {
  const { collectives } = team;
  collectives.wait(collectives.split!(number, "doctor: pairs"));
  return {
    collectives,
    close() {
      collectives.wait(collectives.split!(-1, "doctor: pairs"));
      return Promise.resolve();
    },
  };
}

/** Its id goes by way of the whole world, so those who sit out take part in that. */
async function ncclPart(
  { team, where, device, env, network, logs, timeout }: PartOptions,
  members: readonly number[] | null,
): Promise<Part | null> {
  const share = (bytes?: Uint8Array): Uint8Array => {
    const heard = team.hear(bytes ? [...bytes] : null, "doctor: NCCL's id");
    return Uint8Array.from(heard[members?.[0] ?? 0] ?? []);
  };
  if (members === null) {
    share();
    return null;
  }
  const rank = members.indexOf(team.rank);
  const { collectives } = await openNccl({
    where: { ...where, rank, world: members.length, nodes: 2 },
    device,
    env,
    flight: openFlight(),
    timeout,
    share,
    network,
    logs,
  });
  return { collectives, close: () => collectives.close() };
}
