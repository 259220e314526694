// Samples for a model whose weights are f64: what the data has as f64 came so far as it is, and all else is brought there
// before it is scaled.
import { isFloating } from "../../../ffi/dtype.ts";
import { toDtype } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Field } from "../source/reader.ts";
import { finishThen, type Source } from "../source/source.ts";

export function asDoubles(source: Source): Source {
  if (isWide(source.input) && isWide(source.target)) return source;
  const wide = (t: Tensor) => isWide(t) ? t : toDtype(t, "f64");
  const made = finishThen(
    source,
    ({ input, target }) => ({ input: wide(input), target: wide(target) }),
    true,
  );
  const field = (of: Field): Field => isWide(of) ? of : { ...of, dtype: "f64" };
  const { facts } = source, input = { ...facts.input, dtype: field(source.input).dtype };
  return {
    ...made,
    ...{ input: field(source.input), target: field(source.target), facts: { ...facts, input } },
    host: made.host && asDoubles(made.host),
  };
}

/** Whole numbers name classes and tokens. */
const isWide = ({ dtype }: Pick<Field, "dtype">): boolean => dtype === "f64" || !isFloating(dtype);
