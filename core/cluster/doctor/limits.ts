// What the system lets this process take of files, locked memory, processes and shared memory. May import line, ask.
import { statfsSync } from "node:fs";
import { formatBytes } from "../../format.ts";
import { namesIn, textOf } from "./ask.ts";
import { good, type Line, warn } from "./line.ts";

export interface LimitsFacts {
  /** Soft limits; Infinity is written "unlimited". */
  readonly files: number | "unlimited" | null;
  /** Bytes. */
  readonly memlock: number | "unlimited" | null;
  readonly processes: number | "unlimited" | null;
  /** Bytes: the largest file, of checkpoints too. */
  readonly fileSize: number | "unlimited" | null;
  /** /dev/shm in bytes: in all, and free. Null where there is none. */
  readonly shm: { readonly total: number; readonly free: number } | null;
  /** Names in /sys/class/infiniband: those need locked memory. */
  readonly adapters: readonly string[];
  readonly localWorld: number;
}

export function gatherLimits(localWorld: number): LimitsFacts {
  const table = textOf("/proc/self/limits");
  const limit = (name: string) => limitIn(table, name);
  return {
    files: limit("Max open files"),
    memlock: limit("Max locked memory"),
    processes: limit("Max processes"),
    fileSize: limit("Max file size"),
    shm: roomOf("/dev/shm"),
    adapters: namesIn("/sys/class/infiniband"),
    localWorld,
  };
}

/** The soft limit of a line of /proc/self/limits. */
export function limitIn(table: string, name: string): number | "unlimited" | null {
  const soft = table.split("\n").find((line) => line.startsWith(name))?.slice(name.length).trim().split(
    /\s+/,
  )[0];
  return soft === undefined ? null : soft === "unlimited" ? soft : Number(soft);
}

function roomOf(folder: string): LimitsFacts["shm"] {
  try {
    const { blocks, bavail, bsize } = statfsSync(folder);
    return { total: blocks * bsize, free: bavail * bsize };
  } catch {
    return null;
  }
}

const FEW_FILES = 1024, FEW_PROCESSES = 512, SMALL_FILE = 2 ** 32;
/** A container's default, in which NCCL and MPI run out of room with a few ranks. */
const SMALL_SHM = 64 * 2 ** 20, SHM_OF_RANK = 64 * 2 ** 20;
const NAME = "limits";

export function judgeLimits(facts: LimitsFacts): Line[] {
  const { files, memlock, processes, fileSize, shm, adapters, localWorld } = facts;
  const lines: Line[] = [];
  const below = (limit: LimitsFacts["files"], least: number): limit is number =>
    typeof limit === "number" && limit < least;
  if (adapters.length > 0 && typeof memlock === "number") {
    lines.push(warn(
      NAME,
      `locked memory is limited to ${formatBytes(memlock)}, and InfiniBand (${
        adapters.join(", ")
      }) needs more than that`,
      "Raise it (`ulimit -l unlimited`); if that is refused, ask the site: SLURM needs PropagateResourceLimitsExcept=MEMLOCK.",
    ));
  }
  if (below(files, FEW_FILES)) {
    lines.push(warn(NAME, `${files} files may be open at once`, "Raise it: `ulimit -n 4096`."));
  }
  if (below(processes, FEW_PROCESSES)) {
    lines.push(warn(
      NAME,
      `${processes} processes and threads may run`,
      "Raise it (`ulimit -u 4096`): each rank has tens of threads.",
    ));
  }
  if (below(fileSize, SMALL_FILE)) {
    lines.push(warn(
      NAME,
      `a file may have ${formatBytes(fileSize)}, and checkpoints can be larger`,
      "Raise it: `ulimit -f unlimited`.",
    ));
  }
  if (shm === null || shm.free < Math.max(SMALL_SHM, localWorld > 1 ? localWorld * SHM_OF_RANK : 0)) {
    lines.push(warn(
      NAME,
      shm === null
        ? "there is no /dev/shm, by which ranks of one node talk"
        : `/dev/shm has ${formatBytes(shm.free)} free of ${
          formatBytes(shm.total)
        }, by which ranks of one node talk`,
      "Remove what nobody uses there, or give the container more (--shm-size=1g, --ipc=host).",
    ));
  }
  if (lines.length > 0) return lines;
  const words = (limit: LimitsFacts["files"], show: (n: number) => string) =>
    typeof limit === "number" ? show(limit) : limit ?? "unknown";
  return [good(
    NAME,
    `${words(files, String)} open files, ${words(memlock, formatBytes)} of locked memory, ${
      shm ? formatBytes(shm.free) : "nothing"
    } free in /dev/shm`,
  )];
}
