// The ops, one line each: libtorch's own schema is the whole description. Those that nothing here calls are for
// users' own models (mod.ts hands all of them out as `ops`). Names are libtorch's in camel case; where TypeScript or
// clarity needs another, the schema says which op it is.
import { aten } from "./aten.ts";

export const backwardOp = aten(
  "_backward(Tensor self, Tensor[] inputs, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> ()",
);
export const zerosOp = aten(
  "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
export const onesOp = aten(
  "ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
export const empty = aten(
  "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
);
export const randn = aten(
  "randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
export const rand = aten(
  "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
export const randint = aten(
  "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
export const zerosLike = aten(
  "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
);
export const emptyLike = aten(
  "empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
);
export const onesLike = aten(
  "ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
);
export const normal_ = aten(
  "normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor(a!)",
);
export const uniform_ = aten(
  "uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> Tensor(a!)",
);
export const bernoulli_ = aten(
  "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
);
export const copy_ = aten("copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)");
export const detach = aten("detach(Tensor(a) self) -> Tensor(a)");
export const alias = aten("alias(Tensor(a) self) -> Tensor(a)");
export const isLeaf = aten("is_leaf(Tensor self) -> bool");
export const clone = aten("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor");
export const contiguous = aten(
  "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
);
export const view = aten("view(Tensor(a) self, SymInt[] size) -> Tensor(a)");
export const reshape = aten("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)");
export const narrow = aten("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)");
export const select = aten("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)");
export const slice = aten(
  "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
);
export const transpose = aten("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)");
export const t = aten("t(Tensor(a) self) -> Tensor(a)");
export const permute = aten("permute(Tensor(a) self, int[] dims) -> Tensor(a)");
export const expand = aten("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)");
export const unsqueeze = aten("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)");
export const squeeze = aten("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)");
export const flatten = aten(
  "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
);
export const split = aten("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
export const chunk = aten("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]");
export const unbind = aten("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]");
export const cat = aten("cat(Tensor[] tensors, int dim=0) -> Tensor");
export const stack = aten("stack(Tensor[] tensors, int dim=0) -> Tensor");
export const flip = aten("flip(Tensor self, int[] dims) -> Tensor");
export const roll = aten("roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor");
export const pad = aten(
  'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
);
export const reflectionPad2d = aten("reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor");
export const replicationPad2d = aten("replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor");
export const asStrided = aten(
  "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
);
export const viewAsReal = aten("view_as_real(Tensor(a) self) -> Tensor(a)");
export const viewAsComplex = aten("view_as_complex(Tensor(a) self) -> Tensor(a)");
export const real = aten("real(Tensor(a) self) -> Tensor(a)");
export const toDtype = aten(
  "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
);
export const toCopy = aten(
  "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
);
export const pinMemory = aten("pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)");
export const isPinned = aten("is_pinned(Tensor self, Device? device=None) -> bool");
export const mul = aten("mul.Tensor(Tensor self, Tensor other) -> Tensor");
export const mul_ = aten("mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)");
export const div = aten("div.Tensor(Tensor self, Tensor other) -> Tensor");
export const div_ = aten("div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)");
export const neg = aten("neg(Tensor self) -> Tensor");
export const exp = aten("exp(Tensor self) -> Tensor");
export const log = aten("log(Tensor self) -> Tensor");
export const log1p = aten("log1p(Tensor self) -> Tensor");
export const expm1 = aten("expm1(Tensor self) -> Tensor");
export const sqrt = aten("sqrt(Tensor self) -> Tensor");
export const rsqrt = aten("rsqrt(Tensor self) -> Tensor");
export const reciprocal = aten("reciprocal(Tensor self) -> Tensor");
export const abs = aten("abs(Tensor self) -> Tensor");
export const square = aten("square(Tensor self) -> Tensor");
export const sign = aten("sign(Tensor self) -> Tensor");
export const sin = aten("sin(Tensor self) -> Tensor");
export const cos = aten("cos(Tensor self) -> Tensor");
export const tanh = aten("tanh(Tensor self) -> Tensor");
export const sigmoid = aten("sigmoid(Tensor self) -> Tensor");
export const asinh = aten("asinh(Tensor self) -> Tensor");
export const erf = aten("erf(Tensor self) -> Tensor");
export const erfinv = aten("erfinv(Tensor self) -> Tensor");
export const erfinv_ = aten("erfinv_(Tensor(a!) self) -> Tensor(a!)");
export const floor = aten("floor(Tensor self) -> Tensor");
export const pow = aten("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor");
export const maximum = aten("maximum(Tensor self, Tensor other) -> Tensor");
export const minimum = aten("minimum(Tensor self, Tensor other) -> Tensor");
export const clamp = aten("clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor");
export const clamp_ = aten(
  "clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)",
);
export const lerp_ = aten("lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!)");
export const sum = aten("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor");
export const sumDim = aten(
  "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
);
export const mean = aten("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor");
export const meanDim = aten(
  "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
);
export const linalgMatrixNorm = aten(
  'linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor',
);
export const variance = aten(
  "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
);
export const amax = aten("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor");
export const amin = aten("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor");
export const argmax = aten("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor");
export const maxValue = aten("max(Tensor self) -> Tensor");
export const minValue = aten("min(Tensor self) -> Tensor");
export const allTrue = aten("all(Tensor self) -> Tensor");
export const anyTrue = aten("any(Tensor self) -> Tensor");
export const isfinite = aten("isfinite(Tensor self) -> Tensor");
export const isnan = aten("isnan(Tensor self) -> Tensor");
export const eq = aten("eq.Tensor(Tensor self, Tensor other) -> Tensor");
export const ne = aten("ne.Tensor(Tensor self, Tensor other) -> Tensor");
export const gt = aten("gt.Tensor(Tensor self, Tensor other) -> Tensor");
export const ge = aten("ge.Tensor(Tensor self, Tensor other) -> Tensor");
export const lt = aten("lt.Tensor(Tensor self, Tensor other) -> Tensor");
export const le = aten("le.Tensor(Tensor self, Tensor other) -> Tensor");
export const where = aten("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor");
export const maskedFill = aten("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor");
export const logicalAnd = aten("logical_and(Tensor self, Tensor other) -> Tensor");
export const logicalNot = aten("logical_not(Tensor self) -> Tensor");
export const topk = aten(
  "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
);
export const gather = aten("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor");
export const indexSelect = aten("index_select(Tensor self, int dim, Tensor index) -> Tensor");
export const indexSelectOut = aten(
  "index_select.out(Tensor self, int dim, Tensor index, *, Tensor(a!) out) -> Tensor(a!)",
);
export const scatterAdd_ = aten(
  "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
);
export const indexCopy_ = aten(
  "index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)",
);
export const cumsum = aten("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor");
export const dot = aten("dot(Tensor self, Tensor tensor) -> Tensor");
export const matmul = aten("matmul(Tensor self, Tensor other) -> Tensor");
export const mm = aten("mm(Tensor self, Tensor mat2) -> Tensor");
export const bmm = aten("bmm(Tensor self, Tensor mat2) -> Tensor");
export const linear = aten("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor");
export const tensordot = aten(
  "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
);
export const linalgEigh = aten(
  'linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
);
export const linalgQr = aten('linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)');
export const sort = aten(
  "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
);
export const conv1d = aten(
  "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
);
export const conv2d = aten(
  "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
);
export const conv3d = aten(
  "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
);
export const convTranspose1d = aten(
  "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor",
);
export const convTranspose2d = aten(
  "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor",
);
export const convTranspose3d = aten(
  "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor",
);
export const batchNorm = aten(
  "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
);
export const layerNorm = aten(
  "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
);
export const groupNorm = aten(
  "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
);
export const rmsNorm = aten(
  "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
);
export const embedding = aten(
  "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
);
export const dropout = aten("dropout(Tensor input, float p, bool train) -> Tensor");
export const scaledDotProductAttention = aten(
  "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
);
export const maxPool1d = aten(
  "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor",
);
export const maxPool2d = aten(
  "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
);
export const maxPool3d = aten(
  "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
);
export const avgPool1d = aten(
  "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
);
export const avgPool2d = aten(
  "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
);
export const avgPool3d = aten(
  "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
);
export const adaptiveAvgPool1d = aten("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor");
export const adaptiveAvgPool2d = aten("adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor");
export const adaptiveAvgPool3d = aten("adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor");
export const relu = aten("relu(Tensor self) -> Tensor");
export const relu_ = aten("relu_(Tensor(a!) self) -> Tensor(a!)");
export const prelu = aten("prelu(Tensor self, Tensor weight) -> Tensor");
export const gelu = aten('gelu(Tensor self, *, str approximate="none") -> Tensor');
export const silu = aten("silu(Tensor self) -> Tensor");
export const mish = aten("mish(Tensor self) -> Tensor");
export const hardswish = aten("hardswish(Tensor self) -> Tensor");
export const hardsigmoid = aten("hardsigmoid(Tensor self) -> Tensor");
export const logSigmoid = aten("log_sigmoid(Tensor self) -> Tensor");
export const softmax = aten("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor");
export const logSoftmax = aten("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor");
export const upsampleNearest1d = aten(
  "upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
);
export const upsampleNearest2d = aten(
  "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
);
export const upsampleNearest3d = aten(
  "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
);
export const upsampleBilinear2d = aten(
  "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
);
export const upsampleTrilinear3d = aten(
  "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
);
export const upsampleLinear1d = aten(
  "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
);
export const pixelShuffle = aten("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor");
export const crossEntropyLoss = aten(
  "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
);
export const mseLoss = aten("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor");
export const l1Loss = aten("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor");
export const huberLoss = aten(
  "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
);
export const smoothL1Loss = aten(
  "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
);
export const nllLoss = aten(
  "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
);
export const klDiv = aten(
  "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
);
export const poissonNllLoss = aten(
  "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
);
export const softMarginLoss = aten("soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor");
export const hingeEmbeddingLoss = aten(
  "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
);
export const marginRankingLoss = aten(
  "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
);
export const multilabelMarginLoss = aten(
  "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
);
export const cosineEmbeddingLoss = aten(
  "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
);
export const tripletMarginLoss = aten(
  "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
);
export const ctcLoss = aten(
  "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
);
export const bceWithLogits = aten(
  "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
);
export const bce = aten(
  "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
);
export const fusedAdamW_ = aten(
  "_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const fusedAdamWByTensor_ = aten(
  "_fused_adamw_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const fusedAdamByTensor_ = aten(
  "_fused_adam_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const fusedSgdByTensor_ = aten(
  "_fused_sgd_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, Tensor lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const fusedAdam_ = aten(
  "_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const fusedSgd_ = aten(
  "_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
);
export const foreachZero_ = aten("_foreach_zero_(Tensor(a!)[] self) -> ()");
export const foreachCopy_ = aten(
  "_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()",
);
export const foreachMul_ = aten("_foreach_mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()");
export const foreachAddcmul_ = aten(
  "_foreach_addcmul_.Tensor(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> ()",
);
export const foreachAddcdiv_ = aten(
  "_foreach_addcdiv_.Tensor(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> ()",
);
export const foreachSqrt = aten("_foreach_sqrt(Tensor[] self) -> Tensor[]");
export const checkAndUnscale_ = aten(
  "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
);
export const updateLossScale_ = aten(
  "_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)",
);
export const fftFftn = aten(
  "fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
);
export const fftIfftn = aten(
  "fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
);
export const fftRfft2 = aten(
  "fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
);
export const fftIrfft2 = aten(
  "fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
);
export const fftFft2 = aten(
  "fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
);
export const fftIfft2 = aten(
  "fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
);
export const fftRfftn = aten(
  "fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
);
export const fftIrfftn = aten(
  "fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
);
