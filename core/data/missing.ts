// What stands for a missing value, and what is done to the others: fills, valid ranges, scale and offset. Imports nothing.

export type Values = ArrayLike<number> | ArrayLike<bigint>;

export interface Rule {
  readonly missing: readonly number[];
  readonly min: number;
  readonly max: number;
  readonly scale: number;
  readonly offset: number;
}

/** NaN for missing values, of which `marks` gets a 1 each; the others scaled. `from` may be `to`. How many are missing. */
export function applyRule(
  rule: Rule,
  from: Values,
  to: Float32Array | Float64Array,
  marks?: Uint8Array,
): number {
  if (from === to && !marks && to instanceof Float32Array && isOneFill(rule)) {
    return eraseFill(to, rule.missing[0]);
  }
  const wide = from instanceof BigInt64Array || from instanceof BigUint64Array;
  return applyTo(rule, wide ? Float64Array.from(from, Number) : from as ArrayLike<number>, to, marks);
}

function applyTo(
  { missing, min, max, scale, offset }: Rule,
  from: ArrayLike<number>,
  to: Float32Array | Float64Array,
  marks?: Uint8Array,
): number {
  const [first, ...others] = missing;
  const several = others.length > 0, unordered = missing.includes(NaN);
  let count = 0;
  for (let i = 0; i < to.length; i++) {
    const value = from[i];
    const absent = value === first || value < min || value > max || (several && others.includes(value)) ||
      (unordered && value !== value);
    to[i] = absent ? NaN : value * scale + offset;
    if (!absent) continue;
    count++;
    if (marks) marks[i] = 1;
  }
  return count;
}

/** What most variables of NetCDF have: a value that nothing else has, and all others are what they are. */
const isOneFill = ({ missing: [fill, ...others], min, max, scale, offset }: Rule): boolean =>
  fill === fill && fill !== 0 && others.length === 0 && min === -Infinity && max === Infinity &&
  scale === 1 &&
  offset === 0;

/** The same for it in a tenth of the time: equal floats are equal bits. */
function eraseFill(values: Float32Array, fill: number): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const [sought] = new Uint32Array(Float32Array.of(fill).buffer);
  let count = 0;
  for (let at = bits.indexOf(sought); at >= 0; at = bits.indexOf(sought, at + 1)) {
    values[at] = NaN;
    count++;
  }
  return count;
}
