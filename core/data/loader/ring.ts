// Threads share words in shared memory. A lane is a ring of slots for one source; a slot takes one part of a
// batch. The training thread writes a slot's words and opens it; threads claim rows of open slots, oldest
// slot first, and count finished rows. A claim puts CLAIMED in place of a row's id: whoever finds the id does
// the row, be it a thread in turn (NEXT is only a hint), a thread with the file's chunk at hand, or the
// training thread, which takes it back.

/** All lanes share these words: publications, 1 to end, and replaced samples. */
export const SIGNAL = 0, QUIT = 1, SKIPPED = 2;
const HEADER = 16;

/** HEAD is a lane's oldest slot in use; the others are words of a slot. */
export const HEAD = 0;
export const NEXT = 0, COUNT = 1, DONE = 2, EPOCH = 3, FAILED = 4, IDS = 5;

/** CLOSED in NEXT means nothing to claim; CLAIMED replaces a row's id. */
export const CLOSED = 0x3fffffff, CLAIMED = -1;

/** A failed thread's message is UTF-8 behind its length. */
export const LAST_MESSAGE_BYTES = 4096;

interface LaneShape {
  readonly slots: number;
  readonly rows: number;
}

export interface LaneWords extends LaneShape {
  readonly base: number;
}

const wordsOf = ({ slots, rows }: LaneShape) => 16 + slots * (IDS + rows);

export function layOut(shapes: readonly LaneShape[]): { lanes: LaneWords[]; words: number } {
  let words = HEADER;
  const lanes = shapes.map((shape) => {
    const lane = { ...shape, base: words };
    words += wordsOf(shape);
    return lane;
  });
  return { lanes, words };
}

export const slotAt = ({ base, rows }: LaneWords, slot: number): number => base + 16 + slot * (IDS + rows);

/** So few rows are claimed at once that all threads share a batch. */
export const chunkOf = (count: number, threads: number): number =>
  Math.max(1, Math.min(16, Math.floor(count / (2 * threads))));
