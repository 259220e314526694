// Checks the system: C library, kernel, cores, memory, limits, and the clock.
import { entriesIn } from "../../base/files.ts";
import { glibcVersion } from "../../../ffi/machine.ts";
import { bad, type Finding, good, olderVersion, textIn, warn } from "./check.ts";
import { settleSpin, type Spin, spinSentence } from "../../../ffi/preload.ts";
import {
  allowedCores,
  coresOf,
  cpuCount,
  type Domain,
  ownTopology,
  type Topology,
} from "../../base/topology.ts";
import { nearMemory } from "../../train/near_memory.ts";
import { formatBytes, formatDuration, formatPlural } from "../../base/format.ts";
import { freeOf, type Limit, limitsOf, tightestLimit } from "../../base/memory.ts";
import { statfsSync } from "node:fs";

interface SystemFacts {
  readonly glibc: string | null;
  readonly kernel: string;
  readonly arch: string;
}

export const gatherSystem = (): SystemFacts => ({
  glibc: glibcVersion(),
  kernel: Deno.osRelease(),
  arch: Deno.build.arch,
});

/** RHEL 8 is the oldest system that libtorch's builds support. */
const OLDEST_GLIBC = "2.28";

export function judgeSystem({ glibc, kernel, arch }: SystemFacts): Finding[] {
  const on = `Linux ${kernel} on ${arch}`;
  if (glibc === null) {
    return [
      bad("glibc", `${on} has no glibc (musl?)`, "Use a system or a container with glibc 2.28 or newer."),
    ];
  }
  if (olderVersion(glibc, OLDEST_GLIBC)) {
    return [bad(
      "glibc",
      `${glibc}, and libtorch needs ${OLDEST_GLIBC} or newer (${on})`,
      "Use a newer login image, or a container (apptainer, enroot) of RHEL 8, Debian 10, Ubuntu 20.04 or newer.",
    )];
  }
  return [good("glibc", `${glibc}, ${on}`)];
}

export interface CoresFacts {
  /** The cpuset and the control group's quota allow these cores. */
  readonly usable: number;
  /** "0-3,8", as Linux writes it. */
  readonly cpuset: string;
  readonly online: number;
  readonly sharing: number;
  /** `mentioned` is true where --num-workers was given. */
  readonly workers: number;
  readonly mentioned: boolean;
  readonly spin: Spin;
}

export function gatherCores(workers: number, mentioned: boolean, sharing: number): CoresFacts {
  const online = (textIn("/proc/stat").match(/^cpu\d+ /gm) ?? []).length;
  return {
    usable: cpuCount(),
    cpuset: allowedCores(),
    online: Math.max(online, cpuCount()),
    sharing,
    workers,
    mentioned,
    spin: settleSpin(),
  };
}

const CORES = "cores";
const ASK_FOR_CORES =
  "Ask the scheduler for more (--cpus-per-task in SLURM, ncpus in PBS), or --bind-to none with mpirun";

export function judgeCores(
  { usable, cpuset, online, sharing, workers, mentioned, spin }: CoresFacts,
): Finding[] {
  const set = cpuset && ` (cpuset ${cpuset})`;
  const usableCores = `${formatPlural(usable, "core")} of ${online}${set}`;
  if (mentioned && workers > usable) {
    return [warn(
      CORES,
      `${usableCores} may be used, and ${workers} threads were asked to load data: ${usable} will, and training waits for data`,
      `${ASK_FOR_CORES}; or give --num-workers ${usable}.`,
    )];
  }
  if (usable === 1 && online > 1) {
    return [warn(
      CORES,
      `${usableCores} may be used: training and the threads that load data take turns on it`,
      `${ASK_FOR_CORES}.`,
    )];
  }
  if (sharing > usable) {
    return [warn(
      CORES,
      `${usableCores} for ${formatPlural(sharing, "rank")}: who waits for another keeps a core from it`,
      `Start at most ${formatPlural(usable, "rank")} here, or ask for more cores.`,
    )];
  }
  const ranks = sharing > 1 ? `, for ${formatPlural(sharing, "rank")}` : "";
  return [good(CORES, `${usableCores}${ranks}; ${spinSentence(spin)}`)];
}

interface DomainsFacts {
  readonly topology: Topology;
  /** The domain whose memory this process takes first; null where it is on several, or may not. */
  readonly memory: number | null;
  readonly sharing: number;
  /** Hardware threads that this process may use. */
  readonly cpus: number;
}

