// Tensors that stay as long as the run and are gone through at every step: in large pages, where the machine has some.
// Their first write takes a third of the time, because a page is given out for 2 MiB and not for 4 KiB. May import
// huge_pages, make, tensor.
import { askForHugePages } from "./huge_pages.ts";
import { type Options, placeOf, uninitialised, zero_ } from "./make.ts";
import type { Tensor } from "./tensor.ts";

/** Below this a large page would be mostly empty. */
const LARGE = 8 << 20;

export function stayingUninitialised(shape: readonly number[], o: Options = {}): Tensor {
  const made = uninitialised(shape, o);
  if (made.device === "cpu" && made.byteLength >= LARGE) askForHugePages(placeOf(made));
  return made;
}

export const stayingZeros = (shape: readonly number[], o: Options = {}): Tensor =>
  zero_(stayingUninitialised(shape, o));
