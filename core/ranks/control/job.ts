// The job as rank 0's server sees it.
import { EXIT } from "../../base/errors.ts";
import { type Channel, encode } from "./channel.ts";
import { type FirstError, rankOnHost } from "./failure.ts";
import type { Beat, Hello, Settings, ToRank, ToServer } from "./messages.ts";

export interface Member {
  readonly hello: Hello;
  readonly channel: Channel;
  lastMessage: number;
  beat: Beat | null;
  moved: boolean;
  hasEnded: boolean;
}

/** Milliseconds until a wait is a failure. */
export interface ControlTimeouts {
  readonly arrive: number;
  readonly stall: number;
  readonly firstStall: number;
  readonly silence: number;
}

/** Rank 0 reads a thousand heartbeats a second at most. */
const LEAST_BEAT_MS = 1000, BEAT_MS_A_RANK = 1;

export const beatMs = (world: number): number => Math.max(LEAST_BEAT_MS, BEAT_MS_A_RANK * world);

export interface ControlJob {
  readonly world: number;
  readonly limits: ControlTimeouts;
  readonly members: Map<number, Member>;
  /** Those that use a GPU, by `gpuOf`. */
  readonly gpus: Map<string, Hello>;
  /** So many members have ended. */
  ended: number;
  error: FirstError | null;
  say(line: string): void;
  now(): number;
}

export type From<Is extends ToServer["is"]> = Extract<ToServer, { is: Is }>;

export const full = ({ members, world }: ControlJob): boolean => members.size === world;

/** Null for a rank whose device others may share. */
export const gpuOf = ({ host, device }: Hello): string | null => device === null ? null : `${host} ${device}`;

export function leave(job: ControlJob, member: Member): void {
  if (!member.hasEnded) job.ended++;
  member.hasEnded = true;
}

/** Cheap, for what happens once a rank: `active` goes through all of them. */
export const activeCount = ({ members, ended }: ControlJob): number => members.size - ended;

export const active = ({ members }: ControlJob): Member[] =>
  [...members.values()].filter(({ hasEnded }) => !hasEnded);

export function send(job: ControlJob, message: ToRank, to: Iterable<Member> = active(job)): void {
  const bytes = encode(message);
  for (const { channel } of to) channel.send(bytes);
}

/** A rank that reads nothing must not keep the message from the others. */
const FLUSH_MS = 1000;

export async function flushed(members: readonly Member[]): Promise<void> {
  let timer = 0;
  const timeout = new Promise<void>((resolve) => timer = setTimeout(resolve, FLUSH_MS));
  await Promise.race([Promise.all(members.map(({ channel }) => channel.flushed())), timeout]);
  clearTimeout(timer);
}

/**
 * The first failure counts; later ones follow from it. Rank 0 gets it last, because this server ends with it.
 */
export async function endJob(job: ControlJob, error: FirstError): Promise<void> {
  if (job.error) return;
  job.error = error;
  const [zero, others] = [active(job).filter(isZero), active(job).filter((member) => !isZero(member))];
  send(job, { is: "error", error }, others);
  await flushed(others);
  send(job, { is: "error", error }, zero);
}

const isZero = ({ hello }: Member) => hello.rank === 0;

/** Waits are reported after 10 s, 20 s, 40 s, ... */
export const FIRST_REPORT_MS = 10_000;

export interface JoinRefusal {
  readonly sentence: string;
  readonly code: number;
  readonly namesRank: boolean;
}

