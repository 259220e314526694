// Samples what /proc and NVML say of this process, its machine and its GPU, off the training thread; rank 0
// also passes on the events of other ranks. Warns when memory nears a limit beyond which the kernel kills the process, and
// finds afterwards whether a run without an end was probably killed for memory.
import { formatBytes } from "../base/format.ts";
import { freeOf, type Limit, tightestLimit } from "../base/memory.ts";
import { type GpuName, openGpuMonitor } from "../../ffi/gpu/monitor.ts";
import { decodeEvent, encodeEvent, type Event, type SystemEvent, type WarningEvent } from "./events.ts";
import { join } from "../../deps/path.ts";
import { reason } from "./event_log.ts";
import { type SharedRing, stepIn } from "./writer/ring.ts";

/** Counters, whose differences are rates, and present amounts; Linux may not show all. */
interface Counters {
  readonly at: number;
  readonly rss?: number;
  readonly threads?: number;
  /** Seconds of processor time. */
  readonly cpu?: number;
  readonly diskRead?: number;
  readonly diskWritten?: number;
  /** Ticks of all cores. */
  readonly hostTicks?: number;
  readonly hostBusy?: number;
  readonly networkIn?: number;
  readonly networkOut?: number;
  readonly memory?: number;
  readonly memoryTotal?: number;
}

type Rates = Partial<Omit<SystemEvent, "kind" | "step" | "rank" | "host">>;

/** Every Linux of the last twenty years counts a process's time in hundredths of a second. */
const TICKS_PER_S = 100;

const KIB = 1024;

export function readCounters(root = "/proc", at = performance.now() / 1000): Counters {
  return {
    at,
    ...whereReadable(() => ofStatus(text(`${root}/self/status`))),
    ...whereReadable(() => ({ cpu: cpuOf(text(`${root}/self/stat`)) })),
    ...whereReadable(() => ofIo(text(`${root}/self/io`))),
    ...whereReadable(() => ofHost(text(`${root}/stat`))),
    ...whereReadable(() => ofNetwork(text(`${root}/net/dev`))),
    ...whereReadable(() => ofMemory(text(`${root}/meminfo`))),
  };
}

export function ratesBetween(before: Counters, now: Counters): Rates {
  const seconds = now.at - before.at;
  const rate = (key: keyof Counters, per = seconds): number | undefined => {
    const [from, to] = [before[key], now[key]];
    if (from === undefined || to === undefined || !(per > 0)) return undefined;
    return Math.max(0, (to - from) / per); // a counter that began anew says nothing
  };
  const ticks = now.hostTicks === undefined || before.hostTicks === undefined
    ? 0
    : now.hostTicks - before.hostTicks;
  return {
    rss_bytes: now.rss,
    threads: now.threads,
    cpu_percent: rounded(rate("cpu"), 100, 10),
    host_cpu_percent: rounded(rate("hostBusy", ticks), 100, 10),
    host_memory_bytes: now.memory,
    host_memory_total_bytes: now.memoryTotal,
    disk_read_bytes_per_s: rounded(rate("diskRead")),
    disk_write_bytes_per_s: rounded(rate("diskWritten")),
    network_in_bytes_per_s: rounded(rate("networkIn")),
    network_out_bytes_per_s: rounded(rate("networkOut")),
  };
}

const rounded = (value: number | undefined, factor = 1, parts = 1): number | undefined =>
  value === undefined ? undefined : Math.round(value * factor * parts) / parts;

const text = (path: string) => Deno.readTextFileSync(path);

function whereReadable<T extends object>(read: () => T): T | Record<never, never> {
  try {
    return read();
  } catch {
    return {}; // a container may hide it
  }
}

/** "VmRSS:   1234 kB" */
const field = (status: string, name: string): number | undefined => {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1];
  return found === undefined ? undefined : Number(found);
};

const kib = (value: number | undefined): number | undefined => value === undefined ? undefined : value * KIB;

const ofStatus = (status: string): Pick<Counters, "rss" | "threads"> => ({
  rss: kib(field(status, "VmRSS")),
  threads: field(status, "Threads"),
});

/** The name before the times may hold spaces and brackets. */
export function cpuOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

const ofIo = (io: string): Pick<Counters, "diskRead" | "diskWritten"> => ({
  diskRead: field(io, "read_bytes"),
  diskWritten: field(io, "write_bytes"),
});

