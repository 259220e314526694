// Products as libtorch asks its BLAS for them (addmm and mm in LinearAlgebra.cpp), so that they have its bits: the order
// of operands depends on strides and on sizes of 1.
import type { Graph, Node, Ref } from "./graph.ts";
import type { BlasKernel, StridedAccess } from "./kernel.ts";
import { isView } from "./access.ts";

export interface Blas {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Strides of [m, k] and [k, n]. */
  readonly a: StridedAccess;
  readonly b: StridedAccess;
  readonly slot: number;
  readonly beta: 0 | 1;
}

/** libtorch copies such a matrix first: neither its rows nor its columns lie side by side, or they are repeated. */
export function hasGaps(access: StridedAccess, rows: number, columns: number, transposed: boolean): boolean {
  const [down, right] = stridesOf(access, rows, columns, transposed);
  return !(right === 1 && down >= columns) && !(down === 1 && right >= rows);
}

interface Matrix {
  readonly access: StridedAccess;
  readonly strides: readonly [number, number];
}

/** libtorch's strides of a dimension of size 1 are those of a whole tensor. */
function stridesOf(
  access: StridedAccess,
  rows: number,
  columns: number,
  transposed: boolean,
): [number, number] {
  const [r, c] = access.strides;
  // As the tensor lies in memory, before it is transposed.
  const [height, width] = transposed ? [columns, rows] : [rows, columns];
  let [down, right] = transposed ? [c, r] : [r, c];
  if (width === 1) right = 1;
  if (height === 1) down = width * right;
  return transposed ? [right, down] : [down, right];
}

export function blasOf(
  { m, n, k, a, b, slot, beta }: Blas,
  transposed: { readonly a: boolean; readonly b: boolean },
): BlasKernel {
  let m1: Matrix = { access: a, strides: stridesOf(a, m, k, transposed.a) };
  let m2: Matrix = { access: b, strides: stridesOf(b, k, n, transposed.b) };
  const c = [n, 1]; // the result's strides
  const swapped = !(c[0] === 1 && (n === 1 || c[1] >= Math.max(1, m)));
  if (swapped) [m1, m2] = [m2, m1];
  const [rows, columns] = swapped ? [n, m] : [m, n];
  const [one, two] = swapped ? [1, 0] : [0, 1];
  const plainA = m1.strides[one] === 1 && m1.strides[two] >= Math.max(1, rows);
  const turnedA = m1.strides[two] === 1 && m1.strides[one] >= Math.max(1, k);
  const plainB = m2.strides[one] === 1 && m2.strides[two] >= Math.max(1, k);
  const turnedB = m2.strides[two] === 1 && m2.strides[one] >= Math.max(1, columns);
  if (!plainA && !turnedA || !plainB && !turnedB) throw new NoBlas("a product of a matrix with gaps");
  const transA = !plainA, transB = !plainB;
  // A single row or column has no next one, and BLAS wants its place to be far enough.
  const aAlone = transA ? rows === 1 : k === 1, bAlone = transB ? k === 1 : columns === 1;
  return {
    kernel: "blas",
    name: "sgemm",
    transA,
    transB,
    m: rows,
    n: columns,
    k,
    a: { slot: m1.access.slot, offset: m1.access.offset },
    lda: aAlone ? (transA ? k : rows) : m1.strides[transA === swapped ? 1 : 0],
    b: { slot: m2.access.slot, offset: m2.access.offset },
    ldb: bAlone ? (transB ? columns : k) : m2.strides[transB === swapped ? 1 : 0],
    c: { slot, offset: 0 },
    ldc: columns === 1 ? rows : c[swapped ? 0 : 1],
    beta,
  };
}

/** libtorch copies the matrix first, which no plan does. */
export class NoBlas extends Error {}

/** add(product, bias) where the bias has one number for each column. */
export function biasOf(
  { nodes }: Graph,
  add: Node & { op: string; args: readonly Ref[] },
  alone: (gemm: Ref) => boolean,
): { gemm: Ref; bias: Ref } | null {
  for (const [gemm, other] of [add.args, [...add.args].reverse()]) {
    const product = nodes[gemm];
    if (product.op !== "gemm" || product.shape.length !== 2 || !alone(gemm)) continue;
    let bias = other;
    while (isView(nodes[bias]) && nodes[bias].op !== "slice" && nodes[bias].op !== "permute") {
      bias = (nodes[bias] as { args: readonly Ref[] }).args[0];
    }
    const { op, shape } = nodes[bias], columns = product.shape[1];
    const row = shape.reduce((all, size) => all * size, 1) === columns && (shape.at(-1) ?? 1) === columns;
    if (op === "tensor" && row && String(add.shape) === String(product.shape)) return { gemm, bias };
  }
  return null;
}
