// Chooses MPI where it started the ranks, else shared memory on one host, else TCP. Findings may differ
// between ranks, so they exchange them and all take the same.
import { hash } from "node:crypto";
import { findMpi, type MpiLibrary, noMpiSentence } from "../../../ffi/mpi/find.ts";
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
import { ownIps } from "../control/address.ts";
import { connectionKey, newSecret } from "../control/channel.ts";
import type { FlightRecorder } from "../flight_recorder.ts";
import type { RankContext } from "../context.ts";
import { openCpuEngine, type OpenedTransport } from "./engine.ts";
import { connectTcp } from "./tcp.ts";
import type { CpuThreadAnswer } from "./thread.ts";
import type { TransportOptions } from "../../../ffi/ranks/open_transport.ts";
import { MPI_TYPES } from "../../../ffi/ranks/ring.ts";
import { cpuCount } from "../../base/topology.ts";
import type { Env } from "../launchers.ts";
import type { SettingChoice } from "../../settings/values.ts";

export interface OutOfBand {
  gather<T>(name: string, value: T): T[];
  readonly key: Uint8Array;
  /** The addresses of this rank and of rank 0, as their connection has them. */
  readonly ends: { readonly own: string; readonly server: string };
}

export type CpuBackend = "auto" | "mpi" | "shm" | "tcp" | "gloo";

interface CpuOptions {
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
  if (backend === "mpi") {
    return await openMpiCollectives({ ...options, library: namedMpi(where, env, requested) });
  }
  const mpi: MpiAvailability = backend === "auto"
    ? mpiAvailability(where, env)
    : { library: null, why: requested.by };
  if (!meeting && mpi.library) return await openMpiCollectives({ ...options, library: mpi.library });
  if (!meeting) throw new Error("internal: ranks without MPI have no way to meet.");
  const why = mpi.library ? null : mpi.why;
  const all = meeting.gather("how ranks reach each other", { host: hostIdentity(), why });
  const lacking = all.findIndex((other) => other.why !== null);
  const tried = lacking < 0 && mpi.library ? await tryMpi(options, meeting, mpi.library) : null;
  if (tried !== null && typeof tried !== "string") return tried;
  const reason = tried ??
    (all.every((other) => other.why !== null)
      ? all[lacking].why!
      : `for rank ${lacking} ${all[lacking].why}`);
  return await openOwn({ ...options, meeting }, all.map(({ host }) => host), reason);
}

/** Gives the reason where MPI can't be had, the same on every rank. */
async function tryMpi(
  options: CpuOptions,
  meeting: OutOfBand,
  library: MpiLibrary,
): Promise<OpenedCollectives | string> {
  const opened = await openMpiCollectives({ ...options, library }).catch((error: unknown) => {
    if (error instanceof SingletonMpi && !options.env.HPCTRAIN_MPI) return error;
    throw error;
  });
  const alone = meeting.gather("MPI is open", opened instanceof SingletonMpi);
  if (!(opened instanceof SingletonMpi)) return opened;
  if (!alone.every(Boolean)) throw opened;
  return `what started them has not told ${opened.version} about them${
    options.where.launcher === "slurm" ? " (srun --mpi=pmix or pmi2 would)" : ""
  }`;
}

function namedMpi(where: RankContext, env: Record<string, string>, requested: SettingChoice) {
  const { world, description } = where;
  if (!startedByMpi(where, env)) {
    throw new UserError(
      "usage",
      `${requested.by}, and nothing of MPI started these ${world} ranks. ${description} Start them with \`mpirun -n ` +
        `${world} hpctrain ...\` or \`srun -n ${world} hpctrain ...\`; or ${requested.undo}, and they communicate by ` +
        "shared memory on one node and by TCP between nodes.",
    );
  }
  const { chosen, rejected } = findMpi(env);
  if (!chosen) throw new UserError("environment", noMpiSentence(rejected, requested));
  return chosen;
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

type MpiAvailability =
  | { readonly library: MpiLibrary }
  | { readonly library: null; readonly why: string };

/** Only MPI's own launcher lets a rank know of the others: by itself each would be a world of one. */
function startedByMpi({ launcher, world }: RankContext, env: Env): boolean {
  // srun may have a plug-in that speaks to MPI and sets no variable of its own.
  if (launcher !== "torchrun" && launcher !== "flags" && launcher !== "alone") return true;
  return ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE"].some((name) => Number(env[name]) === world);
}

function mpiAvailability(where: RankContext, env: Record<string, string>): MpiAvailability {
  const started = startedByMpi(where, env);
  const { chosen, rejected } = findMpi(env);
  if (chosen && started) return { library: chosen };
  const why = chosen
    ? "MPI did not start them"
    : started && rejected.length > 0
    ? "no MPI was found that fits what started them"
    : "no MPI was found";
  return { library: null, why };
}

interface MpiOptions {
  readonly where: RankContext;
  readonly library: MpiLibrary;
  readonly flight: FlightRecorder;
  readonly timeout: number;
  readonly failed: () => UserError | null;
}

async function openMpiCollectives(
  { where, library: { path, from }, flight, timeout, failed }: MpiOptions,
): Promise<OpenedCollectives> {
  const { rank, world, description, launcher } = where;
  const transport = { by: "mpi", path, crowded: where.localWorld > cpuCount() } as const;
  const collectives = await openCpuEngine(
    { transport, rank, world, flight, timeout, types: MPI_TYPES, failed },
    (answer) => checkOpened(answer, { path, rank, world, description, launcher }),
  );
  return { collectives, notes: [`Communication: ${collectives.version} (${path}, ${from}).`] };
}

// MPI must count the ranks that were started: a launcher and a library that don't match give as many silent
// worlds of one.

interface MpiStart {
  readonly path: string;
  readonly rank: number;
  readonly world: number;
  readonly description: string;
  readonly launcher: RankContext["launcher"];
}

class SingletonMpi extends UserError {
  constructor(sentence: string, readonly version: string) {
    super("environment", sentence);
  }
}

function checkOpened(
  answer: CpuThreadAnswer,
  { path, rank, world, description, launcher }: MpiStart,
): OpenedTransport {
  if ("failed" in answer) {
    throw new UserError(
      "environment",
      `MPI could not be started: ${answer.failed} (${path}). ` +
        "HPCTRAIN_MPI=/path/to/libmpi.so names another library; it must be that of the launcher.",
    );
  }
  if ("closed" in answer) throw new Error("internal: MPI was closed before it was open.");
  const { version, size } = answer;
  if (size !== world) {
    throw new SingletonMpi(
      `${world} ranks were started, but MPI counts ${size}: what started them and the MPI library don't match, and ` +
        `each would train alone. ${description} The library is ${version}, ${path}. ${
          launcher === "slurm" ? srunMpi(version) : ""
        }Start the ranks with ` +
        `that library's own mpiexec, or with \`hpctrain launch -n ${world} -- ...\`; or name the library of your launcher with ` +
        "HPCTRAIN_MPI=/path/to/libmpi.so.",
      version,
    );
  }
  if (answer.rank !== rank) {
    throw new UserError(
      "environment",
      `This is rank ${rank} by what started it and rank ${answer.rank} to MPI (${version}): every rank must have one ` +
        `number. ${description} Don't give --rank or RANK to processes that mpirun or srun numbers.`,
    );
  }
  return answer;
}

/** srun speaks several protocols, and each family of MPI understands one. */
const srunMpi = (version: string): string =>
  `Start them with srun --mpi=${
    /Open MPI/.test(version) ? "pmix" : "pmi2"
  } (\`srun --mpi=list\` says which this ` +
  "SLURM has). Or: ";