export function ofHost(stat: string): Pick<Counters, "hostTicks" | "hostBusy"> {
  // user nice system idle iowait irq softirq steal; the first two include what follows.
  const ticks = stat.slice(0, stat.indexOf("\n")).split(/\s+/).slice(1, 9).map(Number);
  const all = ticks.reduce((sum, n) => sum + n, 0);
  return { hostTicks: all, hostBusy: all - ticks[3] - (ticks[4] ?? 0) };
}

export function ofNetwork(dev: string): Pick<Counters, "networkIn" | "networkOut"> {
  let networkIn = 0, networkOut = 0;
  for (const line of dev.split("\n").slice(2)) {
    const [name, ...numbers] = line.trim().split(/[:\s]+/);
    if (name === "" || name === "lo") continue;
    networkIn += Number(numbers[0]);
    networkOut += Number(numbers[8]);
  }
  return { networkIn, networkOut };
}

export function ofMemory(meminfo: string): Pick<Counters, "memory" | "memoryTotal"> {
  const total = field(meminfo, "MemTotal"), free = field(meminfo, "MemAvailable");
  return {
    memory: total === undefined || free === undefined ? undefined : kib(total - free),
    memoryTotal: kib(total),
  };
}

export interface SystemSetup {
  readonly rank: number;
  readonly world: number;
  /** Seconds between two events. */
  readonly interval: number;
  readonly logs: string;
  /** Null on a CPU. */
  readonly gpu: GpuName | null;
}

interface Sampler {
  sample(step: number): SystemEvent;
  close(): void;
}

export function openSampler({ rank, world, gpu }: Pick<SystemSetup, "rank" | "world" | "gpu">): Sampler {
  const monitor = gpu === null ? null : openGpuMonitor(gpu);
  const host = Deno.hostname();
  let before = readCounters();
  return {
    sample(step) {
      const now = readCounters();
      const { rss_bytes = 0, ...rates } = ratesBetween(before, now);
      before = now;
      const whose = world > 1 ? { rank, host } : {};
      return { kind: "system", step, ...whose, rss_bytes, ...rates, ...monitor?.read() };
    },
    close: () => monitor?.close(),
  };
}

/** `bytes` are the line with its end. */
export interface SystemLine {
  readonly event: Event;
  readonly line: string;
  readonly bytes: Uint8Array;
}

interface SystemEvents {
  due(shared: SharedRing): SystemLine[];
  close(): void;
}

/** The first event comes early, so that a short run has one too. */
const FIRST_S = 1;

/** Other ranks' files are read in such pieces. */
const MOST = 64 * 1024;

/** Rank 0 takes these kinds from other ranks' files. */
const FORWARDED_KINDS: ReadonlySet<string> = new Set(["system", "warning"]);

const encoder = new TextEncoder();

const rankFile = (logs: string, rank: number): string => join(logs, `system-${rank}.jsonl`);

/** `tell` prints, even where the training thread is too busy to take a message. */
export function openSystem(
  setup: SystemSetup,
  warn: (message: string) => void,
  tell: (message: string) => void,
): SystemEvents {
  const { rank, world, interval, logs } = setup;
  const sampler = openSampler(setup), memory = openMemoryWatch();
  const others = rank === 0 ? Array.from({ length: world - 1 }, (_, i) => follow(rankFile(logs, i + 1))) : [];
  const own = rank > 0 ? appendToRankFile(rankFile(logs, rank), warn) : null;
  const whose = world > 1 ? { rank } : {};
  let next = performance.now() + 1000 * Math.min(FIRST_S, interval);
  return {
    due(shared) {
      const now = performance.now(), step = stepIn(shared), t = Date.now() / 1000;
      const little = memory.due(step), due = now >= next;
      if (little?.first) tell(little.event.message);
      if (due) next = now + 1000 * interval;
      const noted = [
        ...(little ? [{ t, ...whose, ...little.event }] : []),
        ...(due ? [{ t, ...sampler.sample(step) }] : []),
      ].map(systemLineOf);
      if (own === null) return due ? [...noted, ...others.flatMap((more) => more())] : noted;
      for (const { bytes } of noted) own(bytes);
      return [];
    },
    close: sampler.close,
  };
}

function systemLineOf(event: Event): SystemLine {
  const { t, ...fields } = event;
  const line = encodeEvent(fields, t);
  return { event, line, bytes: encoder.encode(line + "\n") };
}

function appendToRankFile(path: string, warn: (message: string) => void): (bytes: Uint8Array) => void {
  let warned = false;
  return (bytes) => {
    try {
      Deno.writeFileSync(path, bytes, { append: true });
    } catch (cause) {
      if (!warned) {
        warn(`${path} can't be written (${reason(cause)}): this rank's machine metrics are missing.`);
      }
      warned = true;
    }
  };
}

