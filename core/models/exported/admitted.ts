// Lists the operations of libtorch that the graph of an exported program may call, and those that draw random
// numbers. Some operations open files, take raw memory or look at indices that nobody checks, and a graph may
// come from anywhere. They are what Python's functions write, and of the others (_NAME) those alone that real
// exports have written. To admit another, add its name to its group, and a check to arguments.ts where libtorch
// does not check its arguments. tests/ffi/admitted_operations_test.ts walks all operations: none that is
// admitted may take the name of a file, memory, or a view without bounds. `./scripts/storm arguments` gives
// them odd arguments, and `./scripts/storm exported` runs changed graphs: none may end the process.
import type { Schema } from "../../../ffi/schema.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Operator } from "../../../ffi/operators.ts";
import { fill_ } from "../../../ffi/make.ts";
import { emptyLike } from "../../../ffi/ops.ts";
import type { GraphNode, Program } from "./graph.ts";

/**
 * Names have no overload: the operation in place ("relu_") and the Tensor, Scalar and other forms come with
 * them. Forms that write to an "out" argument do not.
 */
const GROUPS = {
  arithmetic: `
    abs absolute add addcdiv addcmul ceil clamp clamp_max clamp_min clip copysign deg2rad div divide exp exp2 expm1 fix
    float_power floor floor_divide fmax fmin fmod frac frexp gcd heaviside hypot lcm ldexp lerp log log10 log1p log2
    logaddexp logaddexp2 maximum minimum mul multiply nan_to_num neg negative nextafter positive pow rad2deg reciprocal
    remainder round rsqrt rsub sgn sign signbit sqrt square sub subtract true_divide trunc xlogy cumulative_trapezoid
    trapezoid trapz gradient diff`,
  trigonometry: `
    acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh sin sinc sinh
    tan tanh`,
  special: `
    digamma erf erfc erfinv i0 igamma igammac lgamma logit mvlgamma polygamma special_airy_ai special_bessel_j0
    special_bessel_j1 special_bessel_y0 special_bessel_y1 special_digamma special_entr special_erf special_erfc
    special_erfcx special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc
    special_gammaln special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax
    special_logit special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
    special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_sinc special_softmax
    special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta`,
  comparison: `
    allclose eq equal ge greater greater_equal gt isclose isfinite isin isinf isnan isneginf isposinf isreal le less
    less_equal lt ne not_equal where`,
  bits: `
    __and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor logical_and logical_not logical_or
    logical_xor`,
  complex: `
    angle complex conj conj_physical imag polar real resolve_conj resolve_neg view_as_complex view_as_real _conj
    _neg_view`,
  reductions: `
    all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum dist logcumsumexp logsumexp max
    mean median min mode nanmean nanmedian nanquantile nansum norm prod quantile std std_mean sum sum_to_size trace var
    var_mean frobenius_norm nuclear_norm norm_except_dim _is_all_true bincount histc cov corrcoef`,
  sorting: `
    argsort argwhere bucketize kthvalue msort nonzero nonzero_numpy nonzero_static searchsorted sort topk
    unique_consecutive unique_dim unique_dim_consecutive _unique2`,
  products: `
    addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul cross dot einsum ger inner kron linear matmul matrix_exp
    matrix_power mm mv outer tensordot vdot vander`,
  linearAlgebra: `
    cholesky_inverse cholesky_solve det inverse linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det
    linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv
    linalg_inv_ex linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_matmul linalg_matrix_exp
    linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr
    linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv
    linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm logdet pinverse slogdet svd triangular_solve
    _linalg_check_errors _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd`,
  fourier: `
    fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn
    fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq
    fft_rfftn istft stft _fft_c2c _fft_c2r _fft_r2c bartlett_window blackman_window hamming_window hann_window
    kaiser_window`,
  activations: `
    celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid log_softmax mish prelu relu relu6
    rrelu rrelu_with_noise_functional selu sigmoid silu softmax softplus softshrink threshold _log_softmax
    _prelu_kernel _safe_softmax _softmax`,
  dropout: `
    alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout`,
  convolutions: `
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution`,
  pooling: `
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d
    max_unpool3d _adaptive_avg_pool2d _adaptive_avg_pool3d`,
  norms: `
    batch_norm group_norm instance_norm layer_norm native_batch_norm native_group_norm native_layer_norm renorm rms_norm
    _fused_rms_norm _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _weight_norm`,
  recurrent: `
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell`,
  attention: `
    scaled_dot_product_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu`,
  embedding: `
    embedding embedding_bag one_hot _embedding_bag _embedding_bag_forward_only`,
  losses: `
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity cross_entropy_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd pairwise_distance
    poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss cdist _cdist_forward`,
  sampling: `
    affine_grid_generator col2im grid_sampler grid_sampler_2d grid_sampler_3d im2col upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle`,
  padding: `
    constant_pad_nd pad pad_sequence reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d`,
  random: `
    bernoulli binomial cauchy exponential geometric log_normal multinomial normal normal_functional poisson rand
    rand_like randint randint_like randn randn_like random randperm uniform _sample_dirichlet _standard_gamma`,
  making: `
    arange empty empty_like empty_permuted eye full full_like linspace logspace new_empty new_full new_ones new_zeros
    ones ones_like scalar_tensor tril_indices triu_indices zeros zeros_like`,
  shapes: `
    adjoint alias alias_copy as_strided atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to
    cartesian_prod cat chunk clone column_stack combinations concat concatenate contiguous copy detach detach_copy diag
    diag_embed diagflat diagonal diagonal_copy diagonal_scatter dsplit dstack expand expand_as expand_copy flatten flip
    fliplr flipud hsplit hstack lift lift_fresh lift_fresh_copy mH mT matrix_H meshgrid moveaxis movedim narrow
    narrow_copy numpy_T permute permute_copy ravel repeat repeat_interleave reshape reshape_as roll rot90 row_stack
    select select_copy select_scatter slice slice_copy slice_scatter split split_copy split_with_sizes
    split_with_sizes_copy squeeze squeeze_copy stack swapaxes swapdims t t_copy tensor_split tile to transpose
    transpose_copy tril triu type_as unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_copy view view_as view_as_complex_copy view_as_real_copy view_copy
    vsplit vstack _to_copy _unsafe_view`,
  indexing: `
    fill fill_diagonal gather index index_add index_copy index_fill index_put index_reduce index_select masked_fill
    masked_scatter masked_select put scatter scatter_add scatter_reduce take take_along_dim zero _unsafe_index
    _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate`,
  quantisationAware: `
    fake_quantize_per_channel_affine fake_quantize_per_tensor_affine`,
} as const;

