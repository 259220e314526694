// Samples what /proc and NVML say of this process, its machine and its GPU, off the training thread; rank 0
// also passes on the events of other ranks.
import { type GpuName, openGpuMonitor } from "../../ffi/gpu/monitor.ts";
import { decodeEvent, encodeEvent, type Event, type SystemEvent } from "./events.ts";
import { join } from "../../deps/path.ts";
import { reason } from "./event_log.ts";
import { type SharedRing, stepIn } from "./writer/ring.ts";
import { openMemoryWatch } from "./memory_watch.ts";

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