/** Null for a rank that fits. Its settings are compared elsewhere. */
export function joinRefusal(
  came: Hello,
  first: Hello,
  { members, gpus }: Pick<ControlJob, "members" | "gpus">,
): JoinRefusal | null {
  const { rank, world, host } = came;
  const usage = (sentence: string, namesRank = false): JoinRefusal => ({
    sentence,
    code: EXIT.usage,
    namesRank,
  });
  if (world !== first.world) {
    return usage(
      `${rankOnHost(came)} takes the job for one of ${world} ranks, ${
        rankOnHost(first)
      } for one of ${first.world}: start all ranks ` +
        "by one command, and don't set WORLD_SIZE by hand.",
      true,
    );
  }
  if (!(Number.isInteger(rank) && rank >= 0 && rank < world)) {
    return usage(`A process on ${host} says that it is rank ${rank}: they go from 0 to ${world - 1}.`);
  }
  const twin = members.get(rank)?.hello;
  if (twin) {
    return usage(
      `Two processes are rank ${rank}: process ${twin.pid} on ${twin.host} and process ${came.pid} on ${host}. Start ` +
        "each rank once: by srun, mpirun or hpctrain launch, without setting RANK by hand.",
    );
  }
  const gpu = gpuOf(came), sharer = gpu === null ? undefined : gpus.get(gpu);
  if (sharer) {
    const [a, b] = [sharer, came].sort((a, b) => a.rank - b.rank);
    if (came.device?.startsWith("MIG-")) {
      return usage(
        `Ranks ${a.rank} and ${b.rank} on ${host} both use ${came.device}, since a process sees one MIG device of a node. ` +
          "Start one rank on this node, or ask for whole GPUs.",
      );
    }
    return usage(
      `Ranks ${a.rank} and ${b.rank} on ${host} both use ${came.device}: give each rank its own GPU, with as many ` +
        "tasks on a node as it has GPUs (#SBATCH --ntasks-per-node and --gpus-per-node the same), and without a " +
        "--gpu-bind that gives two tasks the same one.",
    );
  }
  return differentVersions(came, first);
}

function differentVersions(came: Hello, first: Hello): JoinRefusal | null {
  const names = [...new Set([...Object.keys(first.versions), ...Object.keys(came.versions)])];
  const name = names.find((name) => first.versions[name] !== came.versions[name]);
  if (!name) return null;
  const of = ({ versions: { [name]: value } }: Hello) =>
    value === undefined ? `no ${name}` : name === "architecture" ? `on ${value}` : `${name} ${value}`;
  return {
    sentence: `${rankOnHost(came)} runs ${of(came)}, ${rankOnHost(first)} ${of(first)}: ${
      name === "hpctrain"
        ? "start the same executable on every node."
        : name === "architecture"
        ? "ask for nodes of one architecture (--partition, --constraint): another one computes other bits."
        : `let every node find the same (hpctrain doctor, run there, says what it finds and why).`
    }`,
    code: EXIT.environment,
    namesRank: true,
  };
}

const MOST_NAMED = 5;

export function differentSettings(came: Hello, theirs: Settings, first: Hello, ours: Settings): JoinRefusal {
  const paths = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].sort()
    .filter((path) => JSON.stringify(ours[path]) !== JSON.stringify(theirs[path]));
  const value = (of: Settings, path: string) => path in of ? JSON.stringify(of[path]) : "not set";
  const named = paths.slice(0, MOST_NAMED)
    .map((path) => `${path} is ${value(theirs, path)} there and ${value(ours, path)} here`);
  const more = paths.length > MOST_NAMED ? `, and ${paths.length - MOST_NAMED} more` : "";
  return {
    sentence:
      `${rankOnHost(came)} was started with other settings than ${rankOnHost(first)}: ${
        named.join(", ")
      }${more}. Start every ` +
      "rank with the same flags, files and environment.",
    code: EXIT.usage,
    namesRank: true,
  };
}

/** "rank 3", "ranks 0-2, 7 and 9": never more than a line. */
export function ranksIn(ranks: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const rank of ranks.toSorted((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const parts = runs.slice(0, 12).map(([from, to]) => from === to ? `${from}` : `${from}-${to}`);
  if (runs.length > parts.length) parts.push("more");
  const list = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts[0];
  return `rank${ranks.length === 1 ? "" : "s"} ${list}`;
}
