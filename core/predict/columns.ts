// Predictions as columns with names: what every kind of file is written from. May import predict (types).
import type { Predictions } from "./predict.ts";

export interface Column {
  readonly name: string;
  readonly dtype: "i32" | "f32";
  /** Samples first. */
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;
  /** What the numbers of a sample are called, or those that stand for classes. */
  readonly names?: readonly string[];
}

export interface Part {
  /** "train" or "val". */
  readonly role: string;
  readonly predictions: Predictions;
}

export interface Order {
  /** Samples in the data's order: all parts are of one table. Else one part stands after the other. */
  readonly oneTable: boolean;
  /** Whether a column tells which part a sample is of. */
  readonly split: boolean;
}

/** `names`: of the classes, or of a target's numbers. */
export function columnsOf(
  parts: readonly Part[],
  { oneTable, split }: Order,
  names: readonly string[],
): Column[] {
  const all = joined(parts.map(({ predictions }) => predictions));
  const count = all.ids.length;
  const order = oneTable
    ? Int32Array.from({ length: count }, (_, i) => i).sort((a, b) => all.ids[a] - all.ids[b])
    : null;
  const column = (
    name: string,
    shape: readonly number[],
    values: Int32Array | Float32Array,
    more = {},
  ): Column => ({
    name,
    dtype: values instanceof Int32Array ? "i32" : "f32",
    shape: [count, ...shape],
    values: order ? ordered(values, order, shape.reduce((product, size) => product * size, 1)) : values,
    ...more,
  });
  const role = parts.flatMap(({ role, predictions }) =>
    new Array(predictions.ids.length).fill(role === "train" ? 0 : 1)
  );
  const ofClasses = all.classes ? { names } : {};
  return [
    column("id", [], all.ids),
    ...(split && parts.length > 1
      ? [column("split", [], Int32Array.from(role), { names: ["train", "val"] })]
      : []),
    column("prediction", all.shape, all.outputs, all.classes ? {} : { names }),
    ...(all.classes
      ? [
        column("label", [], all.classes.label, ofClasses),
        column("probability", [], all.classes.probability),
      ]
      : []),
    column("target", all.targets.shape, all.targets.values, all.classes ? {} : { names }),
  ];
}

function joined(parts: readonly Predictions[]): Predictions {
  if (parts.length === 1) return parts[0];
  const floats = (of: (p: Predictions) => Float32Array) => {
    const whole = new Float32Array(parts.reduce((sum, p) => sum + of(p).length, 0));
    parts.reduce((at, p) => (whole.set(of(p), at), at + of(p).length), 0);
    return whole;
  };
  const ints = (of: (p: Predictions) => Int32Array) => Int32Array.from(parts.flatMap((p) => [...of(p)]));
  return {
    ids: ints(({ ids }) => ids),
    shape: parts[0].shape,
    outputs: floats(({ outputs }) => outputs),
    classes: parts[0].classes &&
      { label: ints((p) => p.classes!.label), probability: floats((p) => p.classes!.probability) },
    targets: { shape: parts[0].targets.shape, values: floats(({ targets }) => targets.values) },
  };
}

function ordered<A extends Int32Array | Float32Array>(values: A, order: Int32Array, each: number): A {
  const made = values.slice() as A;
  order.forEach((from, to) =>
    made.set(values.subarray(from * each, (from + 1) * each) as Float32Array, to * each)
  );
  return made;
}
