// A row as it is stored in a file -> as it is stored in a batch: other types, missing values, channels first.
// May import missing, reading, ffi's data types.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { applyRule, type Values } from "../missing.ts";
import { BadSample, type Numbers } from "../reading/reader.ts";
import { view } from "../variables.ts";
import type { Part } from "./rows.ts";

/** Writes the part of a sample that a row is; `read` brings the row itself. */
export type Convert = (read: (into: Uint8Array) => void, into: Uint8Array) => void;

/** `stored` is the batch's type: the row's own, or one that holds its numbers. */
export function openConvert(part: Part, stored: DType): Convert {
  const { raw, rule, count, channelsLast } = part;
  const inPlace = raw === stored;
  const bytes = new Uint8Array(inPlace ? 0 : count * dtypeBytes(raw));
  const values = inPlace ? null : view(bytes, raw);
  const scratch = channelsLast ? new Uint8Array(count * dtypeBytes(stored)) : null;
  const toStored = openCast(raw, stored);
  return (read, into) => {
    const to = scratch ?? into;
    read(inPlace ? to : bytes);
    if (rule) {
      const numbers = view(to, stored) as Float32Array;
      const missing = applyRule(rule, values ?? numbers, numbers);
      if (missing > 0) {
        const what = count === 1
          ? `no value of "${part.name}"`
          : `${missing} missing values of "${part.name}"`;
        throw new BadSample(part.rows.file.path, `has ${what}`);
      }
    } else if (!inPlace) toStored(values!, view(to, stored) as Numbers);
    if (scratch) {
      channelsFirst(view(scratch, stored) as Numbers, view(into, stored) as Numbers, channelsLast!);
    }
  };
}

type Cast = (from: Values, to: Numbers) => void;

/** As libtorch casts. */
function openCast(raw: DType, stored: DType): Cast {
  if (stored === "i64") return (from, to) => each(from, to as BigInt64Array, (value) => BigInt(value));
  if (raw === "i64" || raw === "u64") {
    return (from, to) => each(from, to as Float32Array, (value) => nearestFloat(BigInt(value)));
  }
  return (from, to) => (to as Float32Array).set(from as ArrayLike<number>);
}

function each<T>(from: Values, to: { [i: number]: T }, cast: (value: number | bigint) => T): void {
  for (let i = 0; i < from.length; i++) to[i] = cast(from[i]);
}

/** Rounded once: by way of a double it would be rounded twice, unless what is cut off leaves its mark on the last bit. */
function nearestFloat(value: bigint): number {
  if (value >= -(2n ** 53n) && value <= 2n ** 53n) return Number(value);
  return Number(value >> 11n | (value & 2047n ? 1n : 0n)) * 2048;
}

function channelsFirst(from: Numbers, to: Numbers, [height, width, channels]: readonly number[]): void {
  const pixels = height * width;
  for (let c = 0; c < channels; c++) {
    for (let i = 0, source = c; i < pixels; i++, source += channels) to[c * pixels + i] = from[source];
  }
}
