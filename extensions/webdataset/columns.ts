// Members of a WebDataset become columns: arrays of npy, classes and other numbers, and the values of json.
import { dtypeBytes } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import type { Column } from "../../core/data/arrays/table.ts";
import { openRows } from "../../core/data/arrays/open_rows.ts";
import type { PlacedRows, Rows } from "../../core/data/arrays/rows.ts";
import { partOf, product } from "../../core/data/arrays/numbers.ts";
import { openPool } from "../../core/data/arrays/files.ts";
import { readNpyHeader } from "../../core/data/arrays/npy.ts";
import { checkWhole, type Members, type TarSamples } from "./samples.ts";

export const IMAGE_MEMBER = /(^|\.)(jpe?g|png|webp)$/;
const NUMBER = /(^|\.)(cls\d*|index|inx|id)$/, TEXT = /(^|\.)(txt|text)$/;

/** Arrays come first and classes last: the last column is what is predicted, unless it is named. */
export function memberColumns(samples: TarSamples): Column[] {
  const of = (test: (ending: string) => boolean) => [...samples.members.keys()].filter(test);
  const arrays = of((ending) => /(^|\.)npy$/.test(ending)), json = of((ending) => /(^|\.)json$/.test(ending));
  const images = of((ending) => IMAGE_MEMBER.test(ending)), texts = of((ending) => TEXT.test(ending));
  const numbers = of((ending) => NUMBER.test(ending));
  const known = [...arrays, ...json, ...images, ...texts, ...numbers];
  return [
    ...of((ending) => !known.includes(ending)).map((ending) => strange(samples, ending)),
    ...images.map((ending) => imageColumn(samples, ending)),
    ...arrays.map((ending) => arrayColumn(samples, ending)),
    ...json.flatMap((ending) => jsonColumns(samples, ending)),
    ...texts.map((ending) => valueColumn(samples, ending, (bytes) => decode(bytes).trim(), true)),
    ...numbers.map((ending) => valueColumn(samples, ending, (bytes) => numberOf(decode(bytes).trim()))),
  ];
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** A class may be a number or a name. */
const numberOf = (text: string): number | string =>
  text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;

function unusable(name: string, samples: number, reason: string, onlyByName = false): Column {
  const read = () => {
    throw new Error("internal: something unusable is read");
  };
  return { name, shape: [samples], dtype: "f32", unusable: reason, onlyByName, read };
}

const strange = ({ count }: TarSamples, ending: string): Column =>
  unusable(ending, count, "is of a kind that is not read here: write it as npy, json or cls", true);

const imageColumn = ({ count }: TarSamples, ending: string): Column =>
  unusable(ending, count, "is an image, and goes together with no other features", true);

/** The rows of each shard, one part after the other. */
function partsOf(
  { shards, starts }: TarSamples,
  of: (shard: number, from: number, to: number) => PlacedRows,
): Rows {
  const parts = shards.map((_, shard) => of(shard, starts[shard], starts[shard + 1]));
  return parts.length === 1 ? parts[0] : { layout: "parts", starts, parts };
}

/** All samples have arrays of one type and shape, so their files have one size and begin alike. */
function arrayColumn(samples: TarSamples, ending: string): Column {
  const { count, shards } = samples, members = samples.members.get(ending)!, { at, sizes } = members;
  const [size] = sizes, odd = sizes.findIndex((other) => other !== size && other >= 0);
  const name = ending.replace(/\.?npy$/, "") || ending;
  if (size < 0) return unusable(name, count, `is missing in sample 0 ("${samples.keys[0]}")`);
  if (odd >= 0) {
    return unusable(
      name,
      count,
      `has ${sizes[odd]} bytes in sample ${odd} ("${
        samples.keys[odd]
      }") and ${size} in sample 0: write all in one shape`,
    );
  }
  const start = withMember(samples, members, (read) => read(0, MOST_HEADER));
  const header = readNpyHeader(`${shards[0].path}: ${samples.keys[0]}.${ending}`, start, size);
  const { shape, dtype, fortran, bigEndian } = header, width = dtypeBytes(dtype);
  if (header.unusable) return unusable(name, count, header.unusable);
  const bytes = product(shape) * width;
  if (header.start + bytes !== size) {
    return unusable(name, count, `is damaged: its header takes ${header.start + bytes} bytes`);
  }
  if (fortran && shape.length > 1) {
    return unusable(name, count, "is in Fortran order: write numpy.ascontiguousarray(x)");
  }
  const head = start.slice(0, header.start);
  const rows = () => {
    checkWhole(samples, ending, members);
    return partsOf(samples, (shard, from, to) => ({
      ...{ layout: "placed", file: shards[shard], at: at.subarray(from, to), head, bytes },
      swapped: bigEndian && width > 1,
    }));
  };
  return {
    name,
    shape: [count, ...shape],
    dtype,
    read() {
      const reader = openRows({ name, rows: rows(), raw: dtype }), all = new Uint8Array(count * bytes);
      try {
        for (let row = 0; row < count; row++) reader.read(row, all.subarray(row * bytes, (row + 1) * bytes));
      } finally {
        reader.close();
      }
      return all;
    },
    stream: { rows, raw: dtype, rule: null },
  };
}

const MOST_HEADER = 65_536;

type Value = number | string;

/** The values of one member, read at once when they are wanted. */
function valueColumn(
  samples: TarSamples,
  ending: string,
  valueOf: (bytes: Uint8Array, sample: number) => Value,
  isText = false,
  name = ending,
): Column {
  const { count } = samples, members = samples.members.get(ending)!;
  let values: Value[] | undefined;
  const all = () => {
    if (values) return values;
    checkWhole(samples, ending, members);
    return values = withMember(
      samples,
      members,
      (read) => Array.from({ length: count }, (_, i) => valueOf(read(i), i)),
    );
  };
  const first = withMember(samples, members, (read) => members.sizes[0] < 0 ? "" : valueOf(read(0), 0));
  if (!isText && typeof first === "number") {
    return {
      name,
      shape: [count],
      dtype: "f64",
      whole: Number.isInteger(first),
      read: () =>
        Float64Array.from(
          all(),
          (value, i) => typeof value === "number" ? value : notNumber(samples, name, value, i),
        ),
    };
  }
  const sorted = () => [...new Set(all().map(String))].sort();
  return {
    name,
    shape: [count],
    dtype: "f32",
    onlyByName: isText,
    read() {
      const place = new Map(sorted().map((text, i) => [text, i]));
      return Float32Array.from(all(), (value) => place.get(String(value))!);
    },
    text: { example: JSON.stringify(String(first).slice(0, 60)), classes: sorted },
  };
}

function notNumber({ shards, starts, keys }: TarSamples, name: string, value: Value, sample: number): never {
  throw new UserError(
    "data",
    `${shards[partOf(starts, sample)].path}: "${name}" of sample ${sample} ("${keys[sample]}") is ` +
      `${JSON.stringify(String(value).slice(0, 60))}, and no number as in sample 0.`,
  );
}

/** Each key of the first sample's object that has a number or a text is a column. */
function jsonColumns(samples: TarSamples, ending: string): Column[] {
  const members = samples.members.get(ending)!, { shards, starts, keys, count } = samples;
  if (members.sizes[0] < 0) return [unusable(ending, count, `is missing in sample 0 ("${keys[0]}")`)];
  const objectOf = (bytes: Uint8Array, sample: number): Record<string, unknown> => {
    try {
      const found = JSON.parse(decode(bytes));
      if (typeof found === "object" && found !== null) return found;
    } catch {
      // Both faults get the same sentence.
    }
    throw new UserError(
      "data",
      `${shards[partOf(starts, sample)].path}: the member "${ending}" of sample ${sample} ("${
        keys[sample]
      }") is no JSON ` +
        "with named values. Repair it, or leave the sample out of the shards.",
    );
  };
  const first = withMember(samples, members, (read) => objectOf(read(0), 0));
  return Object.entries(first).slice(0, MOST_KEYS).flatMap(([key, value]) => {
    if (!["number", "string", "boolean"].includes(typeof value)) return [];
    const valueOf = (bytes: Uint8Array, sample: number): Value => {
      const own = objectOf(bytes, sample)[key];
      if (typeof own === "string") return own;
      return typeof own === "boolean" ? Number(own) : typeof own === "number" ? own : NaN;
    };
    return [valueColumn(samples, ending, valueOf, typeof value === "string", `${ending}.${key}`)];
  });
}

const MOST_KEYS = 1000;
/** Values are texts of a few bytes; json has some kilobytes. */
const MOST_BYTES = 16 * 2 ** 20;

/** `read` gives a sample's member, or its beginning; shards are opened as they are needed. */
function withMember<R>(
  { shards, starts }: TarSamples,
  { at, sizes }: Members,
  use: (read: (sample: number, most?: number) => Uint8Array) => R,
): R {
  const pool = openPool();
  try {
    return use((sample, most = MOST_BYTES) => {
      const bytes = new Uint8Array(Math.max(0, Math.min(sizes[sample], most)));
      pool.passing(shards[partOf(starts, sample)]).read(bytes, at[sample]);
      return bytes;
    });
  } finally {
    pool.close();
  }
}
