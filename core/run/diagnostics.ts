// An evaluation knows more than its metrics: where errors are, which classes are taken for which, and what the
// model makes of some samples. It is a file of the run's folder, which the report shows.
import { join } from "../../deps/path.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";

export interface Diagnostics {
  readonly version: 1;
  readonly step: number;
  readonly epoch: number;
  readonly samples: number;
  readonly task: "regression" | "classification" | "segmentation" | "language";
  /** The names of the outputs or classes. */
  readonly names: readonly string[];
  /** The name of each output's target, and its steps ahead; absent for classes. */
  readonly outputs: readonly DiagnosedOutput[];
  /** NaN is null. */
  readonly metrics: Readonly<Record<string, number | null>>;
  /** Errors by place, where targets are maps. */
  readonly errors: PlacedErrors | null;
  /** How often each class (the outer one) was taken for each class. */
  readonly confusion: readonly (readonly number[])[] | null;
  readonly axes: { readonly x: DiagnosedAxis; readonly y: DiagnosedAxis } | null;
  readonly shown: readonly ShownSample[];
  /** Samples whose target is a class or a few numbers. Older versions have none. */
  readonly examples?: readonly Example[];
  /** Language models alone have them. */
  readonly texts?: readonly TextExample[];
}

export interface Example {
  readonly name: string;
  /** The input as the base64 of a PNG, where it is a picture; few samples have it. */
  readonly image: string | null;
  /** A class, or numbers in their own units. */
  readonly target: readonly number[];
  readonly prediction: readonly number[];
  /** The model's own probability of its class. */
  readonly probability: number | null;
}

/** A window of tokens: what is there, the first guess at each place, and how probable the token was. */
export interface TextExample {
  readonly tokens: readonly number[];
  readonly guesses: readonly number[];
  readonly probabilities: readonly number[];
  /** The text of each token here, where the tokenizer is known. */
  readonly words?: Readonly<Record<string, string>>;
}

export interface DiagnosedOutput {
  readonly target: string;
  readonly lead: number | null;
  readonly units: string;
}

export interface DiagnosedAxis {
  readonly name: string;
  readonly units: string;
  readonly values: readonly number[] | null;
}

/** In the targets' own units, output by output; null where no point counts. */
export interface PlacedErrors {
  /** Along the rows of the map, or along latitude where each point has its own. */
  readonly along: DiagnosedAxis;
  readonly outputs: readonly { readonly rmse: Numbers; readonly bias: Numbers }[];
  /** Maps of the error, where they are small enough. */
  readonly rmse: readonly PackedMap[];
}

type Numbers = readonly (number | null)[];

export interface ShownSample {
  /** Its time or number. */
  readonly name: string;
  /** An image, as the PNG's base64; or maps. */
  readonly image: string | null;
  readonly inputs: readonly { readonly name: string; readonly map: PackedMap }[];
  /** Those of the outputs with these numbers. */
  readonly outputs: readonly {
    readonly output: number;
    readonly target: PackedMap;
    readonly prediction: PackedMap;
  }[];
}

/** Two bytes a point: 65535 is missing, and others go from the least to the most. */
interface PackedMap {
  readonly width: number;
  readonly height: number;
  readonly least: number;
  readonly most: number;
  readonly data: string;
}

interface UnpackedMap {
  readonly width: number;
  readonly height: number;
  readonly values: Float64Array;
}

const MISSING = 65_535;