/** Older events belong to another attempt. */
function follow(path: string): () => SystemLine[] {
  let at = sizeOf(path);
  return () => {
    const size = sizeOf(path);
    if (size < at) at = 0; // begun anew
    if (size === at) return [];
    const bytes = readAt(path, at, Math.min(MOST, size - at));
    const end = bytes.lastIndexOf(10) + 1;
    if (end === 0) {
      if (bytes.length === MOST) at += MOST; // not ours
      return [];
    }
    at += end;
    return new TextDecoder().decode(bytes.subarray(0, end)).split("\n").flatMap((line) => {
      const event = decodeEvent(line);
      return event !== null && FORWARDED_KINDS.has(event.kind) ? [systemLineOf(event)] : [];
    });
  };
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0; // not there yet, or in a folder that only its own node sees
  }
}

function readAt(path: string, at: number, length: number): Uint8Array {
  try {
    using file = Deno.openSync(path);
    file.seekSync(at, Deno.SeekMode.Start);
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, file.readSync(bytes) ?? 0);
  } catch {
    return new Uint8Array(0);
  }
}

interface MemoryWatch {
  /** Null where nothing is due. `first` marks the first warning since memory was sufficient. */
  due(step: number): { readonly event: WarningEvent; readonly first: boolean } | null;
}

/** A warning begins below the first free share of the limit and ends above the second. */
const LITTLE = 0.05, WELL = 0.1;

/** Seconds between two checks, far from the limit and near it. */
const CALM_S = 1, NEAR_S = 0.2;

/** The warning is repeated, so that a log's end shows the state of memory. */
const MEMORY_WARNING_S = 300;

const WHOSE: Readonly<Record<Limit["of"], readonly [what: string, beyond: string]>> = {
  "job": ["that this job's control group allows", "the kernel kills a process of the job"],
  "machine": ["of this machine", "the kernel kills a process"],
  "address space": ["of address space (ulimit -v)", "the next buffer is refused"],
  "data": ["of data (ulimit -d)", "the next buffer is refused"],
};

export function openMemoryWatch(
  limitNow: () => Limit = () => tightestLimit(),
  now: () => number = () => performance.now() / 1000,
): MemoryWatch {
  let next = 0, near = false, warnedAt = -Infinity;
  return {
    due(step) {
      const at = now();
      if (at < next) return null;
      const limit = limitNow(), free = freeOf(limit) / limit.limit;
      next = at + (free > 4 * LITTLE ? CALM_S : NEAR_S);
      if (free > WELL) near = false;
      if (free >= LITTLE || near && at - warnedAt < MEMORY_WARNING_S) return null;
      const first = !near;
      near = true;
      warnedAt = at;
      return {
        event: { kind: "warning", step, about: "memory", memory: limit, message: sentenceOf(limit) },
        first,
      };
    },
  };
}

function sentenceOf(limit: Limit): string {
  const [what, beyond] = WHOSE[limit.of];
  return `Memory is nearly used up: ${usedOf(limit)} ${what}. Beyond, ${beyond} without a word. ` +
    "Take a smaller --batch-size or --gradient-checkpointing, or ask for more memory.";
}

/** "23.1 GiB of 24.0 GiB" */
const usedOf = ({ used, limit }: Pick<Limit, "used" | "limit">): string =>
  `${formatBytes(used)} of ${formatBytes(limit)}`;

/** A machine without memory writes slowly. */
const SLACK_S = 60;

/** The warning was still valid at the run's last event. */
export const wasShort = ({ t }: { readonly t: number }, lastAt: number): boolean =>
  lastAt - t <= MEMORY_WARNING_S + SLACK_S;

/** Null where memory was sufficient, or the run has an end. */
export function lastShortage(events: readonly Event[]): (WarningEvent & { t: number }) | null {
  const last = events.at(-1);
  if (last === undefined || last.kind === "exit") return null;
  const begun = events.findLastIndex(({ kind }) => kind === "run");
  const shortage = events.slice(begun + 1).findLast((event): event is WarningEvent & { t: number } =>
    event.kind === "warning" && event.about === "memory"
  );
  return shortage && wasShort(shortage, last.t) ? shortage : null;
}

export function killedFor({ memory, step }: WarningEvent): string {
  const used = memory && Number.isFinite(memory.limit) && Number.isFinite(memory.used)
    ? `: ${usedOf(memory)} were used at step ${Number(step)}`
    : "";
  return `it was probably killed for memory${used}`;
}
