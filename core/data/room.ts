// How much memory data may take on this machine, and the sentence where it would take more.
import { UserError } from "../errors.ts";
import { formatBytes, formatPlural } from "../format.ts";
import { freeMemory } from "../memory.ts";

/** Half of what is free: the other half is for the model, the optimizer and whoever else is there. */
const SHARE = 0.5;
/** Of what is free, that data takes without being told to: other ranks of this machine hold theirs beside it. */
const QUARTER = 0.25;

/** Refuses data that doesn't fit, before any of it is read. `samples` is how many it has, where that is known. */
export function checkRoom(
  what: string,
  bytes: number,
  samples: number | null,
  advice: string,
  free = freeMemory(),
): void {
  const most = SHARE * free;
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

/** Whether data is held in memory, or read a sample at a time: as the user says (data.in_memory), or by what is free. */
export function heldInMemory(mode: "auto" | "yes" | "no", bytes: number, free = freeMemory()): boolean {
  return mode === "auto" ? bytes <= QUARTER * free : mode === "yes";
}
