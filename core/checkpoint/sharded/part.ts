// One rank's part of a checkpoint that all ranks write, each in a thread of its own: they meet in the folder alone.
// A file in place is a part that was read back; rank 0 waits for all of them, then writes the index.
// Imports errors, its siblings, background/failure.
import { join } from "../../../deps/path.ts";
import { UserError } from "../../errors.ts";
import { formatPlural } from "../../format.ts";
import { errorOf, type Failure, failureOf } from "../background/failure.ts";
import { remove } from "../atomic.ts";
import type { Storage } from "../value.ts";
import { shardName } from "./plan.ts";
import { type Content, removeLeftovers, writeIndex, writeShard } from "./write.ts";

/** Plain data, so that a thread can be sent it. */
export interface Part {
  readonly rank: number;
  readonly world: number;
  /** The same on every rank, and of no other save. */
  readonly generation: string;
  /** Seconds that rank 0 waits for the others. */
  readonly patience: number;
  /** Set when ranks come to their end: then there is little more to wait for. */
  readonly ending: SharedArrayBuffer;
}

/** In place of the bytes of a tensor that another rank writes. */
export const ELSEWHERE: Storage = {
  byteLength: 0,
  read() {
    throw new Error("internal: another rank has the bytes of this tensor.");
  },
};

const LOOK_MS = 50;
/** For parts that are nearly written when their ranks come to their end. */
const GRACE_MS = 5000;

/** Gives the size of the file; on rank 0, where the checkpoint is in place when it returns, of all files. */
export function writePart(folder: string, part: Part, content: Content): number {
  const shards = { folder, world: part.world, generation: part.generation };
  if (part.rank === 0) removeLeftovers(shards);
  const size = writeShard(shards, part.rank, content);
  if (part.rank > 0) return size;
  awaitParts(folder, part);
  return writeIndex(shards, content);
}

/** Tells rank 0, which would wait for the file, why there is none. */
export function leaveWord(folder: string, part: Part, error: unknown): void {
  if (part.rank === 0) return;
  const path = join(folder, wordName(part.rank, part));
  const temporary = `${path}.tmp`;
  try {
    Deno.writeTextFileSync(temporary, JSON.stringify(failureOf(error)));
    Deno.renameSync(temporary, path);
  } catch {
    remove(temporary);
    try {
      Deno.createSync(path).close(); // a full disk still takes an empty file
    } catch {
      // Rank 0 finds out by waiting.
    }
  }
}

const wordName = (rank: number, { world, generation }: Part): string =>
  `.${shardName(rank, world, generation)}.failed`;

function awaitParts(folder: string, part: Part): void {
  const { world, generation, patience } = part;
  const ending = new Int32Array(part.ending);
  const missing = new Set(Array.from({ length: world - 1 }, (_, i) => i + 1));
  let until = performance.now() + 1000 * patience, ended = false;
  for (;;) {
    // All names at once: a network's file system may remember that a single one was not there.
    const names = new Set([...Deno.readDirSync(folder)].map(({ name }) => name));
    for (const rank of missing) {
      if (names.has(shardName(rank, world, generation))) missing.delete(rank);
      else if (names.has(wordName(rank, part))) throw failureIn(folder, rank, part);
    }
    if (missing.size === 0) return;
    if (!ended && Atomics.load(ending, 0) === 1) {
      ended = true;
      until = Math.min(until, performance.now() + GRACE_MS);
    }
    if (performance.now() > until) throw missed(folder, [...missing], ended ? null : patience);
    Atomics.wait(ending, 0, ended ? 1 : 0, LOOK_MS);
  }
}

function failureIn(folder: string, rank: number, part: Part): Error {
  let failure: Failure;
  try {
    failure = JSON.parse(Deno.readTextFileSync(join(folder, wordName(rank, part))));
  } catch {
    const text = `its part could not be written to ${folder}, and why neither: is the disk full?`;
    failure = { kind: "checkpoint", text };
  }
  return errorOf({ ...failure, text: `Rank ${rank}: ${failure.text}` });
}

function missed(folder: string, ranks: readonly number[], patience: number | null): UserError {
  const [first, ...more] = ranks;
  const whose = `Rank ${first}'s part${more.length === 0 ? "" : ` and ${more.length} more`}`;
  return new UserError(
    "checkpoint",
    patience === null
      ? `${folder}: ${whose} did not come before the ranks ended. The checkpoint from before is untouched.`
      : `${folder}: ${whose} did not come within ${formatPlural(patience, "second")} (--timeout). ` +
        "The checkpoint from before is untouched. Is the file system slow, or not the same one on all nodes?",
  );
}
