// Dataspace messages: how many elements there are, and in what shape. May import bytes.
import { type Span, unforeseen } from "./bytes.ts";

const MOST_DIMENSIONS = 32;

export interface Space {
  /** Null for a dataspace without elements; [] for a single one. */
  readonly shape: readonly number[] | null;
  /** Whether it can have no other shape. */
  readonly fixed: boolean;
}

export function readSpace(span: Span): Space {
  const version = span.u8(), rank = span.u8(), flags = span.u8();
  if (version !== 1 && version !== 2) unforeseen("a version of dataspaces");
  if (rank > MOST_DIMENSIONS || flags > 1) unforeseen("a dataspace");
  const kind = version === 2 ? span.u8() : rank === 0 ? SCALAR : SIMPLE;
  if (version === 1) span.skip(5);
  if (kind > NONE || kind === SIMPLE !== rank > 0) unforeseen("a kind of dataspace");
  if (kind === NONE) return { shape: null, fixed: true };
  const sizes = Array.from({ length: rank }, () => span.uint(8));
  const fixed = flags === 0 || sizes.every((size) => span.address8() === size); // how far it may grow
  // The library's interface tells sizes in 32 bits.
  if (sizes.some((size) => size >= 2 ** 32) || elements(sizes) > 2 ** 50) unforeseen("a huge dataspace");
  return { shape: sizes, fixed };
}

const SCALAR = 0, SIMPLE = 1, NONE = 2;

export const elements = (shape: readonly number[]): number => shape.reduce((total, size) => total * size, 1);
