// Counts what a model computes forward: multiplications and additions of its products (linear, convolution, attention), read
// from the arguments of the native calls of one pass, up to its backward. May import abi.
import { native, outAt, outI64, stack } from "./abi.ts";

/** Watches the next forward pass; `done` hears how many operations it took, when its backward begins. */
export function countFlops(done: (operations: number) => void): void {
  const { call } = native;
  const names = new Map<Deno.PointerValue, string>();
  let operations = 0;
  native.call = (name, overload, at, version) => {
    let op = names.get(name);
    if (op === undefined) {
      op = name === null ? "" : new Deno.UnsafePointerView(name).getCString().replace(/^aten::/, "");
      names.set(name, op);
    }
    if (op === "_backward") {
      native.call = call;
      done(operations);
      return call(name, overload, at, version);
    }
    const count = COUNTS[op];
    if (count === undefined) return call(name, overload, at, version);
    const of = count(); // the call takes its arguments with it
    const code = call(name, overload, at, version);
    if (code === 0) operations += typeof of === "number" ? of : of(numelOf(stack[0]));
    return code;
  };
}

/** Of the arguments that lie on the stack; some need to know how many numbers come out. */
export const COUNTS: Readonly<Record<string, (() => number | ((made: number) => number)) | undefined>> = {
  linear: () => 2 * numelOf(stack[0]) * sizeOf(stack[1], 0),
  matmul: () => product(0, 1),
  mm: () => product(0, 1),
  bmm: () => product(0, 1),
  addmm: () => product(1, 2),
  conv1d: () => convolution(),
  conv2d: () => convolution(),
  conv3d: () => convolution(),
  convolution: () => convolution(),
  conv_transpose1d: () => transposed(),
  conv_transpose2d: () => transposed(),
  conv_transpose3d: () => transposed(),
  // Queries with keys, then weights with values; all of it, since few kernels make use of a mask.
  scaled_dot_product_attention: () =>
    2 * numelOf(stack[0]) * sizeOf(stack[1], -2) + 2 * numelOf(stack[0]) * sizeOf(stack[2], -2),
};

const product = (a: number, b: number): number =>
  2 * numelOf(stack[a]) * (dimOf(stack[b]) > 1 ? sizeOf(stack[b], -1) : 1);

/** Each number that comes out is a sum over a filter. */
function convolution(): (made: number) => number {
  const filter = numelOf(stack[1]) / sizeOf(stack[1], 0);
  return (made) => 2 * made * filter;
}

/** Each number that goes in is spread over a filter. */
const transposed = (): number => 2 * numelOf(stack[0]) * numelOf(stack[1]) / sizeOf(stack[1], 0);

function numelOf(handle: bigint): number {
  native.numel(handle, outAt);
  return Number(outI64[0]);
}

function dimOf(handle: bigint): number {
  native.dim(handle, outAt);
  return Number(outI64[0]);
}

function sizeOf(handle: bigint, dimension: number): number {
  const at = dimension < 0 ? dimension + dimOf(handle) : dimension;
  native.size(handle, BigInt(at), outAt);
  return Number(outI64[0]);
}
