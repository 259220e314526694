// Some documents validate: equal ones are on one side, and the choice depends on their texts and the seed alone.
import { key } from "../../base/random.ts";
import type { TextPiece } from "./corpus.ts";

/** A document in a few numbers. */
export interface Surveyed {
  readonly hashes: number[];
  /** Characters. */
  readonly lengths: number[];
}

/** Reads pieces as they come. */
export class Survey implements Surveyed {
  readonly hashes: number[] = [];
  readonly lengths: number[] = [];
  #low = START_LOW;
  #high = START_HIGH;
  #length = 0;

  add({ text, ends }: TextPiece): void {
    let low = this.#low, high = this.#high;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ (code + (low >>> 24)), 0x85ebca6b);
    }
    this.#low = low;
    this.#high = high;
    this.#length += text.length;
    if (!ends) return;
    this.hashes.push((high >>> 11) * 2 ** 32 + (low >>> 0));
    this.lengths.push(this.#length);
    this.#low = START_LOW;
    this.#high = START_HIGH;
    this.#length = 0;
  }
}

const START_LOW = 0x811c9dc5 | 0, START_HIGH = 0x9747b28c | 0;

export type Division =
  | { readonly by: "documents"; readonly held: ReadonlySet<number> }
  /** The last share of each document validates: they are too few to hold some of them out. */
  | { readonly by: "ends"; readonly share: number }
  | { readonly by: "nothing" };

/** Documents are held out until their characters are the share; where that can't be, their ends are. */
export function divide({ hashes, lengths }: Surveyed, share: number, seed: number): Division {
  if (share === 0) return { by: "nothing" };
  const sizes = new Map<number, number>();
  let total = 0;
  hashes.forEach((hash, i) => {
    sizes.set(hash, (sizes.get(hash) ?? 0) + lengths[i]);
    total += lengths[i];
  });
  const drawn = [...sizes].map(([hash, size]) => ({ hash, size, place: key(seed, "documents", hash) }));
  drawn.sort((a, b) => a.place < b.place ? -1 : a.place > b.place ? 1 : a.hash - b.hash);
  const held = new Set<number>();
  let taken = 0;
  for (const { hash, size } of drawn) {
    if (taken + size > 1.1 * share * total) continue;
    held.add(hash);
    taken += size;
    if (taken >= share * total) break;
  }
  return taken >= share * total / 2 && held.size < sizes.size
    ? { by: "documents", held }
    : { by: "ends", share };
}