const gatherDomains = (sharing: number): DomainsFacts => ({
  topology: ownTopology(),
  memory: nearMemory().memory,
  sharing,
  cpus: cpuCount(),
});

const DOMAINS = "NUMA";

export function judgeDomains({ topology, memory, sharing, cpus }: DomainsFacts): Finding[] {
  const { domains, ofMachine } = topology;
  const cores = coresOf(topology).length, [first] = domains, count = domains.length;
  const threads = cpus > cores ? `, whose ${cpus} threads count as ${cores}` : "";
  const sizes = (of: (domain: Domain) => number | string) => [...new Set(domains.map(of))].join(" or ");
  const bytes = first.bytes > 0 ? ` and ${sizes(({ bytes }) => formatBytes(bytes))}` : "";
  if (count === 1) {
    const size = `${formatPlural(cores, "core")}${bytes}${threads}`;
    if (ofMachine === 1) return [good(DOMAINS, `1 domain of ${size}`)];
    const from = memory === null
      ? "the kernel does not let it prefer that memory"
      : "its memory is taken first";
    return [good(DOMAINS, `domain ${first.id} of ${ofMachine}: ${size}; ${from}`)];
  }
  const usableCores = `${count} domains of ${ofMachine}, ${
    sizes(({ cores }) => cores.length)
  } cores${bytes} each${threads}`;
  if (sharing > 1 && sharing * count > ofMachine) {
    return [warn(
      DOMAINS,
      `${usableCores}; each of ${formatPlural(sharing, "rank")} may be on all of them`,
      `Bind them: --srun-arg=--cpu-bind=cores with --cpus-per-task ${first.cores.length}, or \`hpctrain launch\`, which does.`,
    )];
  }
  return [good(
    DOMAINS,
    `${usableCores}; without -n, \`hpctrain launch -- ...\` starts ${count} ranks on CPUs, one a domain`,
  )];
}

interface MemoryFacts {
  readonly total: number;
  readonly free: number;
  readonly by: Limit["of"];
  readonly limit: number;
}

function gatherMemory(): MemoryFacts {
  const machine = limitsOf().find(({ of }) => of === "machine")!, tightest = tightestLimit();
  return { total: machine.limit, free: freeOf(tightest), by: tightest.of, limit: tightest.limit };
}

const GIB = 2 ** 30, LEAST_MEMORY = GIB / 2, LITTLE_MEMORY = 2 * GIB;
const MEMORY = "memory";

const WHOSE: Readonly<Record<Limit["of"], readonly [whose: string, todo: string]>> = {
  "machine": ["", "End what else runs here, or take another node."],
  "job": [
    " by the limit of this job's control group",
    "Ask for more: --mem in SLURM (--mem=0 is all of a node), mem in PBS, --memory of a container.",
  ],
  "address space": [" by the limit of the address space", "Raise it: `ulimit -v unlimited`."],
  "data": [" by the limit of a process's data", "Raise it: `ulimit -d unlimited`."],
};

export function judgeMemory({ total, free, by, limit }: MemoryFacts): Finding[] {
  const [whose, todo] = WHOSE[by];
  const of = by === "machine" ? "" : ` (${formatBytes(limit)})`;
  const text = `${formatBytes(free)} free${whose}${of}, of ${formatBytes(total)} in the machine`;
  if (free < LEAST_MEMORY) return [bad(MEMORY, text, todo)];
  if (free < LITTLE_MEMORY) return [warn(MEMORY, text, todo)];
  return [good(MEMORY, text)];
}

export interface LimitsFacts {
  readonly files: number | "unlimited" | null;
  /** Bytes. */
  readonly memlock: number | "unlimited" | null;
  readonly processes: number | "unlimited" | null;
  /** Bytes; checkpoints are limited too. */
  readonly fileSize: number | "unlimited" | null;
  /** /dev/shm in bytes. */
  readonly shm: { readonly total: number; readonly free: number } | null;
  /** InfiniBand adapters need locked memory. */
  readonly adapters: readonly string[];
  readonly localWorld: number;
}

export function gatherLimits(localWorld: number): LimitsFacts {
  const table = textIn("/proc/self/limits");
  const limit = (name: string) => limitIn(table, name);
  return {
    files: limit("Max open files"),
    memlock: limit("Max locked memory"),
    processes: limit("Max processes"),
    fileSize: limit("Max file size"),
    shm: spaceOf("/dev/shm"),
    adapters: entriesIn("/sys/class/infiniband"),
    localWorld,
  };
}

