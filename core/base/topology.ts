// NUMA domains, cores and their hardware threads, as Linux shows them, how ranks share them, and the threads that load data
// on those that this process may use.
import { formatPlural } from "./format.ts";

/** A core is the list of its hardware threads, the CPUs of Linux. */
type Core = readonly number[];

export interface Domain {
  readonly id: number;
  /** Those that this process may use. */
  readonly cores: readonly Core[];
  readonly bytes: number;
}

export interface Topology {
  /** Domains of memory alone, such as a GPU's, and those that this process has no core of, are left out. */
  readonly domains: readonly Domain[];
  /** How many domains of the machine have cores. */
  readonly ofMachine: number;
}

const SYSTEM = "/sys/devices/system";

export function readTopology(
  root = SYSTEM,
  allowed: readonly number[] = expandCores(allowedCores()),
): Topology {
  const all = domainsOf(root);
  const mine = new Set(allowed);
  const domains = all.map(({ id, cpus, bytes }) => ({
    id,
    cores: coresAmong(cpus.filter((cpu) => mine.has(cpu)), root),
    bytes,
  })).filter(({ cores }) => cores.length > 0);
  if (domains.length > 0) return { domains, ofMachine: all.length };
  return { domains: [{ id: 0, cores: coresAmong(allowed, root), bytes: 0 }], ofMachine: 1 };
}

export const coresOf = ({ domains }: Topology): Core[] => domains.flatMap(({ cores }) => cores);

