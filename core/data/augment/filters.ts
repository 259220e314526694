// The pixels that each pixel of another size is made of, and their weights, as in Pillow.

export type KernelName = "bilinear" | "bicubic";

interface Kernel {
  /** So many pixels on either side count where an image keeps its size. */
  readonly support: number;
  readonly at: (distance: number) => number;
}

const KERNELS: Readonly<Record<KernelName, Kernel>> = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - x) },
  bicubic: {
    support: 2,
    at: (x) => x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? -0.5 * (((x - 5) * x + 8) * x - 4) : 0,
  },
};

export interface Filter {
  readonly from: Int32Array;
  readonly taps: Int32Array;
  readonly weights: Int32Array | Float64Array;
  /** Each pixel has room for so many weights. */
  readonly most: number;
}

const BITS = 22;

/** The order of operations is Pillow's, so weights have its bits; `fixed` ones are whole numbers of 2^-22. Pixels begin at `start` of `to`. */
export function filterOf(
  size: number,
  to: number,
  start: number,
  count: number,
  fixed: boolean,
  name: KernelName,
): Filter {
  const kernel = KERNELS[name],
    scale = size / to,
    stretch = Math.max(scale, 1),
    reach = kernel.support * stretch,
    most = 2 * Math.ceil(reach) + 1;
  const from = new Int32Array(count), taps = new Int32Array(count);
  const weights = fixed ? new Int32Array(count * most) : new Float64Array(count * most);
  const exact = new Float64Array(most);
  for (let i = 0; i < count; i++) {
    const centre = (start + i + 0.5) * scale;
    from[i] = Math.max(0, Math.trunc(centre - reach + 0.5));
    taps[i] = Math.min(size, Math.trunc(centre + reach + 0.5)) - from[i];
    let sum = 0;
    for (let k = 0; k < taps[i]; k++) {
      exact[k] = kernel.at(Math.abs((k + from[i] - centre + 0.5) * (1 / stretch)));
      sum += exact[k];
    }
    for (let k = 0; k < taps[i]; k++) {
      const weight = exact[k] / sum;
      weights[i * most + k] = fixed ? Math.trunc(weight * (1 << BITS) + (weight < 0 ? -0.5 : 0.5)) : weight;
    }
  }
  return { from, taps, weights, most };
}

/** Both directions of a resize. */
export interface Passes {
  readonly down: Filter;
  readonly across: Filter;
  readonly rowsFirst: boolean;
}

/** The first pixel that any weight is for, and how many there are from it to the last. */
export function span({ from, taps }: Filter): [first: number, count: number] {
  const last = from.length - 1;
  return last < 0 ? [0, 0] : [from[0], from[last] + taps[last] - from[0]];
}
