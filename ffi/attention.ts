// Asks libtorch which of its kernels computes an attention on a device: it chooses by shape, data type and GPU.
import { aten } from "./aten.ts";
import { requireGrad } from "./autograd.ts";
import type { DType } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { uninitialised } from "./make.ts";
import { type Device, scope } from "./tensor.ts";

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
