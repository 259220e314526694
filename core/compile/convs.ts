// Convolutions whose results are a few places wide: their kernels are far larger than their maps, which libtorch's
// code is not made for. A result of one place is a product; with a few places the kernel's gradient is one. In exact plans
// they are products where libtorch's order of each sum is known.
import type { Builder, Shape } from "./builder.ts";
import type { Call } from "./call_rules.ts";
import type { Ref } from "./graph.ts";

/** So many places of a result, or fewer: libtorch needs three times as long as a product for the kernel's gradient. */
export const FEW = 4;

/** The plain kind over maps: without dilation, and all channels in one group. */
export interface MapConvolution {
  readonly input: Shape;
  readonly kernel: Shape;
  readonly stride: Shape;
  readonly padding: Shape;
}

/** The order of a sum: so many terms at a time, and then what they come to. Without a number it is free. */
interface SumOrder {
  readonly chain?: number;
}

/** The orders of a convolution's sums; null where no product of ours has libtorch's. */
export interface ConvolutionSums {
  /** Terms stand by blocks of so many channels, and within a block by the kernel's elements. */
  readonly result: SumOrder & { readonly block?: number } | null;
  readonly inputGradient: SumOrder | null;
  readonly kernelGradient: SumOrder | null;
}

const FREE: ConvolutionSums = { result: {}, inputGradient: {}, kernelGradient: {} };

/** In exact plans: how libtorch sums. */
type SumsOf = (convolution: MapConvolution) => ConvolutionSums;

/** As an op and its gradients have it among their arguments; null for another kind. */
function plainFrom(values: readonly unknown[], input: Shape, kernel: Shape): MapConvolution | null {
  const [stride, padding, dilation, transposed, , groups] = values as [
    Shape,
    Shape,
    Shape,
    boolean,
    Shape,
    number,
  ];
  const plain = kernel.length === 4 && input.length === 4 && !transposed && groups === 1 &&
    dilation.every((one) => one === 1) &&
    padding.every((one, i) => one < kernel[2 + i]); // else the first place may meet nothing of the input
  return plain ? { input, kernel, stride, padding } : null;
}

/** Places of the result. */
const placesOf = (shape: Shape): number => shape[2] * shape[3];

/** Elements of the kernel that meet the input from the one place of a result: from and to, by rows and by columns. */
export const metBy = ({ input, kernel, padding }: MapConvolution) =>
  [0, 1].map((i) => ({ from: padding[i], to: Math.min(kernel[2 + i], input[2 + i] + padding[i]) }));

/** A result of one place is made of rows of the input, and of the kernel. */
class OnePlace {
  readonly #met: readonly { readonly from: number; readonly to: number }[];

  readonly input: Shape;
  readonly kernel: Shape;

  /** Terms stand by blocks of so many channels; else by channels. */
  constructor(readonly b: Builder, convolution: MapConvolution, readonly block = 1) {
    this.#met = metBy(convolution);
    ({ input: this.input, kernel: this.kernel } = convolution);
  }

  get #sizes(): Shape {
    return this.#met.map(({ from, to }) => to - from);
  }
  get #length(): number {
    return this.kernel[1] * this.#sizes[0] * this.#sizes[1];
  }

  rows(x: Ref): Ref {
    const { b } = this, [height, width] = this.#sizes;
    return this.#terms(b.slice(b.slice(x, 2, 0, height), 3, 0, width));
  }
  columns(w: Ref): Ref {
    const { b } = this, [rows, columns] = this.#met;
    return this.#terms(b.slice(b.slice(w, 2, rows.from, rows.to), 3, columns.from, columns.to));
  }
  #terms(met: Ref): Ref {
    const { b, block } = this, [count, channels, height, width] = b.shape(met);
    if (block === 1 || height * width === 1) return b.reshape(met, [count, this.#length]);
    const blocks = b.reshape(met, [count, channels / block, block, height * width]);
    return b.reshape(b.permute(blocks, [0, 1, 3, 2]), [count, this.#length]);
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
function unfolded(b: Builder, x: Ref, result: Shape, { kernel, stride, padding }: MapConvolution): Ref {
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

/** The result, or null where libtorch's own op stays. `ref` finds an argument; `sumsOf` is there where bits count. */
export function smallConvolution(
  b: Builder,
  { values, shape }: Call,
  ref: (argument: number) => Ref,
  sumsOf?: SumsOf,
): Ref | null {
  const x = ref(0), w = ref(1), bias = values[2] !== null;
  const plain = plainFrom(values.slice(3), b.shape(x), b.shape(w));
  if (plain === null || placesOf(shape) > 1 || sumsOf && (bias || b.liesLast(x))) return null;
  const { result: order } = sumsOf?.(plain) ?? FREE;
  if (order === null) return null;
  const one = new OnePlace(b, plain, order.block);
  const product = b.gemm(one.rows(x), one.columns(w), false, true, order.chain);
  const y = bias ? b.pointwise("add", product, ref(2)) : product;
  return b.reshape(y, shape);
}

/** The gradients of input, kernel and bias, null for those that nobody wants; or null where libtorch's op stays. */
export function smallConvolutionBackward(
  b: Builder,
  call: Call,
  ref: (argument: number) => Ref,
  sumsOf?: SumsOf,
): readonly (Ref | null)[] | null {
  const { values } = call, back = ref(0), x = ref(1), w = ref(2), result = b.shape(back);
  const plain = plainFrom(values.slice(4), b.shape(x), b.shape(w)), places = placesOf(result);
  if (plain === null || places > FEW || sumsOf && b.liesLast(x)) return null;
  const wanted = values[10] as readonly boolean[], sums = sumsOf?.(plain) ?? FREE;
  const inputOrder = wanted[0] && places === 1 ? sums.inputGradient : null;
  // libtorch sums up a bias's gradient together with the kernel's.
  const kernelOrder = wanted[1] && !(sumsOf && wanted[2]) ? sums.kernelGradient : null;
  if (inputOrder === null && kernelOrder === null) return null;
  const left = [wanted[0] && !inputOrder, wanted[1] && !kernelOrder, wanted[2] && sumsOf !== undefined];
  const others = values.with(10, left).map((value, i) => i < 3 ? { ref: ref(i) } : value);
  const rest = left.includes(true) ? b.call(call.schema, others, b.shape(x)) : null;
  const gradients = left.map((own, i) =>
    !own ? null : i === 0 ? rest : b.result(rest!, i, i === 1 ? b.shape(w) : [result[1]])
  );
  const one = places === 1 ? new OnePlace(b, plain) : null, rows = [result[0] * places, result[1]];
  const g = b.reshape(one ? back : b.permute(back, [0, 2, 3, 1]), rows);
  if (inputOrder !== null) {
    gradients[0] = one!.inputFrom(b.gemm(g, one!.columns(w), false, false, inputOrder.chain));
  }
  if (kernelOrder !== null) {
    const terms = one ? one.rows(x) : unfolded(b, x, result, plain);
    const product = b.gemm(g, terms, true, false, kernelOrder.chain);
    gradients[1] = one ? one.kernelFrom(product) : b.reshape(product, plain.kernel);
  }
  if (wanted[2] && !sumsOf) gradients[2] = b.reshape(b.sum(back, [0, 2, 3]), [result[1]]);
  return gradients;
}
