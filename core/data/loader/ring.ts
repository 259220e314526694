// The training thread and the loader threads share words in shared memory. A lane is a ring of slots for one
// source; a slot takes one part of a batch. The training thread writes a slot's words and opens it; threads claim
// rows of open slots, oldest slot first, and count what they have done. A row is claimed by putting CLAIMED in place
// of its id: who finds the id there does the row, be it a thread whose turn it is (NEXT only says where to look), one
// that has its file's chunk at hand, or the training thread, which takes it back.

/** Words for all: how often something was published; 1 to end; samples that were replaced. */
export const SIGNAL = 0, QUIT = 1, SKIPPED = 2;
const HEADER = 16;

/** Words of a lane: the oldest slot in use. Of a slot: next row to claim; rows in all; rows done; epoch; why it failed. */
export const HEAD = 0;
export const NEXT = 0, COUNT = 1, DONE = 2, EPOCH = 3, FAILED = 4, IDS = 5;

/** In NEXT: nothing to claim here. In place of an id: somebody does this row. */
export const CLOSED = 0x3fffffff, CLAIMED = -1;

/** Bytes a thread has for its last words, as UTF-8 behind their length. */
export const LAST_MESSAGE_BYTES = 4096;

export interface LaneShape {
  readonly slots: number;
  readonly rows: number;
}

/** A lane and the place of its words among all. */
export interface LaneWords extends LaneShape {
  readonly base: number;
}

const wordsOf = ({ slots, rows }: LaneShape) => 16 + slots * (IDS + rows);

/** The lanes' places, and how many words there are in all. */
export function layOut(shapes: readonly LaneShape[]): { lanes: LaneWords[]; words: number } {
  let words = HEADER;
  const lanes = shapes.map((shape) => {
    const lane = { ...shape, base: words };
    words += wordsOf(shape);
    return lane;
  });
  return { lanes, words };
}

/** The first word of a slot. */
export const slotAt = ({ base, rows }: LaneWords, slot: number): number => base + 16 + slot * (IDS + rows);

/** Rows claimed at once: few enough that a batch is shared by all threads. */
export const chunkOf = (count: number, threads: number): number =>
  Math.max(1, Math.min(16, Math.floor(count / (2 * threads))));
