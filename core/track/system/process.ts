// This process and its machine as Linux tells of them in /proc. Whatever is not told is missing. Imports nothing.

/** Counters, whose differences are rates, and what is in use now. */
export interface Counters {
  readonly at: number;
  readonly rss?: number;
  readonly threads?: number;
  /** Seconds of processor time. */
  readonly cpu?: number;
  readonly diskRead?: number;
  readonly diskWritten?: number;
  /** Ticks of all cores, and those in which they did something. */
  readonly hostTicks?: number;
  readonly hostBusy?: number;
  readonly networkIn?: number;
  readonly networkOut?: number;
  readonly memory?: number;
  readonly memoryTotal?: number;
}

/** Fields of an event. */
export interface Rates {
  readonly rss_bytes?: number;
  readonly threads?: number;
  readonly cpu_percent?: number;
  readonly host_cpu_percent?: number;
  readonly host_memory_bytes?: number;
  readonly host_memory_total_bytes?: number;
  readonly disk_read_bytes_per_s?: number;
  readonly disk_write_bytes_per_s?: number;
  readonly network_in_bytes_per_s?: number;
  readonly network_out_bytes_per_s?: number;
}

/** Linux counts a process's time in hundredths of a second, on every machine of the last twenty years. */
const TICKS_PER_S = 100;
const KIB = 1024;

/** `root` is /proc. */
export function readCounters(root = "/proc", at = performance.now() / 1000): Counters {
  return {
    at,
    ...told(() => ofStatus(text(`${root}/self/status`))),
    ...told(() => ({ cpu: cpuOf(text(`${root}/self/stat`)) })),
    ...told(() => ofIo(text(`${root}/self/io`))),
    ...told(() => ofHost(text(`${root}/stat`))),
    ...told(() => ofNetwork(text(`${root}/net/dev`))),
    ...told(() => ofMemory(text(`${root}/meminfo`))),
  };
}

/** What happened between two looks, and how it is now. */
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

function told<T extends object>(read: () => T): T | Record<never, never> {
  try {
    return read();
  } catch {
    return {}; // another kernel, or a container that hides it
  }
}

/** "VmRSS:   1234 kB" */
const field = (status: string, name: string): number | undefined => {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1];
  return found === undefined ? undefined : Number(found);
};
const kib = (value: number | undefined): number | undefined => value === undefined ? undefined : value * KIB;

export const ofStatus = (status: string): Pick<Counters, "rss" | "threads"> => ({
  rss: kib(field(status, "VmRSS")),
  threads: field(status, "Threads"),
});

/** User and system time; the name before them may hold spaces and brackets. */
export function cpuOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

export const ofIo = (io: string): Pick<Counters, "diskRead" | "diskWritten"> => ({
  diskRead: field(io, "read_bytes"),
  diskWritten: field(io, "write_bytes"),
});

export function ofHost(stat: string): Pick<Counters, "hostTicks" | "hostBusy"> {
  // user nice system idle iowait irq softirq steal; what follows is counted in the first two already
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
