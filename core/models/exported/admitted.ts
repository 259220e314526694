// Lists the operations of libtorch that the graph of an exported program may call, and those that draw random
// numbers. Some operations open files, take raw memory or look at indices that nobody checks, and a graph may
// come from anywhere. So these are the forms that torch.export writes for models (tests/ffi/seen_operations.json,
// which `./scripts/exported operations` collects) and PyTorch's core ones, and no others. To admit another, add its
// form to its group, and a check to arguments.ts where libtorch does not check its arguments.
// tests/ffi/admitted_operations_test.ts walks all operations: none that is admitted may take the name of a file,
// memory, or a view without bounds. `./scripts/storm arguments` gives them odd arguments, and
// `./scripts/storm exported` runs changed graphs: none may end the process.
import type { Schema } from "../../../ffi/schema.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Operator } from "../../../ffi/operators.ts";
import { fill_ } from "../../../ffi/make.ts";
import { emptyLike } from "../../../ffi/ops.ts";
import type { ExportedProgram, GraphNode } from "./graph.ts";

/** "relu" is the form relu.default alone; "add.Scalar,Tensor" are two. */
const GROUPS = {
  arithmetic: `
    abs abs_ absolute add.Scalar,Tensor add_.Tensor addcdiv addcdiv_ addcmul addcmul_ ceil clamp.Tensor,default clamp_
    clamp_max clamp_min.Tensor,default clamp_min_ clip.Tensor,default clip_ copysign.Scalar,Tensor copysign_.Scalar
    deg2rad div.Scalar,Scalar_mode,Tensor,Tensor_mode div_.Tensor,Tensor_mode divide.Tensor,Tensor_mode exp exp_ exp2
    expm1 fix float_power.Scalar,Tensor_Scalar floor floor_ floor_divide floor_divide_.Tensor fmod.Scalar,Tensor
    fmod_.Scalar frac gcd heaviside hypot lcm ldexp.Tensor lerp.Scalar,Tensor lerp_.Scalar log log10 log1p log2
    logaddexp logaddexp2 maximum minimum mul.Scalar,Tensor mul_.Tensor multiply.Tensor nan_to_num nan_to_num_ neg neg_
    negative nextafter positive pow.Scalar,Tensor_Scalar,Tensor_Tensor pow_.Scalar reciprocal
    remainder.Scalar,Scalar_Tensor,Tensor remainder_.Scalar round.decimals,default round_ rsqrt rsub.Scalar,Tensor sgn
    sign signbit sqrt square sub.Scalar,Tensor sub_.Tensor subtract.Tensor true_divide.Tensor trunc
    xlogy.Scalar_Other,Scalar_Self,Tensor xlogy_.Scalar_Other cumulative_trapezoid.dx trapezoid.dx,x
    gradient.array,scalarint,scalarrayint diff fmax fmin log_ rad2deg sqrt_ square_ trapz.dx`,
  trigonometry: `
    acos acosh arctan2 asin asinh atan atan2 atanh cos cos_ cosh sin sinc sinh tan tanh tanh_`,
  special: `
    digamma erf erfc erfinv i0 lgamma logit mvlgamma polygamma special_entr special_ndtr special_xlog1py.other_scalar
    special_zeta.other_scalar special_expit special_logsumexp`,
  comparison: `
    eq.Scalar,Tensor ge.Scalar,Tensor greater.Scalar gt.Scalar,Tensor gt_.Scalar isclose isfinite
    isin.Tensor_Scalar,Tensor_Tensor isinf isnan isreal le.Scalar,Tensor less_equal.Tensor lt.Scalar,Tensor
    ne.Scalar,Tensor not_equal.Scalar where.Scalar,ScalarOther,ScalarSelf,self`,
  bits: `
    __and__.Scalar,Tensor __iand__.Scalar __ilshift__.Scalar __lshift__.Scalar __or__.Scalar,Tensor __rshift__.Scalar
    __xor__.Scalar,Tensor bitwise_and.Scalar,Tensor bitwise_and_.Scalar bitwise_left_shift.Scalar_Tensor,Tensor_Scalar
    bitwise_not bitwise_or.Scalar,Scalar_Tensor,Tensor bitwise_right_shift.Tensor bitwise_xor.Scalar,Tensor logical_and
    logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor`,
  complex: `
    angle complex imag polar real resolve_conj view_as_complex view_as_real _conj _neg_view`,
  reductions: `
    all.default,dim amax amin aminmax any.default,dim,dims argmax argmin count_nonzero cummax cummin cumprod cumsum
    cumsum_ dist logcumsumexp logsumexp max.default,dim,other mean.default,dim median.default,dim
    min.default,dim,other mode nanmean nanquantile.scalar nansum prod.default,dim_int quantile.default,scalar
    std.correction,default,dim std_mean.correction sum.default,dim_IntList trace var.correction,dim
    var_mean.correction,dim _is_all_true bincount histc`,
  sorting: `
    argsort bucketize.Tensor kthvalue msort nonzero nonzero_static searchsorted.Scalar,Tensor sort.default,stable topk
    unique_consecutive _unique2 argwhere`,
  products: `
    addbmm addmm addmm_ addmv addr baddbmm bilinear bmm chain_matmul cross dot einsum ger kron linear matmul
    matrix_exp mm mv outer tensordot vdot linalg_vecdot`,
  linearAlgebra: `
    linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_eigh linalg_eigvalsh linalg_householder_product
    linalg_inv linalg_inv_ex linalg_matrix_exp linalg_matrix_norm.default,str_ord linalg_matrix_power linalg_multi_dot
    linalg_norm.default,ord_str linalg_pinv.atol_rtol_tensor linalg_qr linalg_slogdet linalg_solve
    linalg_solve_triangular linalg_svd linalg_svdvals linalg_vector_norm logdet _linalg_det _linalg_eigh
    _linalg_slogdet _linalg_solve_ex _linalg_svd inverse`,
  fourier: `
    fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_ifft fft_ifftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
    fft_rfft2 fft_rfftn istft stft _fft_c2c _fft_c2r _fft_r2c blackman_window hamming_window hann_window kaiser_window
    fft_ifft2 fft_ifftshift fft_rfftfreq`,
  activations: `
    celu celu_ elu elu_ gelu glu hardshrink hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ leaky_relu
    leaky_relu_ log_sigmoid log_softmax.int mish mish_ prelu relu relu_ relu6 rrelu rrelu_ rrelu_with_noise_functional
    selu selu_ sigmoid sigmoid_ silu silu_ softmax.int softplus softshrink threshold threshold_ _log_softmax _softmax`,
  dropout: `
    alpha_dropout dropout dropout_ feature_alpha_dropout feature_dropout feature_dropout_ native_dropout`,
  convolutions: `
    conv1d.default,padding conv2d.default,padding conv3d.default,padding conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution`,
  pooling: `
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d
    max_unpool3d _adaptive_avg_pool2d _adaptive_avg_pool3d`,
  norms: `
    batch_norm group_norm instance_norm layer_norm native_group_norm native_layer_norm renorm renorm_ rms_norm
    _fused_rms_norm _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _weight_norm`,
  recurrent: `
    gru.input gru_cell lstm.input lstm_cell rnn_relu.input rnn_relu_cell rnn_tanh.input rnn_tanh_cell`,
  attention: `
    scaled_dot_product_attention _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu`,
  embedding: `
    embedding embedding_bag.padding_idx one_hot _embedding_bag`,
  losses: `
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity cross_entropy_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss_nd pairwise_distance poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss cdist _cdist_forward`,
  sampling: `
    affine_grid_generator col2im grid_sampler grid_sampler_2d grid_sampler_3d im2col upsample_bicubic2d.vec
    upsample_bilinear2d.vec upsample_linear1d.vec upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec
    upsample_trilinear3d.vec _upsample_bicubic2d_aa.default,vec _upsample_bilinear2d_aa.default,vec
    _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec channel_shuffle
    pixel_shuffle pixel_unshuffle`,
  padding: `
    constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d`,
  random: `
    bernoulli.default,p bernoulli_.float cauchy cauchy_ exponential exponential_ geometric geometric_ log_normal
    log_normal_ multinomial normal.Tensor_Tensor,Tensor_float normal_ normal_functional poisson rand rand_like
    randint.low randn randn_like randperm uniform uniform_ _sample_dirichlet _standard_gamma randint_like.low_dtype`,
  making: `
    arange.default,start,start_step empty.memory_format empty_like empty_permuted eye.default,m full full_like
    linspace logspace new_empty new_full new_ones new_zeros ones ones_like scalar_tensor tril_indices zeros zeros_like
    triu_indices`,
  shapes: `
    alias as_strided atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat chunk clone column_stack
    combinations contiguous copy copy_ detach detach_ diag diag_embed diagonal diagonal_scatter dstack expand
    expand_as flatten.using_ints flip fliplr hstack lift_fresh_copy mH mT matrix_H meshgrid.default,indexing
    moveaxis.int movedim.int narrow numpy_T permute ravel repeat repeat_interleave.Tensor,self_int,self_Tensor reshape
    reshape_as roll rot90 select.int select_scatter slice.Tensor slice_scatter split.Tensor split_with_sizes
    squeeze.default,dim,dims stack swapaxes t tensor_split.indices,sections tile to.device,dtype,dtype_layout
    transpose.int tril triu type_as unbind.int unflatten.int unfold unsqueeze view view_as vstack _to_copy atleast_1d
    atleast_2d concat concatenate flipud tril_ triu_`,
  indexing: `
    fill.Scalar fill_.Scalar fill_diagonal_ gather index.Tensor index_add index_add_ index_copy index_copy_
    index_fill.int_Scalar,int_Tensor index_fill_.int_Scalar index_put index_put_ index_reduce index_select
    masked_fill.Scalar,Tensor masked_fill_.Scalar masked_scatter masked_scatter_ put scatter.src,value,value_reduce
    scatter_.value,value_reduce scatter_add scatter_add_ scatter_reduce.two scatter_reduce_.two take take_along_dim
    zero_ masked_select`,
} as const;

