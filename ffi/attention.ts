// Asks libtorch which of its kernels computes an attention on a device: it chooses by shape, data type and GPU.
import { check } from "./abi.ts";
import { aten } from "./aten.ts";
import { gpuBackend } from "./cuda.ts";
import { openedLibtorch } from "./library.ts";
import { requireGrad } from "./autograd.ts";
import type { DType } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { uninitialised } from "./make.ts";
import { alive, type Device, scope, Tensor } from "./tensor.ts";

const choice = aten(
  "_fused_sdp_choice(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> int",
);

/** How a model calls scaledDotProductAttention while it trains. */
export interface Attends {
  readonly heads: number;
  /** A head is so wide. */
  readonly width: number;
  readonly causal: boolean;
  /** The share of its weights that is dropped. */
  readonly dropout: number;
  readonly masked?: boolean;
}

/** By the numbers of libtorch's SDPBackend. */
const KERNELS = ["math", "flash", "memory-efficient", "cuDNN"] as const;
export type AttentionKernel = typeof KERNELS[number];

const cudnnCall = {
  forward: {
    name: "aoti_torch_cuda__scaled_dot_product_cudnn_attention",
    parameters: [
      ...["u64", "u64", "u64", "pointer", "i32", "f64", "i32", "i32", "buffer"] as const,
      ...[
        "pointer",
        "pointer",
        "pointer",
        "pointer",
        "buffer",
        "buffer",
        "pointer",
        "pointer",
        "pointer",
      ] as const,
    ],
    result: "i32",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

let cudnn: Deno.DynamicLibrary<typeof cudnnCall>["symbols"]["forward"] | undefined;
const openedCudnn = () =>
  cudnn ??= Deno.dlopen(`${openedLibtorch().dir}/${gpuBackend().torch}`, cudnnCall).symbols.forward;

/** True where `cudnnAttention` can be asked. */
export const hasCudnnAttention = (): boolean => openedCudnn() !== null;

const numbers = new BigInt64Array(1), factor = new Float64Array(1);

/**
 * libtorch's _scaled_dot_product_cudnn_attention, without a bias and without dropout, which the dispatcher's C verb can't
 * call: it mixes whole numbers among the results. Null stands for those.
 */
export function cudnnAttention(
  [q, k, v]: readonly Tensor[],
  causal: boolean,
  scale: number | null,
): (Tensor | null)[] {
  const call = openedCudnn();
  if (!call) throw new Error("internal: this libtorch has no attention by cuDNN.");
  const [a, b, c] = [q, k, v].map((one) => alive(one, "cudnnAttention"));
  const whole = new Uint8Array(numbers.buffer);
  if (scale !== null) factor[0] = scale;
  const given = scale === null ? null : new Uint8Array(factor.buffer);
  const results = new BigUint64Array(7);
  const at = Array.from(results, (_, i) => Deno.UnsafePointer.of(results.subarray(i, i + 1)));
  const code = call(
    ...[a, b, c, null, 1, 0, Number(causal), 0, given] as const,
    ...[at[0], at[1], at[2], at[3], whole, whole, at[4], at[5], at[6]] as const,
  );
  check(code, "cudnnAttention");
  const [out, sums, first, second, seed, offset, mask] = Array.from(results, (handle) => new Tensor(handle));
  return [out, sums, first, second, null, null, seed, offset, mask];
}

/** The choice does not depend on how many there are. */
const TOKENS = 64;

/** Null where libtorch does not say. */
export function attentionKernel(
  { heads, width, causal, dropout, masked }: Attends,
  dtype: DType,
  device: Device,
): AttentionKernel | null {
  const made = () => requireGrad(uninitialised([1, heads, TOKENS, width], { dtype, device }));
  try {
    return scope(() => {
      const mask = masked ? uninitialised([1, 1, TOKENS, TOKENS], { dtype, device }) : null;
      return KERNELS[choice(made(), made(), made(), mask, dropout, causal && !masked)] ?? null;
    });
  } catch (error) {
    if (error instanceof NativeError) return null;
    throw error;
  }
}
