// Products as parts of a plan: code of our own, or libtorch's calls of its BLAS.
import { count, isView } from "./access.ts";
import { callBmm } from "./calls.ts";
import { copyKernel } from "./copies.ts";
import type { Draft } from "./draft.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import type { BlasKernel, GemmKernel, Stage, StridedAccess } from "./kernel.ts";

type Product = Node & { op: "gemm" };

/** More products of a batch are one call of libtorch's: they are one loop in code, but each is looked at here. */
const MOST_PRODUCTS = 1024;

function sizesOf({ graph }: Draft, node: Product): { m: number; n: number; k: number } {
  const [m, n] = node.shape.slice(-2), [a] = node.args;
  return { m, n, k: graph.nodes[a].shape.at(node.transposeA ? -2 : -1)! };
}

/** The matrices of a batch, by their number. */
function matrices(draft: Draft, ref: Ref, transposed: boolean): (batch: number) => StridedAccess {
  const { shape } = draft.graph.nodes[ref];
  const { slot, offset, kind, strides } = draft.stridesOf(ref);
  const [rows, columns] = strides.slice(-2), inner = transposed ? [columns, rows] : [rows, columns];
  return (batch) => {
    let at = offset, rest = batch;
    for (let i = shape.length - 3; i >= 0; i--) {
      at += rest % shape[i] * strides[i];
      rest = Math.floor(rest / shape[i]);
    }
    return { slot, offset: at, strides: inner, kind };
  };
}

export function draftProduct(draft: Draft, ref: Ref, node: Product): void {
  const { m, n, k } = sizesOf(draft, node), [a, b] = node.args;
  const batches = count(node.shape.slice(0, -2));
  if (batches > MOST_PRODUCTS && !draft.addsTo.has(ref)) return callBmm(draft, ref, node);
  const slot = draft.define(ref), adds = draft.addsTo.has(ref);
  const left = matrices(draft, a, node.transposeA), right = matrices(draft, b, node.transposeB);
  for (let i = 0; i < batches; i++) {
    const kernel: GemmKernel = {
      kernel: "gemm",
      name: "gemm",
      ...{ m, n, k },
      a: left(i),
      b: right(i),
      c: { slot, offset: i * m * n, strides: [n, 1], kind: draft.buffers[slot].kind },
      add: adds,
      chain: node.chain,
      epilogue: null,
    };
    draft.parts.push(kernel);
  }
  draft.ends(ref);
}

/** In exact plans: `bias` is put under the product first. */
export function blasProduct(
  draft: Draft,
  ref: Ref,
  { gemm, bias }: { gemm: Ref; bias: Ref | null },
): void {
  const node = draft.graph.nodes[gemm] as Product, [left, right] = node.args;
  const { m, n, k } = sizesOf(draft, node);
  if (node.shape.length > 2) return callBmm(draft, ref, node);
  const [a, turnedA] = withoutGaps(draft, matrices(draft, left, node.transposeA)(0), m, k, node.transposeA);
  const [b, turnedB] = withoutGaps(draft, matrices(draft, right, node.transposeB)(0), k, n, node.transposeB);
  const under = bias === null ? null : biasUnder(draft, bias, n);
  const slot = draft.define(ref), c: StridedAccess = { slot, offset: 0, strides: [n, 1], kind: "f32" };
  const wanted: Blas = { m, n, k, a, b, slot, beta: bias === null ? 0 : 1 };
  const theirs = blasOf(wanted, { a: turnedA, b: turnedB });
  const ours: GemmKernel = {
    ...{ kernel: "gemm", name: "gemm", m, n, k, a, b, c, add: bias !== null, epilogue: null },
  };
  const chain = draft.options.chainOf?.(theirs, ours) ?? null;
  if (chain !== null && chain >= k && under !== null) {
    draft.parts.push({ ...ours, chain, add: false, epilogue: biasStage(under, c) });
  } else {
    if (under !== null) draft.parts.push(copyKernel("bias", [m, n], under, c));
    draft.parts.push(chain === null ? theirs : { ...ours, chain });
  }
  draft.ends(ref);
}

/** The matrix itself, or a copy of it in row-major order; and whether it was turned. */
function withoutGaps(
  draft: Draft,
  from: StridedAccess,
  rows: number,
  columns: number,
  turned: boolean,
): [StridedAccess, boolean] {
  if (!hasGaps(from, rows, columns, turned)) return [from, turned];
  const to: StridedAccess = {
    slot: draft.scratch(rows * columns),
    offset: 0,
    strides: [columns, 1],
    kind: "f32",
  };
  draft.parts.push(copyKernel("copy", [rows, columns], from, to));
  return [to, false];
}

function biasUnder(draft: Draft, bias: Ref, columns: number): StridedAccess {
  const { slot, offset, strides } = draft.stridesOf(bias);
  return { slot, offset, strides: [0, columns > 1 ? strides.at(-1)! : 0], kind: "f32" };
}

/** One chain and a bias: their sum is the same whichever comes first. */
const biasStage = (bias: StridedAccess, c: StridedAccess): Stage => ({
  instructions: [
    { op: "load", from: { ...c, slot: -1 } },
    { op: "load", from: bias },
    { op: "add", args: [0, 1] },
  ],
  stores: [{ value: 2, to: c }],
  reductions: [],
});

// Products as libtorch asks its BLAS for them (addmm and mm in LinearAlgebra.cpp), so that they have its bits: the order
// of operands depends on strides and on sizes of 1.

interface Blas {
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
function hasGaps(access: StridedAccess, rows: number, columns: number, transposed: boolean): boolean {
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
    if (product.op !== "gemm" || product.chain || product.shape.length !== 2 || !alone(gemm)) continue;
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
