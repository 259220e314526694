// Events about the machine as W&B's system metrics. May import event types, numbers.ts.
import { PARTS } from "../account.ts";
import type { RanksEvent, SystemEvent } from "../event_types.ts";
import { shortNumber } from "./numbers.ts";
import type { Item } from "./records.ts";

const MIB = 2 ** 20;

/** Names that W&B draws its own panels of; the others go by the event's own names. */
const NAMES: Readonly<Record<string, readonly [name: string, per?: number]>> = {
  rss_bytes: ["proc.memory.rssMB", MIB],
  cpu_percent: ["cpu"],
  threads: ["proc.cpu.threads"],
};
/** One GPU a rank: W&B's number of a GPU is the rank's. */
const OF_GPU: Readonly<Record<string, string>> = {
  gpu_percent: "gpu",
  gpu_memory_percent: "memory",
  gpu_memory_bytes: "memoryAllocatedBytes",
  gpu_temperature_c: "temp",
  gpu_power_w: "powerWatts",
  gpu_clock_mhz: "smClock",
  gpu_memory_clock_mhz: "memoryClock",
};
const NOT_MEASURED = ["t", "step", "rank", "gpu_memory_total_bytes", "host_memory_total_bytes"];

/** What rank 0 measured is the run's; what others did is named after them. */
export function systemItems(event: SystemEvent): Item[] {
  const { rank = 0 } = event;
  const prefix = rank > 0 ? `rank.${rank}.` : "";
  const items: Item[] = [];
  const put = (name: string, value: number) => items.push({ key: [name], json: shortNumber(value) });
  for (const [field, value] of Object.entries(event)) {
    if (typeof value !== "number" || NOT_MEASURED.includes(field)) continue;
    const [name, per = 1] = NAMES[field] ?? [field];
    if (OF_GPU[field]) put(`gpu.${rank}.${OF_GPU[field]}`, value);
    else put(prefix + name, value / per);
  }
  const share = (part?: number, whole?: number) =>
    part === undefined || !whole ? undefined : 100 * part / whole;
  const memory = share(event.host_memory_bytes, event.host_memory_total_bytes);
  const gpu = share(event.gpu_memory_bytes, event.gpu_memory_total_bytes);
  if (memory !== undefined) put(`${prefix}memory_percent`, memory);
  if (gpu !== undefined) put(`gpu.${rank}.memoryAllocated`, gpu);
  return items;
}

/** Milliseconds of a step, for each rank. */
export function rankItems(event: RanksEvent): Item[] {
  return PARTS.flatMap((part) =>
    (event[`${part}_s`] ?? []).map((s, rank) => ({
      key: [`rank.${rank}.${part}_ms`],
      json: shortNumber(1000 * s / event.steps),
    }))
  );
}
