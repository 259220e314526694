// Gradients beside each other, parameter by parameter: the arena's as they lie there, or large ones as a few sums, where
// a second copy of all of them would be the most memory that a run ever takes; or a digest of them all, which tells only
// whether they are equal.
import { hash } from "node:crypto";
import { noGrad } from "../../ffi/autograd.ts";
import { sameMemory } from "../../ffi/libc.ts";
import { borrowBytes, memoryBlockOf, readBytes, sub, tensor } from "../../ffi/make.ts";
import { cat, dot, matmul, narrow, view } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

export interface Gradients {
  readonly values: Tensor;
  /** The first number of each parameter, and how many it has. */
  readonly starts: readonly number[];
  readonly counts: readonly number[];
  /** The seed of the signs of sums; null where all numbers are there. */
  readonly signs: number | null;
}

/** It stands for all bits of the arena's gradients: no two different ones with one digest are known. */
export interface Digest {
  readonly digest: string;
}

/** On a CPU. */
export const digestOf = ({ gradient }: Arena): Digest => ({
  digest: hash("sha256", borrowBytes(gradient), "hex"),
});

const countsOf = ({ parameters }: Arena): number[] => parameters.map(({ numel }) => numel);

/** All numbers; `values` may be a copy of the arena's. */
export const gradientsIn = (arena: Arena, values = arena.gradient): Gradients => ({
  values,
  starts: arena.starts,
  counts: countsOf(arena),
  signs: null,
});

/** So many numbers become so few sums, in gradients of at least so many times as many. */
const SUMMED = 256, SUMS = 8, LEAST = 16;

/**
 * In place of a large gradient sums of its numbers, with signs as if drawn: equal where it is equal, and about as far
 * apart as it is. `signs` is their seed. The caller frees `values`.
 */
export function shortenedGradients({ gradient, starts, parameters }: Arena, signs = 1): Gradients {
  const counts: number[] = [];
  const values = noGrad(() =>
    scope(() => {
      const drawn = tensor(drawnSigns(signs), [SUMS, SUMMED], { device: gradient.device });
      return keep(cat(starts.flatMap((start, i) => {
        const { numel } = parameters[i], rows = Math.floor(numel / SUMMED);
        if (rows < LEAST) {
          counts.push(numel);
          return [narrow(gradient, 0, start, numel)];
        }
        const many = rows * SUMMED, sums = rows * SUMS, rest = numel - many;
        counts.push(sums + rest);
        const summed = matmul(drawn, view(narrow(gradient, 0, start, many), [SUMMED, rows]));
        return [view(summed, [sums]), narrow(gradient, 0, start + many, rest)];
      })));
    })
  );
  let at = 0;
  return { values, counts, signs, starts: counts.map((count) => (at += count) - count) };
}

/** The sums together are as long as the numbers: each has its part of their squares. */
function drawnSigns(seed: number): Float32Array<ArrayBuffer> {
  let state = seed;
  return Float32Array.from({ length: SUMMED * SUMS }, () => {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    return (state < 0 ? -1 : 1) / Math.sqrt(SUMS);
  });
}

const F32 = 4;

/** On a CPU. */
export function haveSameBits(one: Gradients, other: Gradients): boolean {
  const own = memoryBlockOf(one.values), theirs = memoryBlockOf(other.values);
  return sameMemory(one.starts.map((start, i) => {
    const at = BigInt(F32 * start), bytes = F32 * one.counts[i];
    return [{ address: own.address + at, bytes }, { address: theirs.address + at, bytes }];
  }));
}

interface Difference {
  /** The length of a parameter's gradient, as it ought to be, and how far away it is. */
  readonly size: number;
  readonly error: number;
}

/** So many numbers are compared at once: little memory beside the gradients, and sums that are good to 1e-6. */
const PIECE = 1 << 16;

export function gradientDifferences(own: Gradients, theirs: Gradients): Difference[] {
  const squares = own.starts.map((start, i) => {
    const end = start + own.counts[i];
    let error = 0, size = 0;
    for (let at = start; at < end; at += PIECE) {
      const [between, whole] = noGrad(() =>
        squaresOf(own.values, theirs.values, at, Math.min(PIECE, end - at))
      );
      error += between;
      size += whole;
    }
    return { error: Math.sqrt(error), size: Math.sqrt(size) };
  });
  return squares.every(({ error, size }) => Number.isFinite(error + size))
    ? squares
    : differencesOfEach(own, theirs);
}

/** The square of the length of their difference, and that of the second one. */
const squaresOf = (one: Tensor, other: Tensor, from: number, count: number): number[] =>
  scope(() => {
    const own = narrow(one, 0, from, count), theirs = narrow(other, 0, from, count);
    const between = sub(own, theirs);
    return [dot(between, between).item(), dot(theirs, theirs).item()];
  });

/** Number by number: a NaN that both have is no difference, and squares of large numbers are no infinities. */
function differencesOfEach({ values, starts, counts }: Gradients, other: Gradients): Difference[] {
  const own = numbersOf(values), theirs = numbersOf(other.values);
  return starts.map((from, i) => {
    const to = from + counts[i];
    let error = 0, size = 0;
    for (let k = from; k < to; k++) {
      const difference = own[k] - theirs[k];
      size += theirs[k] * theirs[k];
      if (difference !== 0 && !(Number.isNaN(own[k]) && Number.isNaN(theirs[k]))) {
        error += difference * difference;
      }
    }
    return { error: Math.sqrt(error), size: Math.sqrt(size) };
  });
}

function numbersOf(t: Tensor): Float32Array {
  const bytes = t.device === "cpu" ? borrowBytes(t) : readBytes(t);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / F32);
}
