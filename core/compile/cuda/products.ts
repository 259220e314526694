// Products of a plan on a GPU: libtorch's, into the plan's memory.
import { aten } from "../../../ffi/aten.ts";
import { asStrided, bmm, copy_, reshape } from "../../../ffi/ops.ts";
import { viewDtype } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { ProductBatch } from "../batches.ts";
import { isHalf } from "../graph.ts";
import { ELEMENT_BYTES, type GemmKernel, type StridedAccess } from "../kernel.ts";

/** c = a b. Gradients are added by groups. */
const into = {
  mm: aten("mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
  bmm: aten("bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
};

/** libtorch adds these up as f32, of half precision, and leaves them so. */
const widened = {
  mm: aten("mm.dtype_out(Tensor self, Tensor mat2, ScalarType out_dtype, *, Tensor(a!) out) -> Tensor(a!)"),
  bmm: aten("bmm.dtype_out(Tensor self, Tensor mat2, ScalarType out_dtype, *, Tensor(a!) out) -> Tensor(a!)"),
};

function intoPlace(name: "mm" | "bmm", a: Tensor, b: Tensor, c: Tensor): void {
  if (a.dtype !== b.dtype) throw new Error(`internal: a product of ${a.dtype} and ${b.dtype}.`);
  if (a.dtype === c.dtype) into[name](a, b, c);
  else widened[name](a, b, c.dtype, c);
}

/** The tensors of a plan's slots, and the byte of each where the slot begins. */
export type SlotTensors = { readonly tensor: Tensor; readonly bytes: number }[];

export interface LibraryProduct {
  run(): void;
}

interface View {
  readonly slot: number;
  readonly offset: number;
  readonly kind: StridedAccess["kind"];
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
}

/** Runs in a scope. */
export function makeProduct(kernel: GemmKernel | ProductBatch, slots: SlotTensors): LibraryProduct {
  const { add } = kernel.kernel === "gemm" ? kernel : kernel.product;
  if (add) throw new Error("internal: a product that adds, on a GPU.");
  if (kernel.kernel === "gemm") {
    const { m, n, k } = kernel;
    const [a, b, c] = [
      viewOf(kernel.a, [], [m, k]),
      viewOf(kernel.b, [], [k, n]),
      viewOf(kernel.c, [], [m, n]),
    ];
    return { run: () => intoPlace("mm", tensorOf(a, slots), tensorOf(b, slots), tensorOf(c, slots)) };
  }
  const { product, product: { m, n, k }, repeats } = kernel;
  const view = (name: "a" | "b" | "c", sizes: readonly number[]) =>
    joined(viewOf(product[name], repeats.map((one) => ({ count: one.count, step: one[name] })), sizes));
  const [a, b, c] = [view("a", [m, k]), view("b", [k, n]), view("c", [m, n])];
  const count = repeats.reduce((all, one) => all * one.count, 1);
  // Samples and heads that no one stride goes through are copied first.
  const batch = ({ sizes, ...rest }: View): Tensor => {
    const tensor = tensorOf({ ...rest, sizes }, slots);
    return sizes.length === 3 ? tensor : reshape(tensor, [count, ...sizes.slice(-2)]);
  };
  if (c.sizes.length === 3) {
    return { run: () => intoPlace("bmm", batch(a), batch(b), tensorOf(c, slots)) };
  }
  return {
    run() {
      const made = reshape(bmm(batch(a), batch(b)), c.sizes);
      copy_(tensorOf(c, slots), made);
    },
  };
}

function viewOf(
  { slot, offset, strides, kind }: StridedAccess,
  repeats: readonly { readonly count: number; readonly step: number }[],
  sizes: readonly number[],
): View {
  return {
    slot,
    offset,
    kind,
    sizes: [...repeats.map(({ count }) => count), ...sizes],
    strides: [...repeats.map(({ step }) => step), ...strides],
  };
}

/** Two dimensions of repeats that are crossed in one stride are one. */
function joined(view: View): View {
  const { sizes, strides } = view;
  if (sizes.length < 4 || strides[0] !== strides[1] * sizes[1]) return view;
  return {
    ...view,
    sizes: [sizes[0] * sizes[1], ...sizes.slice(2)],
    strides: strides.slice(1),
  };
}

function tensorOf({ slot, offset, kind, sizes, strides }: View, slots: SlotTensors): Tensor {
  const { tensor, bytes } = slots[slot];
  const typed = isHalf(kind) && tensor.dtype !== kind ? viewDtype(tensor, kind) : tensor;
  return asStrided(typed, sizes, strides, offset + bytes / ELEMENT_BYTES[kind] + typed.offset);
}
