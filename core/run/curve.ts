// One measurement over the steps of a run in bounded memory: a run with many points keeps the minimum, maximum and
// mean of each stretch.

/** Stretches kept by default: more than a chart has pixels, so that there is something to see when zooming in. */
const STRETCHES = 4096;
/** Steps without a finite value that are remembered by number. */
const REMEMBERED = 100;

export class Curve {
  /** Of each stretch: its first and last step, and its values. Valid up to `length`. */
  readonly first: Float64Array;
  readonly step: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly sum: Float64Array;
  /** Finite values in each. */
  readonly count: Uint32Array;
  length = 0;
  last = NaN;
  lastStep = -Infinity;
  /** The least and the greatest finite value there ever was. */
  least = Infinity;
  greatest = -Infinity;
  /** The first steps whose value was NaN or infinite, and how many there were. */
  readonly wrong: number[] = [];
  wrongs = 0;
  /** Points a stretch takes; doubles whenever all stretches are taken. */
  #each = 1;
  /** Points that the last stretch can still take. */
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

  /** A step that is not beyond the last one takes back what was said from there on: a log that could not be rewound. */
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

  /** NaN where a stretch had no finite value. */
  mean(at: number): number {
    return this.count[at] === 0 ? NaN : this.sum[at] / this.count[at];
  }

  /** Forgets the stretches from this step on; one that began before it stays whole. */
  cut(step: number): void {
    while (this.length > 0 && this.first[this.length - 1] >= step) {
      this.length--;
      this.#room = 0;
    }
    this.lastStep = this.length > 0 ? Math.min(this.step[this.length - 1], step - 1) : -Infinity;
    while (this.wrong.length > 0 && this.wrong.at(-1)! >= step) {
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
