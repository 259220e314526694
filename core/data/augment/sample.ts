// A sample between two transforms: a picture, a map of quantities or a map of classes. Its planes are a view of
// what the reader holds until a transform writes numbers of its own, so flips and crops copy nothing.
import { key, uniform } from "../../base/random.ts";
import type { SampleNumbers } from "../arrays/numbers.ts";
import { copyPlanes, cut, type Planes, planesOf, type Stored } from "./planes.ts";
import { openResize } from "./resize.ts";

/** `draw(k)` is uniform in [0, 1), the same for a sample and epoch in every thread. */
export type Draw = (k: number) => number;

/** Transforms of a list have these draws each, behind the ones that a sample's geometry has. */
export const FIRST_DRAW = 16, DRAWS_OF_A_STEP = 1024;

/** Bytes and floats from 0 to 1 are pictures; in maps NaN is a missing point; classes are never blended. */
export type Role = "picture" | "map" | "classes";

/** Memory that the samples of one thread use in turn. */
export class Room {
  readonly resample = openResize();
  #buffers: SampleNumbers[] = [];

  /** Numbers of the same type, in another place than these. */
  beside(data: SampleNumbers, length: number): SampleNumbers {
    const kind = data.constructor as new (length: number) => SampleNumbers;
    const found = this.#buffers.find((one) =>
      one.constructor === kind && one.length >= length && one.buffer !== data.buffer
    );
    if (found) return found.subarray(0, length);
    const made = new kind(length);
    this.#buffers = [made, ...this.#buffers.filter((one) => one.constructor !== kind || one.length >= length)]
      .slice(0, 8);
    return made;
  }
}

export class Sample {
  /** The matrix that components of vectors (to the right, and down the rows) are turned by. */
  turn: readonly [number, number, number, number] = [1, 0, 0, 1];
  #planes: Planes;
  #own: SampleNumbers | null = null;

  constructor(
    readonly room: Room,
    stored: Stored,
    readonly role: Role,
    /** This stands where nothing was: NaN in maps, the ignored class. It is null where a transform says it. */
    readonly outside: number | null,
  ) {
    this.#planes = planesOf(stored);
  }

  get planes(): Planes {
    return this.#planes;
  }

  get channels(): number {
    return this.#planes.starts.length;
  }

  get height(): number {
    return this.#planes.height;
  }

  get width(): number {
    return this.#planes.width;
  }

  /** The most that a value can be: pictures of floats go from 0 to 1. */
  get most(): number {
    return this.#planes.data instanceof Uint8Array ? 255 : 1;
  }

  get floats(): boolean {
    const { data } = this.#planes;
    return data instanceof Float32Array || data instanceof Float64Array;
  }

  /** The numbers, plane after plane, to be written to. */
  own(): SampleNumbers {
    if (this.#own) return this.#own;
    const { channels, height, width } = this;
    const into = this.fresh(channels, height, width);
    copyPlanes(this.#planes, into, { start: 0, plane: height * width, row: width, column: 1 });
    return this.put(into, channels, height, width);
  }

  /** Room for another picture; the old one stays as it is. */
  fresh(channels: number, height: number, width: number): SampleNumbers {
    return this.room.beside(this.#planes.data, channels * height * width);
  }

  put(data: SampleNumbers, channels: number, height: number, width: number): SampleNumbers {
    const starts = Array.from({ length: channels }, (_, i) => i * height * width);
    this.#planes = { data, starts, height, width, row: width, column: 1 };
    return this.#own = data;
  }

  view(planes: Planes): void {
    this.#planes = planes;
    this.#own = null;
  }

  crop(top: number, left: number, height: number, width: number): void {
    if (top === 0 && left === 0 && height === this.height && width === this.width) return;
    this.view(cut(this.#planes, top, left, height, width));
  }

  mirror(): void {
    const { starts, width, column } = this.#planes;
    const last = (width - 1) * column;
    this.view({ ...this.#planes, starts: starts.map((start) => start + last), column: -column });
    this.turned([-1, 0, 0, 1]);
  }

  upsideDown(): void {
    const { starts, height, row } = this.#planes;
    const last = (height - 1) * row;
    this.view({ ...this.#planes, starts: starts.map((start) => start + last), row: -row });
    this.turned([1, 0, 0, -1]);
  }

  /** Quarters of a turn against the clock. */
  quarters(count: number): void {
    for (let i = 0; i < count; i++) {
      const { starts, height, width, row, column } = this.#planes, last = (width - 1) * column;
      this.view({
        ...this.#planes,
        starts: starts.map((start) => start + last),
        ...{ height: width, width: height, row: -column, column: row },
      });
      this.turned([0, 1, -1, 0]);
    }
  }

  /** Components follow a turn of what they are components of. */
  turned([a, b, c, d]: Sample["turn"]): void {
    const [e, f, g, h] = this.turn;
    this.turn = [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h];
  }

  /** Gives the picture's planes to a batch. */
  writeTo(into: SampleNumbers): void {
    const { height, width } = this;
    copyPlanes(this.#planes, into, { start: 0, plane: height * width, row: width, column: 1 });
  }
}

/** As many more random numbers as wanted, from two draws. */
export function manyMore(draw: Draw, k: number): (i: number) => number {
  return uniform(key(Math.floor(draw(k) * 2 ** 32), Math.floor(draw(k + 1) * 2 ** 32)));
}

/** Normally distributed numbers, by Box and Muller: two neighbours are made at once. */
export function normals(draw: Draw, k: number): (i: number) => number {
  const at = manyMore(draw, k);
  let pair = -1, even = 0, odd = 0;
  return (i) => {
    if (i - (i & 1) !== pair) {
      pair = i - (i & 1);
      const radius = Math.sqrt(-2 * Math.log(at(pair) + 2 ** -33)), angle = 2 * Math.PI * at(pair + 1);
      even = radius * Math.cos(angle);
      odd = radius * Math.sin(angle);
    }
    return i & 1 ? odd : even;
  };
}

export const between = (low: number, high: number, share: number): number => low + (high - low) * share;

/** A whole number below `count`. */
export const below = (count: number, share: number): number => Math.floor(count * share);

/** Halves round to even, as Python's round does. */
export function round(x: number): number {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || rest === 0.5 && low % 2 === 0 ? low : low + 1;
}

/** An order of so many things. */
export function orderOf(count: number, draw: Draw, k: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = below(i + 1, draw(k + i));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