const NAMES: ReadonlySet<string> = new Set(Object.values(GROUPS).flatMap((text) => text.trim().split(/\s+/)));

/** In place, these give a tensor other memory, or sizes that the program does not know. */
const NOT_IN_PLACE = new Set(
  ("as_strided_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_ resize_ resize_as_ set_").split(" "),
);

const RECURRENT = new Set(["gru", "lstm", "rnn_relu", "rnn_tanh"]);

/** A text argument may only name a way to compute, never something outside the graph. */
const TEXTS = new Set([
  ..."approximate driver equation indexing interpolation mode norm ord p pad_mode padding padding_side".split(
    " ",
  ),
  ..."reduce rounding_mode side UPLO api_name".split(" "),
]);

const TYPES = new Set(
  "Tensor Scalar int float bool str ScalarType Device Layout MemoryFormat Generator".split(" "),
);

const OUT = "it writes to an argument given for its result: write it without out=";

const BY_OTHERS =
  ", so write it with PyTorch's. program.run_decompositions() before torch.export.save does so where its library made it of " +
  "these (CompositeImplicitAutograd), and where it is given a function for it: run_decompositions({torch.ops....default: f})";

/** Operations of libraries that many use, and that run_decompositions() leaves as they are. */
const INSTEAD: Readonly<Record<string, string>> = {
  "transformers.grouped_mm_fallback":
    '. Call model.set_experts_implementation("batched_mm") before torch.export.export: it has the same losses but for rounding',
};

/** Returns "" where a graph may call "aten.from_file.default", by its name alone. */
export function refusedName(namespace: string, name: string, overload: string): string {
  if (namespace !== "aten") {
    return `"${namespace}" is no part of libtorch that is run here: a custom operation needs its own library${
      INSTEAD[`${namespace}.${name}`] ?? BY_OTHERS
    }`;
  }
  if (/(^|_)out$/.test(overload)) return OUT;
  if (overload === "data" && RECURRENT.has(name)) {
    return "packed sequences are not supported: give it padded ones";
  }
  if (NOT_IN_PLACE.has(name)) {
    return `it changes a tensor's sizes or memory in place: write ${
      name.replace(/_$/, "")
    }, and use what it gives`;
  }
  if (NAMES.has(name) || (/[a-z0-9]_$/.test(name) && NAMES.has(name.slice(0, -1)))) return "";
  return "it is not among the operations that are known to do no harm, whatever a file asks of them: write it with others, " +
    "or call program.run_decompositions() before torch.export.save";
}

/** Returns "" where the operation may be called as the loaded libtorch declares it. */
export function refusedSchema({ args, returns }: Pick<Schema, "args" | "returns">): string {
  const odd = args.find((a) => !TYPES.has(a.base) || (a.base === "str" && !TEXTS.has(a.name)));
  if (odd) return `its argument ${odd.name} (${odd.base}) is nothing that a graph may give`;
  if (args.some(({ memory }, i) => memory === "written" && i > 0)) return OUT;
  return returns.every(({ base }) => /^(Tensor|int|SymInt|float|bool|Scalar)$/.test(base))
    ? ""
    : "what it gives is no tensor and no number";
}

