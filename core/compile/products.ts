// Products as parts of a plan: code of our own, or libtorch's calls of its BLAS.
import { count } from "./access.ts";
import { type Blas, blasOf, hasGaps } from "./blas.ts";
import { callBmm } from "./calls.ts";
import { copyKernel } from "./copies.ts";
import type { Draft } from "./draft.ts";
import type { Node, Ref } from "./graph.ts";
import type { GemmKernel, Stage, StridedAccess } from "./kernel.ts";

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
