// Attention by libtorch's kernels, whose scores are never written out: which arguments and results its calls have.
import { type AttentionKernel, cudnnAttention } from "../../ffi/attention.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import type { Builder } from "./builder.ts";
import type { Ref } from "./graph.ts";
import { hostOps } from "../../ffi/tape.ts";

/** Kernels that have calls of their own. */
export type FusedAttention = Exclude<AttentionKernel, "math">;

interface Heads {
  readonly causal: boolean;
  readonly scale: number | null;
}

/** An argument that is a tensor, but none is there. */
const ABSENT = { absent: true } as const;

/** Shape of results that are handed from forward to backward as they are, whatever they hold. */
export const OPAQUE: readonly number[] = [0];
export const isOpaque = (shape: readonly number[]): boolean => shape.length === 1 && shape[0] === 0;

/** libtorch's calls that give whole numbers beside tensors can't be made, so flash attention is asked for one floor below. */
const FORWARD: Readonly<Record<FusedAttention, string>> = {
  flash:
    "_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, " +
    "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, " +
    "SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, " +
    // Newer ones have more, up to here; an older one does not look.
    "Tensor? block_table=None, int? num_splits=None, Tensor? more=None) -> (Tensor output, Tensor softmax_logsumexp, " +
    "Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
  "memory-efficient": "_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, " +
    "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, float? scale=None) -> " +
    "(Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
  cuDNN: "_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, " +
    "bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, bool return_debug_mask=False, *, " +
    "float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, " +
    "SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)",
};
const BACKWARD: Readonly<Record<FusedAttention, string>> = {
  flash: "_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, " +
    "Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, " +
    "Tensor rng_state, Tensor unused, *, float? scale=None, SymInt? window_size_left=None, " +
    "SymInt? window_size_right=None, Tensor? more=None) -> (Tensor, Tensor, Tensor)",
  "memory-efficient":
    "_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, " +
    "Tensor value, Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, " +
    "float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, " +
    "Tensor)",
  cuDNN:
    "_scaled_dot_product_cudnn_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, " +
    "Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor attn_bias, Tensor cum_seq_q, " +
    "Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, " +
    "Tensor, Tensor)",
};

const BY_HEADS = /^_scaled_dot_product_(?:efficient|cudnn|flash)_attention(?:_for_cpu)?(_backward)?\(/;

/** True of results whose tensor is [n, heads, tokens, width] and lies as [n, tokens, heads, width]: the value is over these. */
export const liesByTokens = (schema: string, index: number): boolean => {
  const found = BY_HEADS.exec(schema);
  return found !== null && index <= (found[1] ? 2 : 0);
};

hostOps.set(
  "_scaled_dot_product_cudnn_attention",
  (...[q, k, v, , , , causal, , scale]) =>
    cudnnAttention([q, k, v] as Tensor[], causal as boolean, scale as number | null),
);

const of = (r: Ref) => ({ ref: r });
const TURNED = [0, 2, 1, 3];
const turned = (shape: readonly number[]): number[] => TURNED.map((dim) => shape[dim]);

/** q, k and v are [n, heads, tokens, width], and so is the result. */
export function attended(
  b: Builder,
  kernel: FusedAttention,
  heads: readonly Ref[],
  { causal, scale }: Heads,
): Ref {
  const [shape, keys] = heads.map((one) => b.shape(one)), tokens = [shape[2], keys[2]];
  const given = heads.map((one) => of(kernel === "flash" ? b.permute(one, TURNED) : one));
  const values = kernel === "flash"
    ? [...given, null, null, ...tokens, 0, causal, false, scale, ...new Array(7).fill(null)]
    : kernel === "cuDNN"
    ? [...given, null, true, 0, causal, false, scale]
    : [...given, null, true, 0, causal, scale];
  return b.permute(b.call(FORWARD[kernel], values, turned(shape)), TURNED);
}

const ON_CPU = "_scaled_dot_product_flash_attention_for_cpu";

/** On a CPU, where a mask of numbers may be added. */
export function attendedOnCpu(
  b: Builder,
  [q, k, v]: readonly Ref[],
  { causal, scale, mask }: Heads & { readonly mask: Ref | null },
): Ref {
  const call = b.call(
    `${ON_CPU}(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, ` +
      "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    [of(q), of(k), of(v), 0, causal, mask === null ? null : of(mask), scale],
    turned(b.shape(q)),
  );
  return b.permute(call, TURNED);
}

/** The gradients of q, k and v. `y` and `back` as for attendedBackward. */
export function attendedOnCpuBackward(
  b: Builder,
  y: Ref,
  back: Ref,
  [q, k, v, ...others]: readonly unknown[],
): readonly Ref[] {
  const shapes = [q, k, v].map((one) => turned(b.shape((one as { readonly ref: Ref }).ref)));
  const [count, tokens, heads] = b.shape(y), sums = b.result(y, 1, [count, heads, tokens]);
  const call = b.call(
    `${ON_CPU}_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, ` +
      "float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) " +
      "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    [of(b.permute(back, TURNED)), q, k, v, of(b.permute(y, TURNED)), of(sums), ...others],
    shapes[0],
  );
  return [call, b.result(call, 1, shapes[1]), b.result(call, 2, shapes[2])].map((one) =>
    b.permute(one, TURNED)
  );
}

export const FUSED_ATTENTIONS: Readonly<Record<string, FusedAttention>> = {
  _flash_attention_forward: "flash",
  _scaled_dot_product_efficient_attention: "memory-efficient",
  _scaled_dot_product_cudnn_attention: "cuDNN",
};

/** The gradients of a call's q, k and v. `y` is the call, over [n, tokens, heads, width], and `back` its gradient. */
export function attendedBackward(
  b: Builder,
  kernel: FusedAttention,
  y: Ref,
  back: Ref,
  given: readonly unknown[],
): readonly Ref[] {
  const [q, k, v] = given.slice(0, 3) as readonly { readonly ref: Ref }[];
  const shapes = [q, k, v].map(({ ref }) => b.shape(ref)),
    opaque = (index: number) => of(b.result(y, index, OPAQUE, "i64"));
  if (kernel === "flash") {
    const [causal, , scale] = given.slice(8), tokens = [shapes[0][1], shapes[1][1]];
    const call = b.call(
      BACKWARD.flash,
      [
        ...[of(back), q, k, v, of(y), opaque(1), ABSENT, ABSENT, ...tokens, 0, causal],
        ...[opaque(2), opaque(3), scale, null, null, null],
      ],
      shapes[0],
    );
    return [call, b.result(call, 1, shapes[1]), b.result(call, 2, shapes[2])];
  }
  const all = [of(b.permute(back, TURNED)), q, k, v], out = of(b.permute(y, TURNED));
  const causal = given[6], scale = given.at(-1);
  const values = kernel === "cuDNN"
    ? [
      ...[...all, out, opaque(1), opaque(6), opaque(7), ABSENT, ABSENT, ABSENT, shapes[0][2], shapes[1][2]],
      ...[0, causal, scale],
    ]
    : [...all, ABSENT, out, opaque(1), opaque(2), opaque(3), 0, [true, true, true, false], causal, scale];
  const call = b.call(BACKWARD[kernel], values, turned(shapes[0]));
  const results = [call, b.result(call, 1, turned(shapes[1])), b.result(call, 2, turned(shapes[2]))];
  return results.map((one) => b.permute(one, TURNED));
}
