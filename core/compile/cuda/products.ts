// Products of a plan on a GPU: libtorch's, into the plan's memory.
import { aten } from "../../../ffi/aten.ts";
import { asStrided, bmm, copy_, reshape } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Batch } from "../x86/batches.ts";
import type { GemmKernel, Walk } from "../kernel.ts";

/** c = a b. Gradients are added by groups. */
const into = {
  mm: aten("mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
  bmm: aten("bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
};

/** The tensors of a plan's slots, and the element of each where the slot begins. */
export type SlotTensors = { readonly tensor: Tensor; readonly elements: number }[];

export interface Product {
  run(): void;
}

interface View {
  readonly slot: number;
  readonly offset: number;
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
}

/** Runs in a scope. */
export function makeProduct(kernel: GemmKernel | Batch, slots: SlotTensors): Product {
  const { add } = kernel.kernel === "gemm" ? kernel : kernel.product;
  if (add) throw new Error("internal: a product that adds, on a GPU.");
  if (kernel.kernel === "gemm") {
    const { m, n, k } = kernel;
    const [a, b, c] = [
      viewOf(kernel.a, [], [m, k]),
      viewOf(kernel.b, [], [k, n]),
      viewOf(kernel.c, [], [m, n]),
    ];
    return { run: () => void into.mm(tensorOf(a, slots), tensorOf(b, slots), tensorOf(c, slots)) };
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
    return { run: () => void into.bmm(batch(a), batch(b), tensorOf(c, slots)) };
  }
  return {
    run() {
      const made = reshape(bmm(batch(a), batch(b)), c.sizes);
      copy_(tensorOf(c, slots), made);
    },
  };
}

function viewOf(
  { slot, offset, strides }: Walk,
  repeats: readonly { readonly count: number; readonly step: number }[],
  sizes: readonly number[],
): View {
  return {
    slot,
    offset,
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

function tensorOf({ slot, offset, sizes, strides }: View, slots: SlotTensors): Tensor {
  const { tensor, elements } = slots[slot];
  return asStrided(tensor, sizes, strides, offset + elements + tensor.offset);
}