const formsOf = (item: string): string[] => {
  const [name, overloads = "default"] = item.split(".");
  return overloads.split(",").map((overload) => `${name}.${overload}`);
};

const FORMS: ReadonlySet<string> = new Set(
  Object.values(GROUPS).flatMap((text) => text.trim().split(/\s+/)).flatMap(formsOf),
);

/** In place, these give a tensor other memory, or sizes that the program does not know. */
const NOT_IN_PLACE = new Set(
  ("as_strided_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_ resize_ resize_as_ set_").split(" "),
);

const RECURRENT = new Set(["gru", "lstm", "rnn_relu", "rnn_tanh"]);

/** A text argument may only name a way to compute, never something outside the graph. */
const TEXTS = new Set(
  "approximate driver equation indexing interpolation mode norm ord padding reduce rounding_mode side UPLO"
    .split(" "),
);

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
  const form = overload || "default";
  if (FORMS.has(`${name}.${form}`)) return "";
  const functional = name.replace(/_$/, "");
  const instead = functional !== name && FORMS.has(`${functional}.${form}`)
    ? `write ${functional}, and use what it gives`
    : "write it with others";
  return `it is not among the operations that models are known to be exported with, which alone are run: ${instead}, ` +
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
  ("alpha_dropout atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod dropout einsum feature_alpha_dropout feature_dropout " +
    "meshgrid type_as").split(" "),
);