/** A kernel without NUMA has no such folder. */
function domainsOf(root: string): { id: number; cpus: number[]; bytes: number }[] {
  const ids = namesIn(`${root}/node`).flatMap((name) => /^node(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  return ids.sort((a, b) => a - b).map((id) => {
    const folder = `${root}/node/node${id}`;
    const list = textOf(`${folder}/cpulist`).trim();
    const kib = /MemTotal:\s*(\d+) kB/.exec(textOf(`${folder}/meminfo`))?.[1] ?? 0;
    return { id, cpus: list === "" ? [] : expandCores(list), bytes: Number(kib) * 1024 };
  }).filter(({ cpus }) => cpus.length > 0);
}

/** Cores of one package stand side by side. */
function coresAmong(cpus: readonly number[], root: string): Core[] {
  const left = new Set(cpus);
  const cores: { threads: number[]; package: number; core: number }[] = [];
  const place = (cpu: number, what: string) => Number(textOf(`${root}/cpu/cpu${cpu}/topology/${what}`)) || 0;
  for (const cpu of cpus) {
    if (!left.has(cpu)) continue;
    const siblings = textOf(`${root}/cpu/cpu${cpu}/topology/thread_siblings_list`).trim();
    const threads = siblings === "" ? [cpu] : expandCores(siblings).filter((one) => left.has(one));
    for (const thread of threads) left.delete(thread);
    cores.push({ threads, package: place(cpu, "physical_package_id"), core: place(cpu, "core_id") });
  }
  return cores
    .sort((a, b) => a.package - b.package || a.core - b.core || a.threads[0] - b.threads[0])
    .map(({ threads }) => threads);
}

let known: Topology | undefined;

/** Read once: a large node has hundreds of files. What may run where does not change once ranks have begun. */
export const ownTopology = (): Topology => known ??= readTopology();

/** Hyperthreads are left out: two threads that compute on one core take turns. */
export const usableCores = (): number => Math.max(1, Math.min(cpuCount(), coresOf(ownTopology()).length));

interface Shares {
  /** The CPUs of each rank. */
  readonly cores: readonly (readonly number[])[] | null;
  readonly description: string;
}

/**
 * Neighbours share caches and memory, so each rank gets a stretch of cores: inside a domain where ranks are a
 * multiple of domains, or of whole domains where it is the other way round. All get as many, because the
 * slowest decides. With one core a rank nothing is bound: a rank has a communication thread too, and the
 * scheduler places both better.
 */
export function shareCores({ domains }: Topology, ranks: number): Shares {
  const all = domains.flatMap(({ cores }) => cores);
  const stretches = stretchesOf(domains, ranks) ?? [all];
  const inEach = ranks / stretches.length;
  const each = Math.min(...stretches.map((cores) => Math.floor(cores.length / inEach)));
  const total = formatPlural(all.length, "core");
  if (each * Math.min(...all.map((core) => core.length)) < 2) {
    return {
      cores: null,
      description: `${total} are shared by ${formatPlural(ranks, "rank")}, 1 thread each`,
    };
  }
  const cores = stretches.flatMap((stretch) =>
    Array.from({ length: inEach }, (_, k) => stretch.slice(k * each, (k + 1) * each).flat())
  );
  const over = all.length - ranks * each;
  const where = stretches.length > 1 ? `, ${onDomains(domains.length, ranks)}` : "";
  return {
    cores,
    description: `${formatPlural(each, "core")} to each rank of ${all.length}${where} (rank 0: ${
      coreList(cores[0])
    }${over ? `; ${over} left over` : ""})`,
  };
}

function stretchesOf(domains: readonly Domain[], ranks: number): Core[][] | null {
  const count = domains.length;
  if (count === 1 || (ranks % count !== 0 && count % ranks !== 0)) return null;
  if (ranks >= count) return domains.map(({ cores }) => [...cores]);
  const whole = count / ranks;
  return Array.from(
    { length: ranks },
    (_, k) => domains.slice(k * whole, (k + 1) * whole).flatMap(({ cores }) => cores),
  );
}

const onDomains = (domains: number, ranks: number): string =>
  ranks >= domains
    ? `${formatPlural(ranks / domains, "rank")} on each of ${domains} NUMA domains`
    : `${domains / ranks} NUMA domains each`;

function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch {
    return []; // another system, or a sandbox
  }
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

export const cpuCount = (): number => navigator.hardwareConcurrency;

/**
 * A requested number counts, with a note where it is too high. The default takes what training leaves, and at
 * least half of the cores, since loading and training wait for each other.
 */
export function workersFor(
  wanted: number,
  cpus: number,
  trainingThreads: number,
  mentioned: boolean,
): { workers: number; note: string | null } {
  const fitting = Math.max(cpus - trainingThreads, Math.ceil(cpus / 2));
  if (!mentioned || wanted <= cpus) {
    return { workers: Math.min(wanted, mentioned ? cpus : fitting), note: null };
  }
  const cpuset = allowedCores();
  const note =
    `Warning: ${wanted} threads were asked to load data (--num-workers), but this process may use ` +
    `${formatPlural(cpus, "core")}${cpuset && ` (its cpuset is ${cpuset})`}, so ${cpus} will. ` +
    "Ask the scheduler for more cores: --cpus-per-task in SLURM, ncpus in PBS, --bind-to none with mpirun.";
  return { workers: cpus, note };
}

/** The list is as Linux writes it ("0-3,8"), and empty on other systems. */
export function allowedCores(): string {
  try {
    return Deno.readTextFileSync("/proc/self/status").match(/^Cpus_allowed_list:\s*(\S+)/m)?.[1] ?? "";
  } catch {
    return "";
  }
}

/** "0-3,8" becomes 0, 1, 2, 3, 8. Without a list from Linux it is all cores. */
export function expandCores(list: string): number[] {
  if (list === "") return Array.from({ length: navigator.hardwareConcurrency }, (_, i) => i);
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** 0, 1, 2, 3, 8 -> "0-3,8". */
export function coreList(cores: readonly number[]): string {
  const sorted = [...cores].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const core of sorted) {
    const last = runs.at(-1);
    if (last && core === last[1] + 1) last[1] = core;
    else runs.push([core, core]);
  }
  return runs.map(([a, b]) => a === b ? `${a}` : `${a}-${b}`).join(",");
}
