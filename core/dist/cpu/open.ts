// Opens what ranks on CPUs communicate by: MPI where it started them, else memory that they share on one host, else TCP. What is
// found may differ between ranks, so each tells the others and all take the same.
import { findMpi, type MpiLibrary, noMpiSentence } from "../../../ffi/mpi/find.ts";
import { acceptMemory, offerMemory, type SharedMemory } from "../../../ffi/ranks/shared.ts";
import type { Claim } from "../../../ffi/ranks/segment.ts";
import { listen } from "../../../ffi/ranks/sockets.ts";
import type { Connections } from "../../../ffi/ranks/tcp.ts";
import { UserError } from "../../errors.ts";
import { formatPlural } from "../../format.ts";
import type { Collectives } from "../collectives.ts";
import { cardsHere } from "../control/address.ts";
import { keyOf, newSecret } from "../control/auth.ts";
import type { Flight } from "../flight.ts";
import { type MpiHere, mpiHere, openByMpi, startedByMpi } from "../mpi/open.ts";
import { Singleton } from "../mpi/match.ts";
import type { Where } from "../where.ts";
import { openCpuEngine, type Opened } from "./engine.ts";
import { type Host, hostHere } from "./host.ts";
import { meet } from "./meet.ts";
import type { Answer } from "./thread.ts";
import type { By } from "./thread_transport.ts";

/** How ranks that have nothing in common yet but the control plane tell each other what they need. */
export interface Meeting {
  gather<T>(name: string, value: T): T[];
  /** What this job's ranks alone know. */
  readonly key: Uint8Array;
  /** This rank's address and rank 0's, as their connection has them. */
  readonly ends: { readonly own: string; readonly server: string };
}

export type CpuBackend = "auto" | "mpi" | "shm" | "tcp" | "gloo";

export interface CpuOptions {
  readonly where: Where;
  readonly backend: CpuBackend;
  readonly env: Record<string, string>;
  readonly flight: Flight;
  readonly timeout: number;
  readonly failed: () => string | null;
  /** Not needed for MPI, whose ranks find each other. */
  readonly meeting?: Meeting;
}

type Open = { readonly collectives: Collectives; readonly said: string };

/** Every rank calls it, with the same backend. */
export async function openOnCpus(options: CpuOptions): Promise<Open> {
  const { where, backend, env, meeting } = options;
  if (backend === "mpi") return await openByMpi({ ...options, library: namedMpi(where, env) });
  const mpi: MpiHere = backend === "auto"
    ? mpiHere(where, env)
    : { library: null, why: `--distributed-backend ${backend}` };
  if (!meeting && mpi.library) return await openByMpi({ ...options, library: mpi.library });
  if (!meeting) throw new Error("internal: ranks without MPI have no way to meet.");
  const why = mpi.library ? null : mpi.why;
  const all = meeting.gather("how ranks reach each other", { host: hostHere(), why });
  const lacking = all.findIndex((other) => other.why !== null);
  const tried = lacking < 0 && mpi.library ? await tryMpi(options, meeting, mpi.library) : null;
  if (tried !== null && typeof tried !== "string") return tried;
  const reason = tried ??
    (all.every((other) => other.why !== null)
      ? all[lacking].why!
      : `for rank ${lacking} ${all[lacking].why}`);
  return await openOwn({ ...options, meeting }, all.map(({ host }) => host), reason);
}

/** Not every launcher that could tell MPI of the ranks has done so: then why it can't be had, the same on every rank. */
async function tryMpi(options: CpuOptions, meeting: Meeting, library: MpiLibrary): Promise<Open | string> {
  const opened = await openByMpi({ ...options, library }).catch((error: unknown) => {
    if (error instanceof Singleton && !options.env.HPCTRAIN_MPI) return error;
    throw error;
  });
  const alone = meeting.gather("MPI is open", opened instanceof Singleton);
  if (!(opened instanceof Singleton)) return opened;
  if (!alone.every(Boolean)) throw opened;
  return `what started them does not tell ${opened.version} of them${
    options.where.launcher === "slurm" ? " (srun --mpi=pmix or pmi2 would)" : ""
  }`;
}

/** What was asked for by name, or why it can't be. */
function namedMpi(where: Where, env: Record<string, string>) {
  const { world, said } = where;
  if (!startedByMpi(where, env)) {
    throw new UserError(
      "usage",
      `--distributed-backend mpi, and nothing of MPI started these ${world} ranks. ${said} Start them with \`mpirun -n ` +
        `${world} hpctrain ...\` or \`srun -n ${world} hpctrain ...\`; or leave the backend out, and they communicate by ` +
        "shared memory on one node and by TCP between nodes.",
    );
  }
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected));
  return chosen;
}

type Met = CpuOptions & { readonly meeting: Meeting };

