// A sample's input is a row of each of some columns, converted to the batch's type and joined.
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { noteReader, type Reader, type ReaderModule, type ReaderSpec } from "../source/reader.ts";
import { UserError } from "../../base/errors.ts";
import { loadRows, openAll, openRows } from "../arrays/open_rows.ts";
import {
  applyRule,
  type DecodingRule,
  finiteWords,
  hasFillsAlone,
  type SampleNumbers,
  typedView,
  type VariableValues,
  WHOLE_FLOATS,
} from "../arrays/numbers.ts";
import {
  BadSample,
  type ColumnPart,
  type ReadsRows,
  type RowReader,
  type Rows,
  rulesOf,
} from "../arrays/rows.ts";

/** `read` brings the row; the function writes its part of the sample. */
type Convert = (read: (into: Uint8Array) => void, into: Uint8Array) => void;

/** `keep` leaves missing values as NaN; messages name the file by `where`. */
interface Conversion {
  readonly part: ColumnPart;
  /** The batch's type: the row's own, or one that holds its numbers. */
  readonly stored: DType;
  readonly keep: boolean;
  where(): string;
}

function openConvert({ part, stored, keep, where }: Conversion, ofFile: DecodingRule | null): Convert {
  const { raw, count, channelsLast } = part;
  const inPlace = raw === stored;
  // Nobody asks how many values are missing where they stay.
  const rule = ofFile && keep && inPlace && isFloating(stored) && leavesFloats(ofFile) ? null : ofFile;
  const bytes = new Uint8Array(inPlace ? 0 : count * dtypeBytes(raw));
  const values = inPlace ? null : typedView(bytes, raw);
  const scratch = channelsLast ? new Uint8Array(count * dtypeBytes(stored)) : null;
  const toStored = openCast(raw, stored);
  return (read, into) => {
    const to = scratch ?? into;
    read(inPlace ? to : bytes);
    if (rule) {
      const numbers = typedView(to, stored) as Float32Array;
      const missing = applyRule(rule, values ?? numbers, numbers);
      if (missing > 0 && !keep) {
        const what = count === 1
          ? `no value of "${part.name}"`
          : `${missing} missing values of "${part.name}"`;
        throw new BadSample(where(), `has ${what}`);
      }
    } else {
      if (part.exact) refuseRounded(values ?? typedView(to, raw), part, where);
      if (values) toStored(values, batchView(to, stored));
    }
    if (scratch && channelsLast) {
      channelsFirst(batchView(scratch, stored), batchView(into, stored), channelsLast);
    }
  };
}

/** An index that is rounded names another thing. */
function refuseRounded(values: VariableValues, { name }: ColumnPart, where: () => string): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value <= WHOLE_FLOATS && value >= -WHOLE_FLOATS) continue;
    if (BigInt(Math.fround(Number(value))) === BigInt(value)) continue;
    throw new UserError(
      "data",
      `${where()}: "${name}" has ${value}, which the floats of a batch round: number what it stands for from 0 on ` +
        "(numpy.unique(x, return_inverse=True)[1]), or store a quantity as float32.",
    );
  }
}

/** Missing values are NaN already, and all others are as they are meant. */
const leavesFloats = (rule: DecodingRule): boolean => hasFillsAlone(rule) && rule.missing.every(Number.isNaN);

/** Each file of one column may be packed in its own way. The result gives the conversion of a row. */
function openConverts(
  part: ColumnPart,
  stored: DType,
  keep: boolean,
  partOf: ReadsRows["partOf"],
): (row: number) => Convert {
  let now = 0;
  const where = () => pathOfRows(part.rows, now);
  const rules = rulesOf(part.rows) ?? [part.rule];
  const known = new Map<string, Convert>();
  const converts = rules.map((rule) => {
    const key = rule ? [...rule.missing, rule.min, rule.max, rule.scale, rule.offset].join() : "";
    const convert = known.get(key) ?? openConvert({ part, stored, keep, where }, rule);
    known.set(key, convert);
    return convert;
  });
  if (!partOf) return () => converts[0];
  return (row) => {
    now = partOf(row);
    return converts[rules.length === 1 ? 0 : now];
  };
}

/** Messages name the file of a part. */
function pathOfRows(rows: Rows, part = 0): string {
  switch (rows.layout) {
    case "parts":
      return pathOfRows(rows.parts[part]);
    case "picked":
      return pathOfRows(rows.rows, part);
    case "held":
      return rows.path;
  }
  return rows.file.path;
}

const batchView = (bytes: Uint8Array, stored: DType): SampleNumbers =>
  typedView(bytes, stored) as SampleNumbers;

type Cast = (from: VariableValues, to: SampleNumbers) => void;

function openCast(raw: DType, stored: DType): Cast {
  if (stored === "i64") return (from, to) => each(from, to as BigInt64Array, (value) => BigInt(value));
  if (raw === "i64" || raw === "u64") {
    const nearest = stored === "f64" ? Number : nearestFloat;
    return (from, to) => each(from, to as Float32Array, (value) => nearest(BigInt(value)));
  }
  return (from, to) => (to as Float32Array).set(from as ArrayLike<number>);
}

function each<T>(from: VariableValues, to: { [i: number]: T }, cast: (value: number | bigint) => T): void {
  for (let i = 0; i < from.length; i++) to[i] = cast(from[i]);
}

