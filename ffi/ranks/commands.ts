import { memoryBlockOf, tensorAt } from "../make.ts";
import { describe, type Tensor } from "../tensor.ts";
import {
  type CollectiveName,
  COLLECTIVES,
  OP,
  QUEUED,
  type Ring,
  slotOf,
  slotOffset,
  VERB,
  WHAT,
} from "./ring.ts";

export function hostBytes(t: Tensor): number {
  if (!t.contiguous || t.device !== "cpu") {
    throw new Error(`internal: ranks can't communicate ${describe(t)}.`);
  }
  return t.byteLength;
}

export function enqueue(
  { words, counts, addresses }: Ring,
  sequence: number,
  verb: CollectiveName,
  count: number,
  into: Tensor | null,
  from: Tensor | null,
  what: number,
  op: number,
): void {
  const slot = slotOf(sequence), at = slotOffset(slot);
  words[at + VERB] = COLLECTIVES.indexOf(verb);
  words[at + WHAT] = what;
  words[at + OP] = op;
  counts[slot] = count;
  addresses[2 * slot] = into === null ? 0n : memoryBlockOf(into).address;
  addresses[2 * slot + 1] = from === null ? 0n : memoryBlockOf(from).address;
  Atomics.store(words, QUEUED, sequence | 0);
  Atomics.notify(words, QUEUED);
}

export function sharedTensor({ addresses }: Ring, sequence: number, elements: number): Tensor | null {
  const address = addresses[2 * slotOf(sequence)];
  return address === 0n ? null : tensorAt(address, elements);
}
