// Norms of any order and spreads with any correction. May import dtype, make, ops, tensor, scalar_numbers.
import type { DType } from "./dtype.ts";
import { constant, scale, sub } from "./make.ts";
import * as ops from "./ops.ts";
import { type Call, type Num, other, raw } from "./scalar_numbers.ts";
import { scope, type Tensor } from "./tensor.ts";

type Dims = readonly number[] | null | undefined;

/** How many numbers one result is made of. */
const countIn = ({ shape }: Tensor, dims: Dims): number =>
  dims && dims.length > 0
    ? dims.reduce((product, dim) => product * shape.at(dim)!, 1)
    : shape.reduce((product, side) => product * side, 1);

/** Corrections of 0 and 1 are libtorch's own; for another the variance over n is stretched: the same but for rounding. */
const spread = (name: "var" | "std" | "var_mean" | "std_mean"): Call => {
  const result = name.includes("_mean") ? "(Tensor, Tensor)" : "Tensor";
  const text = `${name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> ${result}`;
  return (x: Tensor, dim?: Dims, n?: Num | null, keep = false) => {
    const correction = raw(n, 1);
    const own = other(text)(x, dim ?? null, correction === 1, keep);
    if (correction === 0 || correction === 1) return own;
    const count = countIn(x, dim), factor = count / Math.max(count - correction, 0);
    const stretch = (t: Tensor) => scale(t, name.startsWith("std") ? Math.sqrt(factor) : factor);
    return Array.isArray(own) ? [stretch(own[0]), own[1]] : stretch(own as Tensor);
  };
};

/** The order goes in as None, which stands for 2. */
const NORM =
  "linalg_norm(Tensor self, int? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
/** A distance takes its order as a plain float, and that from zero is the norm. It goes along the last dimension. */
const DISTANCE =
  "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor";

function vectorNorm(
  x: Tensor,
  ord?: Num | null,
  dim?: Dims,
  keep = false,
  dtype: DType | null = null,
): unknown {
  const of = raw(ord, 2);
  if (of === 2 && (!dim || dim.length === 1 || dim.length === 2)) {
    return other(NORM)(x, null, dim ?? null, keep, dtype);
  }
  return scope(() => {
    const typed = dtype ? ops.toDtype(x, dtype) : x;
    const size = x.shape, rank = size.length;
    const over = dim && dim.length > 0 ? dim.map((at) => at < 0 ? at + rank : at) : size.map((_, i) => i);
    const rest = size.map((_, i) => i).filter((i) => !over.includes(i));
    const last = ops.reshape(ops.permute(typed, [...rest, ...over]), [...rest.map((i) => size[i]), -1]);
    const norm = other(DISTANCE)(last, constant(0, last.dtype, last.device), of, 0, false) as Tensor;
    return keep ? ops.reshape(norm, size.map((side, i) => over.includes(i) ? 1 : side)) : norm;
  });
}

/** A norm of matrices, as libtorch makes it: of its singular values, or of the norms of its columns or rows. */
function matrixNorm(
  x: Tensor,
  ord: Num,
  dim: readonly number[] = [-2, -1],
  keep = false,
  dtype: DType | null = null,
): unknown {
  return scope(() => {
    const typed = dtype ? ops.toDtype(x, dtype) : x, rank = x.shape.length;
    const [rows, columns] = dim.map((at) => at < 0 ? at + rank : at);
    const most = ord.value > 0 ? ops.amax : ops.amin;
    if (Math.abs(ord.value) === 2) {
      const rest = typed.shape.map((_, i) => i).filter((i) => i !== rows && i !== columns);
      const values = other("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor")(
        ops.permute(typed, [...rest, rows, columns]),
        null,
      ) as Tensor;
      const norm = most(values, [-1], false);
      return keep ? ops.reshape(norm, typed.shape.map((n, i) => i === rows || i === columns ? 1 : n)) : norm;
    }
    const [first, second] = Math.abs(ord.value) === Infinity ? [columns, rows] : [rows, columns];
    const sums = vectorNorm(typed, { ...ord, value: 1 } as Num, [first], keep) as Tensor;
    return most(sums, [!keep && second > first ? second - 1 : second], keep);
  });
}

function linalgNorm(
  x: Tensor,
  ord?: Num | null,
  dim?: Dims,
  keep = false,
  dtype: DType | null = null,
): unknown {
  if (!ord) return other(NORM)(x, null, dim ?? null, keep, dtype);
  const over = dim ?? x.shape.map((_, i) => i);
  return over.length === 1 ? vectorNorm(x, ord, over, keep, dtype) : matrixNorm(x, ord, over, keep, dtype);
}

/** By libtorch's names, as in scalar_ops. */
export const normsAndSpreads: Readonly<Record<string, Call>> = {
  "var.correction": spread("var"),
  "std.correction": spread("std"),
  "var_mean.correction": spread("var_mean"),
  "std_mean.correction": spread("std_mean"),
  linalg_vector_norm: vectorNorm,
  linalg_matrix_norm: matrixNorm,
  linalg_norm: linalgNorm,
  "norm.Scalar": (x: Tensor, p?: Num) => vectorNorm(x, p),
  "norm.ScalarOpt_dtype": (x: Tensor, p: Num | null, dtype: DType) => vectorNorm(x, p, null, false, dtype),
  "norm.ScalarOpt_dim": (x: Tensor, p: Num | null, dim: Dims, keep?: boolean) => vectorNorm(x, p, dim, keep),
  "norm.ScalarOpt_dim_dtype": (x: Tensor, p: Num | null, dim: Dims, keep: boolean, dtype: DType) =>
    vectorNorm(x, p, dim, keep, dtype),
  dist: (a: Tensor, b: Tensor, p?: Num) => scope(() => vectorNorm(sub(a, b), p)),
};
