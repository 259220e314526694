// Chooses MPI where it started the ranks, else shared memory on one host, else TCP. Findings may differ
// between ranks, so they exchange them and all take the same.
import { hash } from "node:crypto";
import {
  acceptMemory,
  offerMemory,
  type SegmentHandle,
  type SharedMemory,
} from "../../../ffi/ranks/shared.ts";
import { type Connections, listen } from "../../../ffi/ranks/tcp.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Collectives, OpenedCollectives } from "../collectives.ts";
import { ownIps } from "../control/rendezvous.ts";
import { connectionKey, newSecret } from "../control/channel.ts";
import type { FlightRecorder } from "../flight_recorder.ts";
import type { RankContext } from "../context.ts";
import { hasMpi, mpiEngine } from "../engines.ts";
import { openCpuEngine, type OpenedTransport } from "./engine.ts";
import { connectTcp } from "./tcp.ts";
import type { CpuThreadAnswer } from "./thread.ts";
import type { TransportOptions } from "../../../ffi/ranks/open_transport.ts";
import type { SettingChoice } from "../../settings/values.ts";

export interface OutOfBand {
  gather<T>(name: string, value: T): T[];
  readonly key: Uint8Array;
  /** The addresses of this rank and of rank 0, as their connection has them. */
  readonly ends: { readonly own: string; readonly server: string };
}

export type CpuBackend = "auto" | "mpi" | "shm" | "tcp" | "gloo";

export interface CpuOptions {
  readonly where: RankContext;
  readonly backend: CpuBackend;
  readonly requested: SettingChoice;
  readonly env: Record<string, string>;
  readonly flight: FlightRecorder;
  readonly timeout: number;
  readonly failed: () => UserError | null;
  readonly meeting?: OutOfBand;
}

export async function openOnCpus(options: CpuOptions): Promise<OpenedCollectives> {
  const { where, backend, requested, env, meeting } = options;
  if (backend === "mpi") return await (await mpiEngine()).open(options);
  const mpi = backend !== "auto"
    ? requested.by
    : hasMpi
    ? (await mpiEngine()).offer(where, env)
    : "this hpctrain is built without MPI";
  const why = typeof mpi === "string" ? mpi : null;
  if (!meeting && typeof mpi !== "string") return await mpi.open(options);
  if (!meeting) throw new Error("internal: ranks without MPI have no way to meet.");
  const all = meeting.gather("how ranks reach each other", { host: hostIdentity(), why });
  const lacking = all.findIndex((other) => other.why !== null);
  const tried = lacking < 0 && typeof mpi !== "string" ? await mpi.attempt(options, meeting) : null;
  if (tried !== null && typeof tried !== "string") return tried;
  const reason = tried ??
    (all.every((other) => other.why !== null)
      ? all[lacking].why!
      : `for rank ${lacking} ${all[lacking].why}`);
  return await openOwn({ ...options, meeting }, all.map(({ host }) => host), reason);
}

type RendezvousedOptions = CpuOptions & { readonly meeting: OutOfBand };

async function openOwn(
  options: RendezvousedOptions,
  of: readonly HostIdentity[],
  reason: string,
): Promise<OpenedCollectives> {
  const { where: { world }, backend, requested, meeting } = options;
  const hosts = new Set(of.map(({ memory }) => memory)).size;
  const loopback = new Set(of.map(({ loopback }) => loopback)).size === 1;
  const ranks = `${formatPlural(world, "CPU rank")}${hosts > 1 ? ` on ${hosts} nodes` : ""}`;
  if (backend === "shm" && hosts > 1) {
    throw new UserError(
      "usage",
      `${requested.by} is for ranks of one node, and these ${world} are on ${hosts}: ${requested.undo}.`,
    );
  }
  if (backend !== "tcp" && hosts === 1) {
    const memory = shareMemory(options.where.rank, meeting);
    if (typeof memory !== "string") {
      const collectives = await engine(options, { by: "shm", memory });
      return { collectives, notes: [`Communication: ${ranks} by shared memory; ${reason}.`] };
    }
    if (backend === "shm") throw noSharedMemory(memory, requested);
    reason = `they can't share memory, since ${memory}; ${reason}`;
  }
  const connections = connectAll(options, loopback);
  const collectives = await engine(options, { by: "tcp", connections });
  return { collectives, notes: [`Communication: ${ranks} by TCP; ${reason}.`] };
}

const noSharedMemory = (why: string, { by, undo }: SettingChoice) =>
  new UserError(
    "environment",
    `${by}, and the ranks of this node can't share memory: ${why}. To have them communicate by TCP, ${undo}.`,
  );