/** Returns the argument that the results may share memory with beside what the schema shows; -1 for none. */
export const mayReturn = (name: string): number => MAY_RETURN.has(name) ? (name === "einsum" ? 1 : 0) : -1;

/** As "relu.default". */
export const admittedForms = (): readonly string[] => [...FORMS];

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
const CONSTANT_IN_EVALUATION = new Set(
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
export function keptShares({ nodes }: Pick<ExportedProgram, "nodes">): Map<string, number> {
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

export function drawingNodes(program: ExportedProgram, isDrawing: (node: GraphNode) => boolean): GraphNode[] {
  const kept = keptShares(program), depths = new Set<string>();
  for (const node of program.nodes) if (kept.has(tensorOf(node))) depths.add(tensorIn(node, 0));
  const feeds = (node: GraphNode) =>
    program.nodes.some((next) => depths.has(tensorOf(next)) && tensorIn(next, 0) === tensorOf(node));
  return program.nodes.filter((node) => {
    const name = nameOf(node);
    if (name === "" || !isDrawing(node) || CONSTANT_IN_EVALUATION.has(name.replace(/_$/, ""))) return false;
    const overload = node.target.slice(node.target.lastIndexOf(".") + 1);
    return averaged(name, overload, undefined) === null && !feeds(node);
  });
}
