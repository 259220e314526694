// For a comparison: ops that drop numbers at random drop none, and scale what they keep as always. Steps that draw their
// zeros in different ways are the same then.
import { constant, fill_ } from "./make.ts";
import { mul } from "./ops.ts";
import { dropping, type Instead, tape, unrecorded } from "./tape.ts";
import type { Schema } from "./schema.ts";
import type { Tensor } from "./tensor.ts";

/** The op's arguments, all of them. */
function filled({ args }: Schema, given: readonly unknown[]): unknown[] {
  return args.map(({ fallback }, i) =>
    i < given.length ? given[i] : fallback === "False" ? false : fallback === undefined ? undefined : null
  );
}

const scaled = (t: Tensor, share: number): Tensor => mul(t, constant(1 / (1 - share), "f32", t.device));

const recorded = (schema: Schema, given: readonly unknown[], make: () => Tensor): Tensor => {
  const made = unrecorded(make);
  tape.recorder?.op(schema, given, made);
  return made;
};

const INSTEAD: ReadonlyMap<string, Instead> = new Map<string, Instead>([
  ["dropout", (schema, run, given) => {
    const [x, share, train] = given as [Tensor, number, boolean];
    return train && share > 0 && share < 1 ? recorded(schema, given, () => scaled(x, share)) : run(...given);
  }],
  ["scaled_dot_product_attention", (schema, run, given) => {
    const all = filled(schema, given), share = (all[4] ?? 0) as number;
    if (share === 0 || share === 1) return run(...given);
    return recorded(schema, all, () => scaled(run(...all.with(4, 0)) as Tensor, share));
  }],
  ["bernoulli_", (schema, run, given) => {
    const [t, kept] = given as [Tensor, unknown];
    if (typeof kept !== "number") return run(...given);
    return recorded(schema, [t, kept, null], () => fill_(t, 1));
  }],
]);

export function withoutDropping<R>(body: () => R): R {
  const before = dropping.instead;
  dropping.instead = INSTEAD;
  try {
    return body();
  } finally {
    dropping.instead = before;
  }
}