async function openOwn(
  options: Met,
  of: readonly Host[],
  reason: string,
): Promise<Open> {
  const { where: { world }, backend, meeting } = options;
  const hosts = new Set(of.map(({ memory }) => memory)).size;
  const loopback = new Set(of.map(({ loopback }) => loopback)).size === 1;
  const ranks = `${formatPlural(world, "CPU rank")}${hosts > 1 ? ` on ${hosts} nodes` : ""}`;
  if (backend === "shm" && hosts > 1) {
    throw new UserError(
      "usage",
      `--distributed-backend shm is for ranks of one node, and these ${world} are on ${hosts}: leave it out, or give tcp.`,
    );
  }
  if (backend !== "tcp" && hosts === 1) {
    const memory = shareMemory(options.where.rank, meeting);
    if (typeof memory !== "string") {
      const collectives = await engine(options, { by: "shm", memory });
      return { collectives, said: `Communication: ${ranks} by shared memory; ${reason}.` };
    }
    if (backend === "shm") throw noSharedMemory(memory);
    reason = `they can't share memory, since ${memory}; ${reason}`;
  }
  const connections = connectAll(options, loopback);
  const collectives = await engine(options, { by: "tcp", connections });
  return { collectives, said: `Communication: ${ranks} by TCP; ${reason}.` };
}

const noSharedMemory = (why: string) =>
  new UserError(
    "environment",
    `The ranks of this node can't share memory: ${why}. Leave --distributed-backend shm out, and they communicate by TCP.`,
  );

/** What a rank tells the others of itself, so that they can connect with it. */
interface Offer {
  readonly host: string;
  readonly port: number;
  readonly addresses: readonly string[];
  /** Where this rank has reached rank 0. */
  readonly zero: string;
  /** Of rank 0 it is what tells this run from another with the same secret. */
  readonly salt: string;
}

function connectAll({ where: { rank }, meeting, timeout, failed }: Met, loopback: boolean): Connections {
  const listener = listen(loopback);
  const { own, server } = meeting.ends;
  const offers = meeting.gather<Offer | null>(
    "TCP",
    listener && {
      host: Deno.hostname(),
      port: listener.port,
      addresses: loopback ? ["127.0.0.1"] : [...new Set([own, ...cardsHere()])].filter(isOutside),
      zero: server,
      salt: newSecret(),
    },
  );
  const without = offers.indexOf(null);
  if (!listener || without >= 0) {
    throw new UserError(
      "environment",
      `Rank ${without} can listen at no TCP port: has its process too many open files?`,
    );
  }
  // Rank 0 has reached itself by the loopback: the others know better where it is.
  const seen = loopback ? [] : [...new Set(offers.map((offer) => offer!.zero))].filter(isOutside);
  const peers = offers.map((offer, of) => ({
    name: `rank ${of} on ${offer!.host}`,
    port: offer!.port,
    addresses: of === 0 ? [...new Set([...seen, ...offer!.addresses])] : offer!.addresses,
  }));
  const key = keyOf(new Uint8Array([...meeting.key, ...new TextEncoder().encode(offers[0]!.salt)]));
  const descriptors = meet({
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

/** Seconds for all connections, when all ranks are known to be there. */
const MOST_PATIENCE = 60;

const isOutside = (address: string) => !/^(127\.|::1$)/.test(address);

/** All ranks have it, or none: then why. */
function shareMemory(rank: number, meeting: Meeting): SharedMemory | string {
  const own = offerMemory();
  const offer: { claim: Claim } | { why: string } = typeof own === "string"
    ? { why: own }
    : { claim: own.claim };
  const offers = meeting.gather("shared memory", offer);
  const without = offers.findIndex((other) => "why" in other);
  const memory = without < 0 && typeof own !== "string"
    ? acceptMemory(rank, own, offers.map((other) => (other as { claim: Claim }).claim))
    : null;
  const mapped = meeting.gather("shared memory is mapped", memory !== null);
  if (typeof own !== "string") own.seal();
  if (memory && mapped.every(Boolean)) return memory;
  if (typeof own !== "string") own.free();
  return without >= 0
    ? (offers[without] as { why: string }).why
    : `rank ${
      mapped.indexOf(false)
    } does not reach the other ranks' memory: are they in containers of their own?`;
}

async function engine(options: CpuOptions, transport: By): Promise<Collectives> {
  const { where: { rank, world }, flight, timeout, failed } = options;
  return await openCpuEngine({ transport, rank, world, flight, timeout, failed }, opened);
}

function opened(answer: Answer): Opened {
  if ("version" in answer) return answer;
  throw new UserError(
    "environment",
    `Communication between ranks could not be opened: ${
      "failed" in answer ? answer.failed : "it was closed"
    }`,
  );
}