export function packMap({ width, height, values }: UnpackedMap): PackedMap {
  let least = Infinity, most = -Infinity;
  for (const value of values) {
    if (value - value !== 0) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (least > most) least = most = 0;
  const scale = most > least ? (MISSING - 1) / (most - least) : 0;
  const bytes = new DataView(new ArrayBuffer(2 * values.length));
  values.forEach((value, i) => {
    const at = value - value === 0 ? Math.round((value - least) * scale) : MISSING;
    bytes.setUint16(2 * i, at, true);
  });
  return { width, height, least, most, data: new Uint8Array(bytes.buffer).toBase64() };
}

export function unpackMap({ width, height, least, most, data }: PackedMap): UnpackedMap {
  const bytes = Uint8Array.fromBase64(data), view = new DataView(bytes.buffer);
  if (bytes.length !== 2 * width * height) {
    throw new Error("internal: a map of diagnostics has another size.");
  }
  const values = Float64Array.from({ length: width * height }, (_, i) => {
    const at = view.getUint16(2 * i, true);
    return at === MISSING ? NaN : least + at * (most - least) / (MISSING - 1);
  });
  return { width, height, values };
}

const NAME = "diagnostics.json";

export function writeDiagnostics(folder: string, found: Diagnostics): void {
  const text = new TextEncoder().encode(JSON.stringify(found));
  writeAtomically(join(folder, NAME), (file) => writeAll(file, text), { sync: false });
}

/** Null where a run has none, or they are damaged, or another version wrote them. */
export function readDiagnostics(folder: string): Diagnostics | null {
  try {
    const found: unknown = JSON.parse(Deno.readTextFileSync(join(folder, NAME)));
    return areDiagnostics(found) && fitTogether(found) ? found : null;
  } catch {
    return null;
  }
}

// A file that somebody or a full disk has hurt may be JSON still, so the type of each field is looked at.

type Check = (value: unknown) => boolean;

const isNumber: Check = (value) => typeof value === "number";
const isCount: Check = (value) => Number.isInteger(value) && (value as number) >= 0;
const isText: Check = (value) => typeof value === "string";
const orNull = (check: Check): Check => (value) => value === null || check(value);
const optional = (check: Check): Check => (value) => value === undefined || check(value);
const listOf = (check: Check): Check => (value) => Array.isArray(value) && value.every(check);
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const recordOf = (check: Check): Check => (value) => isRecord(value) && Object.values(value).every(check);
const withFields = (fields: Readonly<Record<string, Check>>): Check => {
  const all = Object.entries(fields);
  return (value) => isRecord(value) && all.every(([name, check]) => check(value[name]));
};

const isNumbers = listOf(orNull(isNumber));
const isAxis = withFields({ name: isText, units: isText, values: orNull(isNumbers) });
const isMap: Check = (value) =>
  withFields({ width: isCount, height: isCount, least: isNumber, most: isNumber, data: isText })(value) &&
  Uint8Array.fromBase64((value as PackedMap).data).length ===
    2 * (value as PackedMap).width * (value as PackedMap).height;

const hasFields = withFields({
  version: (value) => value === 1,
  step: isCount,
  epoch: isCount,
  samples: isCount,
  task: (value) => ["regression", "classification", "segmentation", "language"].includes(value as string),
  names: listOf(isText),
  outputs: listOf(withFields({ target: isText, lead: orNull(isNumber), units: isText })),
  metrics: recordOf(orNull(isNumber)),
  errors: orNull(withFields({
    along: isAxis,
    outputs: listOf(withFields({ rmse: isNumbers, bias: isNumbers })),
    rmse: listOf(isMap),
  })),
  confusion: orNull(listOf(listOf(isNumber))),
  axes: orNull(withFields({ x: isAxis, y: isAxis })),
  shown: listOf(withFields({
    name: isText,
    image: orNull(isText),
    inputs: listOf(withFields({ name: isText, map: isMap })),
    outputs: listOf(withFields({ output: isCount, target: isMap, prediction: isMap })),
  })),
  examples: optional(listOf(withFields({
    name: isText,
    image: orNull(isText),
    target: isNumbers,
    prediction: isNumbers,
    probability: orNull(isNumber),
  }))),
  texts: optional(listOf(withFields({
    tokens: listOf(isCount),
    guesses: listOf(isCount),
    probabilities: isNumbers,
    words: optional(recordOf(isText)),
  }))),
});

const areDiagnostics = (value: unknown): value is Diagnostics => hasFields(value);

/** Numbers that stand for places are places in the other lists. */
function fitTogether({ outputs, errors, confusion, shown }: Diagnostics): boolean {
  const classes = confusion?.length ?? 0;
  return (errors === null || errors.outputs.length === outputs.length) &&
    (confusion === null || confusion.every((row) => row.length === classes)) &&
    shown.every((sample) =>
      outputs.length === 0 || sample.outputs.every(({ output }) => output < outputs.length)
    );
}
