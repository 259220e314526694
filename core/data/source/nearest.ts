// Missing points of a map get the value of the nearest point of their channel that is there: the exact Euclidean
// distance, in two passes (Felzenszwalb and Huttenlocher).

export interface NearestFill {
  /** A stored sample: [channels, ...map]; distances are in the last two dimensions. */
  readonly shape: readonly number[];
  /** A further channel is 1 where no channel was missing, and 0 elsewhere. */
  readonly mask: boolean;
}

/** It fills a sample in place; its mask follows the channels. Maps without any point stay as they are. */
export function openNearest({ shape, mask }: NearestFill): (sample: Float32Array) => void {
  const [width, height] = [shape.at(-1) ?? 1, shape.length > 2 ? shape.at(-2)! : 1];
  const size = width * height, all = shape.reduce((product, side) => product * side, 1);
  const channels = shape[0], points = all / channels;
  const find = openFinder(width, height);
  return (sample) => {
    if (mask) {
      const there = sample.subarray(all, all + points).fill(1);
      for (let i = 0, at = 0; i < all; i++, at = at + 1 === points ? 0 : at + 1) {
        if (Number.isNaN(sample[i])) there[at] = 0;
      }
    }
    for (let from = 0; from < all; from += size) {
      const map = sample.subarray(from, from + size);
      if (!map.some(Number.isNaN)) continue;
      const nearest = find(map);
      if (nearest) { for (let i = 0; i < size; i++) if (Number.isNaN(map[i])) map[i] = map[nearest[i]]; }
    }
  };
}

/** The result is valid until the next call: for each point the nearest one that is there. */
function openFinder(width: number, height: number): (map: Float32Array) => Int32Array | null {
  const row = new Int32Array(width * height), nearest = new Int32Array(width * height);
  const hull = new Int32Array(width), ends = new Float64Array(width + 1);
  return (map) => {
    let any = false;
    for (let x = 0; x < width; x++) any = alongColumn(map, row, x, width, height) || any;
    if (!any) return null;
    for (let y = 0; y < height; y++) alongRow(row, nearest, y, width, hull, ends);
    return nearest;
  };
}

/** Each point gets the nearest row of its column that is there, or -1. */
function alongColumn(map: Float32Array, row: Int32Array, x: number, width: number, height: number): boolean {
  let last = -1;
  for (let y = 0; y < height; y++) {
    const at = y * width + x;
    if (!Number.isNaN(map[at])) last = y;
    row[at] = last;
  }
  if (last < 0) return false;
  let next = -1;
  for (let y = height - 1; y >= 0; y--) {
    const at = y * width + x;
    if (row[at] === y) next = y;
    else if (next >= 0 && (row[at] < 0 || next - y < y - row[at])) row[at] = next;
  }
  return true;
}

/** The columns whose parabolas of squared distances are lowest somewhere in this row. */
function alongRow(
  row: Int32Array,
  nearest: Int32Array,
  y: number,
  width: number,
  hull: Int32Array,
  ends: Float64Array,
): void {
  const from = y * width, height = (x: number) => (row[from + x] - y) ** 2;
  let count = 0;
  for (let x = 0; x < width; x++) {
    if (row[from + x] < 0) continue;
    let begin = -Infinity;
    while (count > 0) {
      const before = hull[count - 1];
      begin = (height(x) + x * x - height(before) - before * before) / (2 * (x - before));
      if (begin > ends[count - 1]) break;
      count--;
      begin = -Infinity;
    }
    hull[count] = x;
    ends[count++] = begin;
  }
  for (let x = 0, k = 0; x < width; x++) {
    while (k + 1 < count && ends[k + 1] <= x) k++;
    nearest[from + x] = row[from + hull[k]] * width + hull[k];
  }
}