/** A double on the way would round twice, unless the cut bits mark the last bit. */
function nearestFloat(value: bigint): number {
  if (value >= -(2n ** 53n) && value <= 2n ** 53n) return Number(value);
  return Number(value >> 11n | (value & 2047n ? 1n : 0n)) * 2048;
}

function channelsFirst(
  from: SampleNumbers,
  to: SampleNumbers,
  [height, width, channels]: readonly number[],
): void {
  const pixels = height * width;
  for (let c = 0; c < channels; c++) {
    for (let i = 0, source = c; i < pixels; i++, source += channels) to[c * pixels + i] = from[source];
  }
}

export interface ArraysSpec extends ReaderSpec {
  readonly path: string;
  readonly parts: readonly ColumnPart[];
  /** It is the type of a sample's input in a batch. */
  readonly stored: DType;
  readonly shape: readonly number[];
  /** Missing values stay, as NaN. */
  readonly missing?: boolean;
  /** Shared memory, or a tensor's that stays, holds the targets of all rows; `targetBytes` is one of them. */
  readonly targets: Uint8Array | MemoryBlock;
  readonly targetBytes: number;
  readonly deferred?: Deferred;
  /** A sample takes the rows at these distances from its own, one after the other. */
  readonly windows?: { readonly inputs: readonly number[]; readonly targets: readonly number[] };
}

const OWN_ROW = [0];

const memoryOf = ({ targets }: ArraysSpec): Uint8Array =>
  targets instanceof Uint8Array ? targets : bytesAt(targets);

/** All of them; those that no sample needed before are read now. */
export function targetsIn(spec: ArraysSpec): Uint8Array {
  const targets = memoryOf(spec), { deferred } = spec;
  if (!deferred || !deferred.present.includes(0)) return targets;
  const reader = openRows(deferred.column), bring = openDeferred(deferred, reader, targets);
  try {
    for (let row = 0; row < deferred.present.length; row++) bring(row * deferred.bytes);
  } catch (error) {
    throw error instanceof BadSample ? new UserError("data", `${error.path} ${error.reason}.`) : error;
  } finally {
    reader.close();
  }
  return targets;
}

export function open(spec: ArraysSpec): Reader {
  const { path, parts, stored, shape, targetBytes, windows, missing = false } = spec;
  const targets = memoryOf(spec), { deferred } = spec;
  const inputsAt = windows?.inputs ?? OWN_ROW, targetsAt = windows?.targets ?? OWN_ROW;
  const rows = openAll(deferred ? [...parts, deferred.column] : parts);
  const bring = deferred && openDeferred(deferred, rows.readers[parts.length], targets);
  let at = 0;
  const joined = parts.map((part, i) => {
    const convertOf = openConverts(part, stored, missing, rows.readers[i].partOf);
    const from = at, to = at += part.count * dtypeBytes(stored);
    let row = 0;
    const read = (into: Uint8Array) => rows.readers[i].read(row, into);
    return (index: number, input: Uint8Array) => {
      row = index;
      convertOf(index)(read, parts.length === 1 ? input : input.subarray(from, to));
    };
  });
  const readInto = (index: number, input: Uint8Array, target: Uint8Array) => {
    for (let i = 0; i < inputsAt.length; i++) {
      const own = inputsAt.length === 1 ? input : input.subarray(i * at, (i + 1) * at);
      for (const part of joined) part(index + inputsAt[i], own);
    }
    for (let i = 0; i < targetsAt.length; i++) {
      const row = index + targetsAt[i];
      bring?.(row * targetBytes);
      target.set(targets.subarray(row * targetBytes, (row + 1) * targetBytes), i * targetBytes);
    }
  };
  const scratch = new Uint8Array(at * inputsAt.length);
  const whole = { data: batchView(scratch, stored), shape };
  return {
    readInto,
    read(index, target) {
      readInto(index, scratch, target);
      return whole;
    },
    groupOf: rows.readers.find(({ groupOf }) => groupOf)?.groupOf,
    close: rows.close,
    path,
  };
}

const reader: ReaderModule<ArraysSpec> = {
  load: ({ parts, deferred }) =>
    loadRows([...parts, ...(deferred ? [deferred.column] : [])].map(({ rows }) => rows)),
  open,
};

export default reader;

/** This thread knows the reader already. */
export const arraysReader = noteReader(import.meta.url, reader);

/** Plain data for a thread. */
export interface Deferred {
  readonly column: Pick<ColumnPart, "name" | "rows" | "raw">;
  /** Bytes of a row. */
  readonly bytes: number;
  /** 1 marks a row that is there; shared memory. */
  readonly present: Uint8Array;
}

/** The result brings the row that has this byte of the targets. */
function openDeferred(
  { column, bytes, present }: Deferred,
  reader: Pick<RowReader, "read" | "partOf">,
  targets: Uint8Array,
): (at: number) => void {
  // Others may read the same row at the same time, so it is written in one go, and with the same bytes.
  const own = new Uint8Array(bytes);
  return (at) => {
    const row = Math.floor(at / bytes);
    if (Atomics.load(present, row) === 1) return;
    reader.read(row, own);
    if (!finiteWords(own)) {
      throw new UserError(
        "data",
        `${
          pathOfRows(column.rows, reader.partOf?.(row))
        }: "${column.name}" had each of its numbers when it was read before, ` +
          "and lacks some now: is something else writing the file? Start again when it is whole.",
      );
    }
    targets.set(own, row * bytes);
    Atomics.store(present, row, 1);
  };
}