interface Offer {
  readonly host: string;
  readonly port: number;
  readonly addresses: readonly string[];
  /** The address at which this rank has reached rank 0. */
  readonly zero: string;
  /** Rank 0's salt separates this run from another one with the same secret. */
  readonly salt: string;
}

function connectAll(
  { where: { rank }, meeting, timeout, failed }: RendezvousedOptions,
  loopback: boolean,
): Connections {
  const listener = listen(loopback);
  const { own, server } = meeting.ends;
  const offers = meeting.gather<Offer | null>(
    "TCP",
    listener && {
      host: Deno.hostname(),
      port: listener.port,
      addresses: loopback ? ["127.0.0.1"] : [...new Set([own, ...ownIps()])].filter(isOutside),
      zero: server,
      salt: newSecret(),
    },
  );
  const present = offers.filter((offer) => offer !== null);
  if (!listener || present.length < offers.length) {
    throw new UserError(
      "environment",
      `Rank ${offers.indexOf(null)} can listen at no TCP port: has its process too many open files?`,
    );
  }
  // Rank 0 has reached itself by the loopback: the others know a better address.
  const seen = loopback ? [] : [...new Set(present.map(({ zero }) => zero))].filter(isOutside);
  const peers = present.map(({ host, port, addresses }, of) => ({
    name: `rank ${of} on ${host}`,
    port,
    addresses: of === 0 ? [...new Set([...seen, ...addresses])] : addresses,
  }));
  const key = connectionKey(new Uint8Array([...meeting.key, ...new TextEncoder().encode(present[0].salt)]));
  const descriptors = connectTcp({
    rank,
    peers,
    listener: listener.descriptor,
    key,
    patience: 1000 * Math.min(timeout, MOST_PATIENCE),
    failed,
    say: (line) => console.error(line),
  });
  return { rank, descriptors, names: peers.map(({ name }) => name) };
}

const MOST_PATIENCE = 60;

const isOutside = (address: string) => !/^(127\.|::1$)/.test(address);

/** All ranks succeed, or all get the reason. */
function shareMemory(rank: number, meeting: OutOfBand): SharedMemory | string {
  const own = offerMemory();
  const offer: { claim: SegmentHandle } | { why: string } = typeof own === "string"
    ? { why: own }
    : { claim: own.claim };
  const offers = meeting.gather("shared memory", offer);
  const reasons = offers.flatMap((other) => "why" in other ? [other.why] : []);
  const claims = offers.flatMap((other) => "claim" in other ? [other.claim] : []);
  const memory = reasons.length === 0 && typeof own !== "string" ? acceptMemory(rank, own, claims) : null;
  const mapped = meeting.gather("shared memory is mapped", memory !== null);
  if (typeof own !== "string") own.seal();
  if (memory && mapped.every(Boolean)) return memory;
  if (typeof own !== "string") own.free();
  return reasons.length > 0
    ? reasons[0]
    : `rank ${
      mapped.indexOf(false)
    } does not reach the other ranks' memory: are they in containers of their own?`;
}

async function engine(options: CpuOptions, transport: TransportOptions): Promise<Collectives> {
  const { where: { rank, world }, flight, timeout, failed } = options;
  return await openCpuEngine({ transport, rank, world, flight, timeout, failed }, opened);
}

function opened(answer: CpuThreadAnswer): OpenedTransport {
  if ("version" in answer) return answer;
  throw new UserError(
    "environment",
    `Communication between ranks could not be opened: ${
      "failed" in answer ? answer.failed : "it was closed"
    }`,
  );
}

// Ranks on one host can map each other's memory, or reach each other at 127.0.0.1, under whatever name each
// knows the host.

interface HostIdentity {
  /** The same for processes of one kernel that see each other, and for no others. */
  readonly memory: string;
  /** The same for processes that have one loopback device. */
  readonly loopback: string;
}

function hostIdentity(): HostIdentity {
  try {
    const boot = Deno.readTextFileSync("/proc/sys/kernel/random/boot_id").trim();
    // Those of thousands of ranks go to thousands of ranks, so they are short.
    const [memory, loopback] = ["pid", "net"].map((kind) =>
      hash("sha256", `${boot} ${Deno.readLinkSync(`/proc/self/ns/${kind}`)}`).slice(0, 16)
    );
    return { memory, loopback };
  } catch {
    return { memory: Deno.hostname(), loopback: Deno.hostname() }; // a sandbox that hides them
  }
}
