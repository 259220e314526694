// Convolutions whose results are a few places wide: their kernels are far larger than their maps, which libtorch's
// code is not made for. A result of one place is a product; with a few places the kernel's gradient is one.
import type { Builder, Shape } from "./builder.ts";
import type { Call } from "./call_rules.ts";
import type { Ref } from "./graph.ts";

/** So many places of a result, or fewer: libtorch needs three times as long as a product for the kernel's gradient. */
export const FEW = 4;

interface Convolution {
  readonly stride: Shape;
  readonly padding: Shape;
}

/** The plain kind over maps, as an op and its gradients have it among their arguments; null for another. */
function plainFrom(values: readonly unknown[], input: Shape, kernel: Shape): Convolution | null {
  const [stride, padding, dilation, transposed, , groups] = values as [
    Shape,
    Shape,
    Shape,
    boolean,
    Shape,
    number,
  ];
  const plain = kernel.length === 4 && input.length === 4 && !transposed && groups === 1 &&
    dilation.every((one) => one === 1);
  return plain ? { stride, padding } : null;
}

/** Places of the result. */
const placesOf = (shape: Shape): number => shape[2] * shape[3];

/** Elements of the kernel that meet an input of this size from the one place of a result. */
const metBy = (size: number, kernel: number, padding: number) => ({
  from: padding,
  to: Math.min(kernel, size + padding),
});

/** A result of one place is made of rows of the input, and of the kernel. */
class OnePlace {
  readonly #met: readonly { readonly from: number; readonly to: number }[];

  constructor(readonly b: Builder, readonly input: Shape, readonly kernel: Shape, { padding }: Convolution) {
    this.#met = [0, 1].map((i) => metBy(input[2 + i], kernel[2 + i], padding[i]));
  }

  get #sizes(): Shape {
    return this.#met.map(({ from, to }) => to - from);
  }
  get #length(): number {
    return this.kernel[1] * this.#sizes[0] * this.#sizes[1];
  }

  rows(x: Ref): Ref {
    const { b } = this, [height, width] = this.#sizes;
    const met = b.slice(b.slice(x, 2, 0, height), 3, 0, width);
    return b.reshape(met, [this.input[0], this.#length]);
  }
  columns(w: Ref): Ref {
    const { b } = this, [rows, columns] = this.#met;
    const met = b.slice(b.slice(w, 2, rows.from, rows.to), 3, columns.from, columns.to);
    return b.reshape(met, [this.kernel[0], this.#length]);
  }
  inputFrom(rows: Ref): Ref {
    const { b, input } = this;
    const met = b.reshape(rows, [input[0], input[1], ...this.#sizes]);
    return b.embed(b.embed(met, 3, 0, input[3]), 2, 0, input[2]);
  }
  kernelFrom(columns: Ref): Ref {
    const { b, kernel } = this, [out, into, height, width] = kernel, [rows, along] = this.#met;
    if (this.#length === into) { // one element of each: its place among the others
      const flat = b.reshape(columns, [out * into, 1]);
      return b.reshape(b.embed(flat, 1, rows.from * width + along.from, height * width), kernel);
    }
    const met = b.reshape(columns, [out, into, ...this.#sizes]);
    return b.embed(b.embed(met, 3, along.from, width), 2, rows.from, height);
  }
}

/** [places of all samples, elements of the kernel]: what each place of the result is made of. */
function unfolded(b: Builder, x: Ref, kernel: Shape, result: Shape, { stride, padding }: Convolution): Ref {
  const [count, channels, height, width] = b.shape(x), [rows, columns] = result.slice(2);
  const around = (y: Ref, dim: number, size: number) =>
    b.embed(y, dim, padding[dim - 2], size + 2 * padding[dim - 2] + stride[dim - 2] - 1);
  const wide = around(around(x, 2, height), 3, width);
  const every = (y: Ref, dim: number, from: number, times: number): Ref => {
    const step = stride[dim - 2], met = b.slice(y, dim, from, from + times * step);
    if (step === 1) return met;
    const dilated = b.reshape(met, b.shape(met).toSpliced(dim, 1, times, step));
    return b.reshape(b.slice(dilated, dim + 1, 0, 1), b.shape(met).with(dim, times));
  };
  const elements: Ref[] = [];
  for (let i = 0; i < kernel[2]; i++) {
    const row = every(wide, 2, i, rows);
    for (let k = 0; k < kernel[3]; k++) {
      const met = b.permute(every(row, 3, k, columns), [0, 2, 3, 1]);
      elements.push(b.reshape(met, [...b.shape(met), 1]));
    }
  }
  return b.reshape(b.cat(elements, 4), [count * rows * columns, channels * kernel[2] * kernel[3]]);
}

/** The result, or null where libtorch's own op stays. `ref` finds an argument. */
export function smallConvolution(
  b: Builder,
  { values, shape }: Call,
  ref: (argument: number) => Ref,
): Ref | null {
  const input = b.shape(ref(0)), kernel = b.shape(ref(1));
  const plain = plainFrom(values.slice(3), input, kernel);
  if (plain === null || placesOf(shape) > 1) return null;
  const one = new OnePlace(b, input, kernel, plain);
  const product = b.gemm(one.rows(ref(0)), one.columns(ref(1)), false, true);
  const y = values[2] === null ? product : b.pointwise("add", product, ref(2));
  return b.reshape(y, shape);
}

/** The gradients of input, kernel and bias, null for those that nobody wants; or null where libtorch's op stays. */
export function smallConvolutionBackward(
  b: Builder,
  call: Call,
  ref: (argument: number) => Ref,
): readonly (Ref | null)[] | null {
  const { values } = call, back = ref(0), x = ref(1), w = ref(2), result = b.shape(back);
  const plain = plainFrom(values.slice(4), b.shape(x), b.shape(w));
  if (plain === null || placesOf(result) > FEW) return null;
  const wanted = values[10] as readonly boolean[];
  const bias = wanted[2] ? b.reshape(b.sum(back, [0, 2, 3]), [result[1]]) : null;
  if (placesOf(result) === 1) {
    const one = new OnePlace(b, b.shape(x), b.shape(w), plain);
    const g = b.reshape(back, [result[0], result[1]]);
    return [
      wanted[0] ? one.inputFrom(b.gemm(g, one.columns(w))) : null,
      wanted[1] ? one.kernelFrom(b.gemm(g, one.rows(x), true)) : null,
      bias,
    ];
  }
  if (!wanted[1]) return null;
  const g = b.reshape(b.permute(back, [0, 2, 3, 1]), [result[0] * placesOf(result), result[1]]);
  const kernel = b.gemm(g, unfolded(b, x, b.shape(w), result, plain), true);
  const others = values.with(10, [wanted[0], false, false])
    .map((value, i) => i < 3 ? { ref: ref(i) } : value);
  return [
    wanted[0] ? b.call(call.schema, others, b.shape(x)) : null,
    b.reshape(kernel, b.shape(w)),
    bias,
  ];
}