export function limitIn(table: string, name: string): number | "unlimited" | null {
  const soft = table.split("\n").find((line) => line.startsWith(name))?.slice(name.length).trim().split(
    /\s+/,
  )[0];
  return soft === undefined ? null : soft === "unlimited" ? soft : Number(soft);
}

function spaceOf(folder: string): LimitsFacts["shm"] {
  try {
    const { blocks, bavail, bsize } = statfsSync(folder);
    return { total: blocks * bsize, free: bavail * bsize };
  } catch {
    return null;
  }
}

const FEW_FILES = 1024, FEW_PROCESSES = 512, SMALL_FILE = 2 ** 32;
/** NCCL and MPI run out of a container's default with a few ranks. */
const SMALL_SHM = 64 * 2 ** 20, SHM_OF_RANK = 64 * 2 ** 20;
const LIMITS = "limits";

export function judgeLimits(facts: LimitsFacts): Finding[] {
  const { files, memlock, processes, fileSize, shm, adapters, localWorld } = facts;
  const lines: Finding[] = [];
  const below = (limit: LimitsFacts["files"], least: number): limit is number =>
    typeof limit === "number" && limit < least;
  if (adapters.length > 0 && typeof memlock === "number") {
    lines.push(warn(
      LIMITS,
      `locked memory is limited to ${formatBytes(memlock)}, and InfiniBand (${
        adapters.join(", ")
      }) needs more than that`,
      "Raise it (`ulimit -l unlimited`); if that is refused, ask the site: SLURM needs PropagateResourceLimitsExcept=MEMLOCK.",
    ));
  }
  if (below(files, FEW_FILES)) {
    lines.push(warn(LIMITS, `${files} files may be open at once`, "Raise it: `ulimit -n 4096`."));
  }
  if (below(processes, FEW_PROCESSES)) {
    lines.push(warn(
      LIMITS,
      `${processes} processes and threads may run`,
      "Raise it (`ulimit -u 4096`): each rank has tens of threads.",
    ));
  }
  if (below(fileSize, SMALL_FILE)) {
    lines.push(warn(
      LIMITS,
      `a file may have ${formatBytes(fileSize)}, and checkpoints can be larger`,
      "Raise it: `ulimit -f unlimited`.",
    ));
  }
  if (shm === null || shm.free < Math.max(SMALL_SHM, localWorld > 1 ? localWorld * SHM_OF_RANK : 0)) {
    lines.push(warn(
      LIMITS,
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
    LIMITS,
    `${words(files, String)} open files, ${words(memlock, formatBytes)} of locked memory, ${
      shm ? formatBytes(shm.free) : "nothing"
    } free in /dev/shm`,
  )];
}

// `--full` compares the clocks of ranks.

interface ClockFacts {
  readonly now: number;
  /** Each file system's clock is ahead by these seconds. */
  readonly servers: readonly { readonly folder: string; readonly ahead: number }[];
}

/** 2026-01-01 UTC: no clock that runs this program is earlier. */
const EARLIEST = 1767225600, MOST_SKEW = 2;
const CLOCK = "clock";

export function judgeClock({ now, servers }: ClockFacts): Finding[] {
  if (now < EARLIEST) {
    return [warn(
      CLOCK,
      `this machine's clock says ${new Date(1000 * now).toISOString()}`,
      "Have it set (chronyc makestep): certificates and logs go by it.",
    )];
  }
  const odd = servers.filter(({ ahead }) => Math.abs(ahead) > MOST_SKEW);
  if (odd.length === 0) {
    return [good(CLOCK, `${new Date(1000 * now).toISOString().slice(0, 19)}Z, and files agree`)];
  }
  return odd.map(({ folder, ahead }) =>
    warn(
      CLOCK,
      `files in ${folder} get times that are ${formatDuration(Math.abs(ahead))} ${
        ahead > 0 ? "ahead of" : "behind"
      } this machine's clock`,
      "Have the clocks of this node and of the file server set (chronyc tracking).",
    )
  );
}

export const systemChecks = {
  system: { gather: gatherSystem, judge: judgeSystem },
  cores: { gather: gatherCores, judge: judgeCores },
  domains: { gather: gatherDomains, judge: judgeDomains },
  memory: { gather: gatherMemory, judge: judgeMemory },
  limits: { gather: gatherLimits, judge: judgeLimits },
  clock: { judge: judgeClock },
};