/** These may return their input or a view of it, and their schemas don't show it. */
const MAY_RETURN = new Set(
  ("alpha_dropout atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod conj_physical dropout einsum " +
    "feature_alpha_dropout feature_dropout lift meshgrid type_as unsafe_chunk unsafe_split unsafe_split_with_sizes " +
    "_unsafe_view").split(" "),
);

/** Returns the argument that the results may share memory with beside what the schema shows; -1 for none. */
export const mayReturn = (name: string): number => MAY_RETURN.has(name) ? (name === "einsum" ? 1 : 0) : -1;

export const admittedNames = (): readonly string[] => [...NAMES];

/** These draw, and have no generator among their arguments. Operations in place come with their names. */
const WITHOUT_GENERATOR = new Set(
  ("rand randn randint rand_like randn_like randint_like randperm dropout feature_dropout alpha_dropout " +
    "feature_alpha_dropout native_dropout bernoulli normal scaled_dot_product_attention " +
    "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention " +
    "_scaled_dot_product_flash_attention_for_cpu lstm gru rnn_tanh rnn_relu").split(" "),
);

export const draws = (name: string, { schema }: Pick<Operator, "schema">): boolean =>
  WITHOUT_GENERATOR.has(name.replace(/_$/, "")) || schema.args.some(({ base }) => base === "Generator");

/** Evaluation turns these off by a flag or a share, or averages them. */
const STILL_IN_EVALUATION = new Set(
  ("dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout rrelu scaled_dot_product_attention " +
    "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention " +
    "_scaled_dot_product_flash_attention_for_cpu lstm gru rnn_tanh rnn_relu rrelu_with_noise_functional")
    .split(" "),
);

/** "torch.ops.aten.rand.default" gives "rand". */
const nameOf = ({ target }: GraphNode): string => /^torch\.ops\.aten\.(\w+)/.exec(target)?.[1] ?? "";
const tensorIn = (node: GraphNode, at: number): string => {
  const value = node.inputs[at]?.value;
  return value?.kind === "tensor" ? value.name : "";
};
const tensorOf = ({ outputs: [value] }: GraphNode): string => value?.kind === "tensor" ? value.name : "";

/**
 * timm and transformers write stochastic depth as floor(rand + share that is kept). The share is the average
 * of what floor gives, whose name is the key.
 */
export function keptShares({ nodes }: Pick<Program, "nodes">): Map<string, number> {
  const found = new Map<string, number>();
  const uses = new Map<string, GraphNode[]>();
  for (const node of nodes) {
    for (const { value } of node.inputs) {
      if (value.kind === "tensor") uses.set(value.name, [...(uses.get(value.name) ?? []), node]);
    }
  }
  const only = (name: string): GraphNode | undefined => {
    const [use, ...others] = uses.get(name) ?? [];
    return others.length === 0 ? use : undefined;
  };
  for (const drawn of nodes) {
    if (!/^rand(_like)?$/.test(nameOf(drawn))) continue;
    const sum = only(tensorOf(drawn));
    if (!sum || !/^add_?$/.test(nameOf(sum)) || tensorIn(sum, 0) !== tensorOf(drawn)) continue;
    const share = sum.inputs[1]?.value, floor = only(tensorOf(sum));
    if (share?.kind !== "number" || share.value < 0 || share.value > 1 || sum.inputs.length > 2) continue;
    if (floor && /^floor_?$/.test(nameOf(floor))) found.set(tensorOf(floor), share.value);
  }
  return found;
}

type Call = (...args: unknown[]) => unknown;

/** Null means that evaluation draws, too. */
export function averaged(name: string, overload: string, kept: number | undefined): Call | null {
  if (kept !== undefined) return (x) => fill_(emptyLike(x as Tensor), kept);
  // The share is that of stochastic depth.
  if (name === "bernoulli_" && overload === "float") return (x, p = 0.5) => fill_(x as Tensor, p as number);
  if (name === "bernoulli" && overload === "p") return (x, p) => fill_(emptyLike(x as Tensor), p as number);
  return null;
}

export function stillDrawing(program: Program, isDrawing: (node: GraphNode) => boolean): GraphNode[] {
  const kept = keptShares(program), depths = new Set<string>();
  for (const node of program.nodes) if (kept.has(tensorOf(node))) depths.add(tensorIn(node, 0));
  const feeds = (node: GraphNode) =>
    program.nodes.some((next) => depths.has(tensorOf(next)) && tensorIn(next, 0) === tensorOf(node));
  return program.nodes.filter((node) => {
    const name = nameOf(node);
    if (name === "" || !isDrawing(node) || STILL_IN_EVALUATION.has(name.replace(/_$/, ""))) return false;
    const overload = node.target.slice(node.target.lastIndexOf(".") + 1);
    return averaged(name, overload, undefined) === null && !feeds(node);
  });
}
