// Where the raw rows of a source come from, part by part in the order they are asked for: read by threads, or made
// when they are taken. May import source.
import type { Batch, Part, Source } from "../source.ts";

export interface Rows {
  /** What will be taken, in order; asked for as early as there is room, until it gives null. Forgets what was begun before. */
  begin(next: () => Part | null): void;
  /** Whether the part `ahead` places behind the next to be taken is here; waits for it no longer than that. */
  ready(ahead: number, milliseconds: number): boolean;
  /** The rows of the next part, which this is, on the host: until they are released, and no longer than the caller's scope. */
  take(part: Part): Batch;
  /** The oldest so many of those taken are needed no more. */
  release(count: number): void;
}

/** Made by the training thread itself: a gather in memory, or reading where there are no threads. */
export function rowsOf(source: Source): Rows {
  return { begin: () => {}, ready: () => true, take: source.raw, release: () => {} };
}
