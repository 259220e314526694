// One measurement of a run in bounded memory: each stretch of steps keeps its minimum, maximum and mean.

/** A chart has fewer pixels, so that a zoom shows something new. */
const STRETCHES = 4096;
const REMEMBERED = 100;

export class Curve {
  /** The arrays are valid up to `length`. */
  readonly first: Float64Array;
  readonly step: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly sum: Float64Array;
  /** Finite values alone count. */
  readonly count: Uint32Array;
  length = 0;
  last = NaN;
  lastStep = -Infinity;
  least = Infinity;
  greatest = -Infinity;
  /** `wrongs` counts all steps with NaN or an infinity, and `wrong` has the first of them. */
  readonly wrong: number[] = [];
  wrongs = 0;
  /** The points in a stretch double when all stretches are used. */
  #each = 1;
  /** The last stretch still takes so many points. */
  #room = 0;

  /** `most` is even, because two stretches become one. */
  constructor(readonly most: number = STRETCHES) {
    this.first = new Float64Array(most);
    this.step = new Float64Array(most);
    this.min = new Float64Array(most);
    this.max = new Float64Array(most);
    this.sum = new Float64Array(most);
    this.count = new Uint32Array(most);
  }

  /**
   * A step that is not beyond the last one removes the values from there on: such a log could not be rewound.
   */
  add(step: number, value: number): void {
    if (step <= this.lastStep) this.cut(step);
    if (this.#room === 0) this.#begin(step);
    const at = this.length - 1;
    this.#room--;
    this.step[at] = this.lastStep = step;
    this.last = value;
    if (Number.isFinite(value)) {
      this.min[at] = Math.min(this.min[at], value);
      this.max[at] = Math.max(this.max[at], value);
      this.least = Math.min(this.least, value);
      this.greatest = Math.max(this.greatest, value);
      this.sum[at] += value;
      this.count[at]++;
    } else {
      this.wrongs++;
      if (this.wrong.length < REMEMBERED) this.wrong.push(step);
    }
  }

  /** NaN where a stretch has no finite value. */
  mean(at: number): number {
    return this.count[at] === 0 ? NaN : this.sum[at] / this.count[at];
  }

  /** A stretch that began earlier stays whole. */
  cut(step: number): void {
    while (this.length > 0 && this.first[this.length - 1] >= step) {
      this.length--;
      this.#room = 0;
    }
    this.lastStep = this.length > 0 ? Math.min(this.step[this.length - 1], step - 1) : -Infinity;
    while (this.wrong.length > 0 && this.wrong[this.wrong.length - 1] >= step) {
      this.wrong.pop();
      this.wrongs--;
    }
  }

  #begin(step: number): void {
    if (this.length === this.most) this.#halve();
    const at = this.length++;
    this.#room = this.#each;
    this.first[at] = step;
    this.min[at] = Infinity;
    this.max[at] = -Infinity;
    this.sum[at] = this.count[at] = 0;
  }

  #halve(): void {
    const half = this.length >> 1;
    for (let to = 0; to < half; to++) {
      const a = 2 * to, b = a + 1;
      this.first[to] = this.first[a];
      this.step[to] = this.step[b];
      this.min[to] = Math.min(this.min[a], this.min[b]);
      this.max[to] = Math.max(this.max[a], this.max[b]);
      this.sum[to] = this.sum[a] + this.sum[b];
      this.count[to] = this.count[a] + this.count[b];
    }
    this.length = half;
    this.#each *= 2;
  }
}
