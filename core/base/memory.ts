// Free memory is what the machine, the control groups (both versions) and the process's own limits leave.
import { formatBytes, formatPlural } from "./format.ts";
import { UserError } from "./errors.ts";

/** Both numbers are bytes. */
export interface Limit {
  readonly of: "machine" | "job" | "address space" | "data";
  readonly limit: number;
  readonly used: number;
}

interface MemoryFiles {
  /** It is "/proc" outside of tests. */
  readonly proc: string;
}

const OWN_FILES: MemoryFiles = { proc: "/proc" };

/** This many bytes can be taken before the kernel refuses or kills. */
export const freeMemory = (places?: MemoryFiles): number => freeOf(tightestLimit(places));

export const freeOf = ({ limit, used }: Limit): number => Math.max(0, limit - used);

export function tightestLimit(places: MemoryFiles = OWN_FILES): Limit {
  const all = limitsOf(places);
  return all.reduce((least, one) => freeOf(one) < freeOf(least) ? one : least);
}

export function limitsOf({ proc }: MemoryFiles = OWN_FILES): Limit[] {
  const status = readOr(`${proc}/self/status`), limits = readOr(`${proc}/self/limits`);
  const own = (of: Limit["of"], line: string, field: string): Limit[] => {
    const limit = Number(new RegExp(`^${line} +(\\d+) `, "m").exec(limits)?.[1]);
    return Number.isNaN(limit) ? [] : [{ of, limit, used: kib(status, field) ?? 0 }];
  };
  return [
    machine(readOr(`${proc}/meminfo`)),
    ...groupsOf(proc).flatMap(({ folder, version }) =>
      version === 2 ? ofVersion2(folder) : ofVersion1(folder)
    ),
    ...own("address space", "Max address space", "VmSize"),
    ...own("data", "Max data size", "VmData"),
  ];
}

/** The machine can free this much more by moving unused memory to a disk. */
export const freeSwap = ({ proc }: MemoryFiles = OWN_FILES): number =>
  kib(readOr(`${proc}/meminfo`), "SwapFree") ?? 0;

/**
 * It counts processes killed for memory in this process's control groups and on the machine. One kill may
 * count several times: only growth matters.
 */
export function killsForMemory(
  { proc }: MemoryFiles = OWN_FILES,
): { readonly job: number; readonly machine: number } {
  const kills = groupsOf(proc).map(({ folder, version }) =>
    word(readOr(`${folder}/${version === 2 ? "memory.events" : "memory.oom_control"}`), "oom_kill") ?? 0
  );
  return {
    job: kills.reduce((sum, count) => sum + count, 0),
    machine: word(readOr(`${proc}/vmstat`), "oom_kill") ?? 0,
  };
}

function machine(meminfo: string): Limit {
  const total = kib(meminfo, "MemTotal"), available = kib(meminfo, "MemAvailable");
  if (total === undefined || available === undefined) return { of: "machine", limit: Infinity, used: 0 };
  return { of: "machine", limit: total, used: total - available };
}

interface Group {
  readonly folder: string;
  readonly version: 1 | 2;
}

/** A limit of a group holds for all groups below it, so its ancestors count too. */
function groupsOf(proc: string): Group[] {
  const own = readOr(`${proc}/self/cgroup`), mounts = readOr(`${proc}/self/mountinfo`).split("\n");
  const at = (
    version: Group["version"],
    path: string | undefined,
    is: (type: string, options: string) => boolean,
  ) => {
    if (path === undefined) return [];
    return mounts.flatMap((line) => {
      const [mount, after] = line.split(" - "), [, , , root, point] = mount.split(" ");
      const [type, , options] = (after ?? "").split(" ");
      return is(type, options)
        ? foldersUp(point, inside(path, root)).map((folder): Group => ({ folder, version }))
        : [];
    });
  };
  return [
    ...at(
      1,
      /^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$/m.exec(own)?.[1],
      (type, options) => type === "cgroup" && options.split(",").includes("memory"),
    ),
    ...at(2, /^0::(.*)$/m.exec(own)?.[1], (type) => type === "cgroup2"),
  ];
}

/** A container sees a part of the tree, whose root is not the tree's. */
const inside = (path: string, root: string): string =>
  root !== "/" && (path === root || path.startsWith(`${root}/`)) ? path.slice(root.length) : path;

function foldersUp(point: string, path: string): string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== "..");
  return Array.from({ length: parts.length + 1 }, (_, depth) => [point, ...parts.slice(0, depth)].join("/"));
}

/** A group without a limit shows a number of about 2^63. */
const NO_LIMIT = 2 ** 60;

/** The file cache counts as used, but the kernel gives it up on demand. */
const cacheOf = (stat: string, prefix: string): number =>
  (word(stat, `${prefix}active_file`) ?? 0) + (word(stat, `${prefix}inactive_file`) ?? 0);

function ofVersion1(folder: string): Limit[] {
  const limit = count(`${folder}/memory.limit_in_bytes`);
  if (!(limit < NO_LIMIT)) return [];
  const cache = cacheOf(readOr(`${folder}/memory.stat`), "total_");
  return [{ of: "job", limit, used: Math.max(0, count(`${folder}/memory.usage_in_bytes`, 0) - cache) }];
}

/** Above "high" the kernel throttles a group instead of killing it. */
function ofVersion2(folder: string): Limit[] {
  const limit = Math.min(count(`${folder}/memory.max`), count(`${folder}/memory.high`));
  if (!(limit < NO_LIMIT)) return [];
  const cache = cacheOf(readOr(`${folder}/memory.stat`), "");
  return [{ of: "job", limit, used: Math.max(0, count(`${folder}/memory.current`, 0) - cache) }];
}

function count(path: string, otherwise = Infinity): number {
  const text = readOr(path).trim();
  return /^\d+$/.test(text) ? Number(text) : otherwise;
}

/** "VmSize:   1234 kB" */
function kib(text: string, name: string): number | undefined {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1];
  return found === undefined ? undefined : 1024 * Number(found);
}

/** "oom_kill 3" */
function word(text: string, name: string): number | undefined {
  const found = new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
}

function readOr(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return ""; // another kernel, or a container that hides it
  }
}

/** The other half of free memory is for the model, the optimizer and other programs. */
const SHARE = 0.5;

/** Data takes this share of free memory by default: other ranks of this machine hold theirs too. */
const QUARTER = 0.25;

/** A machine without twice as much could not run this program, and hundreds of coordinates are no larger. */
const LITTLE_BYTES = 2 ** 20;

/** Data that does not fit is refused before it is read. */
export function checkFreeMemory(
  what: string,
  bytes: number,
  samples: number | null,
  advice: string,
  known?: number,
): void {
  if (bytes <= LITTLE_BYTES && known === undefined) return;
  const most = SHARE * (known ?? freeMemory());
  if (bytes <= most) return;
  const fitting = samples === null
    ? ""
    : `, enough for ${Math.floor(samples * most / bytes)} of its ${formatPlural(samples, "sample")}`;
  throw new UserError(
    "memory",
    `${what} would take ${formatBytes(bytes)} of memory; data may take half of what is free, and that is ` +
      `${formatBytes(most)}${fitting}. ${advice}`,
  );
}

/** data.in_memory decides, or free memory. */
export function heldInMemory(mode: "auto" | "yes" | "no", bytes: number, free = freeMemory()): boolean {
  return mode === "auto" ? bytes <= QUARTER * free : mode === "yes";
}
