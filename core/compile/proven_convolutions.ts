// Small convolutions as products of our own that have the bits of libtorch's on this machine. Its order of a sum depends on
// the processor and on shapes, never on numbers, so each shape is tried once, as products are (proven.ts).
import { returnFreedMemory, sameMemory } from "../../ffi/libc.ts";
import { memoryBlockOf, uninitialised } from "../../ffi/make.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { contiguous, narrow, permute, reshape } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Isa } from "../../ffi/machine.ts";
import { count } from "./access.ts";
import { CONVOLUTION_BACKWARD } from "./call_rules.ts";
import { type ConvolutionSums, type MapConvolution, metBy } from "./convs.ts";
import type { GemmKernel } from "./kernel.ts";
import { trialNumbers } from "./proven.ts";
import { callable } from "./recorded_calls.ts";
import { printCode } from "./x86/print.ts";

const CONVOLUTION =
  "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, " +
  "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";
const UNFOLD =
  "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor";

/** oneDNN adds up the channels of such a block, a vector of AVX-512 or of AVX2, and then the blocks; or all at once. */
const BLOCKS = [16, 8];
/** A product of ours gathers so many rows at a time. */
const LONGEST = 2048;

/** Kernels and images of more numbers are not tried: that takes several times their memory. */
const MOST = 1 << 23;

const NONE: ConvolutionSums = { result: null, inputGradient: null, kernelGradient: null };
const known = new Map<string, ConvolutionSums>();

export const convolutionSumsOn = (isa: Isa, threads: number) => (convolution: MapConvolution) => {
  if (count(convolution.input) + count(convolution.kernel) > MOST) return NONE;
  const key = JSON.stringify([isa, threads, convolution]);
  let sums = known.get(key);
  if (sums === undefined) {
    known.set(key, sums = scope(() => new Trial(convolution, isa, threads).sums()));
    returnFreedMemory(); // kernels are large
  }
  return sums;
};

class Trial {
  readonly #x: Tensor;
  readonly #w: Tensor;
  readonly #around: readonly unknown[];

  constructor(readonly convolution: MapConvolution, readonly isa: Isa, readonly threads: number) {
    const { input, kernel, stride, padding } = convolution;
    [this.#x, this.#w] = [drawn(input, 0), drawn(kernel, 1)];
    this.#around = [stride, padding, [1, 1], false, [0, 0], 1];
  }

  sums(): ConvolutionSums {
    const { input: [samples, channels, ...sizes], kernel: [out, , ...elements], stride, padding } =
      this.convolution;
    const [height, width] = sizes.map((size, i) =>
      Math.floor((size + 2 * padding[i] - elements[i]) / stride[i]) + 1
    );
    const places = height * width, back = drawn([samples, out, height, width], 2);
    const gradients = callable(CONVOLUTION_BACKWARD)(
      ...[back, this.#x, this.#w, null, ...this.#around, [places === 1, true, false]],
    ) as (Tensor | null)[];
    const rows = reshape(permute(back, [0, 2, 3, 1]), [samples * places, out]);
    const kernelGradient = this.#kernelGradient(rows, gradients[1]!);
    if (places > 1) return { ...NONE, kernelGradient };
    const met = metBy(this.convolution), size = met.map(({ from, to }) => to - from);
    const part = (t: Tensor, [top, left]: readonly number[]) =>
      contiguous(narrow(narrow(t, 2, top, size[0]), 3, left, size[1]));
    const w = part(this.#w, met.map(({ from }) => from)), terms = size[0] * size[1];
    const blocks = (all: number) => BLOCKS.filter((block) => all % block === 0);
    const orders = blocks(channels).flatMap((block) =>
      [block * terms, channels * terms].map((chain) => ({ block, chain }))
    );
    const chains = [...blocks(out), out].map((chain) => ({ chain }));
    const result = callable(CONVOLUTION)(this.#x, this.#w, null, ...this.#around) as Tensor;
    const x = part(this.#x, [0, 0]), toInput = part(gradients[0]!, [0, 0]);
    return {
      kernelGradient,
      result: this.#first(orders, result, ({ block }) => [byBlocks(x, block), turned(byBlocks(w, block))]),
      inputGradient: this.#first(chains, toInput, () => [rows, reshape(w, [out, channels * terms])]),
    };
  }

  #kernelGradient(back: Tensor, expected: Tensor): ConvolutionSums["kernelGradient"] {
    const { kernel, stride, padding } = this.convolution, [rows] = back.shape;
    const unfolded = callable(UNFOLD)(this.#x, kernel.slice(2), [1, 1], padding, stride) as Tensor;
    const terms = reshape(permute(unfolded, [0, 2, 1]), [rows, unfolded.shape[1]]);
    return this.#first([{ chain: rows }], expected, () => [turned(back), terms]);
  }

  /** The first order in which the product of these has all bits. */
  #first<Order extends { readonly chain: number }>(
    orders: readonly Order[],
    expected: Tensor,
    matrices: (order: Order) => readonly [Tensor, Tensor],
  ): Order | null {
    const has = (order: Order) =>
      scope(() => {
        const product = order.chain <= LONGEST ? this.#product(...matrices(order), order.chain) : null;
        return product !== null && sameMemory([[memoryBlockOf(product), memoryBlockOf(expected)]]);
      });
    return orders.find(has) ?? null;
  }

  /** Null where this machine gives no memory for code. */
  #product(a: Tensor, b: Tensor, chain: number): Tensor | null {
    const [m, k] = a.shape, [, n] = b.shape, made = uninitialised([m, n]);
    const matrix = (slot: number, width: number) =>
      ({ slot, offset: 0, strides: [width, 1], kind: "f32" }) as const;
    const kernel: GemmKernel = {
      ...{ kernel: "gemm", name: "gemm", m, n, k, chain, add: false, epilogue: null },
      ...{ a: matrix(0, k), b: matrix(1, n), c: matrix(2, n) },
    };
    const code = loadCode(printCode([kernel], this.isa, 3, this.threads));
    if ("refused" in code) return null;
    [a, b, made].forEach((tensor, slot) => code.setSlot(slot, tensor));
    code.run();
    code.free();
    return made;
  }
}

const drawn = (shape: readonly number[], seed: number): Tensor =>
  reshape(trialNumbers(count(shape), seed), shape);

const turned = (matrix: Tensor): Tensor => contiguous(permute(matrix, [1, 0]));

/** Rows whose terms stand by blocks of channels, and within a block by places. */
function byBlocks(t: Tensor, block: number): Tensor {
  const [rows, channels, height, width] = t.shape;
  const blocks = reshape(t, [rows, channels / block, block, height * width]);
  return reshape(permute(blocks, [0, 1, 3, 2]), [rows, channels * height * width]);
}
