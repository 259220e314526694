// Gradients of calls: libtorch's own backward ops. A call's gradient can't be derived once more unless that op stands
// here, too.
import { attendedBackward, attendedOnCpuBackward, FUSED_ATTENTIONS } from "./attentions.ts";
import { type Builder, isRef } from "./builder.ts";
import { type Backward, type CallRule, KERNEL_RULES, of } from "./kernel_rules.ts";
import { hasGradients, nameOfCall, type Node, type Ref } from "./graph.ts";
import { SYNCED_NORM_BACKWARD } from "../../ffi/tape.ts";
import { gradientOfRecorded, isRecorded } from "./recorded_calls.ts";
import { Refused } from "./refused.ts";
import { GELU_BACKWARD } from "./turned_gelu.ts";

export type Call = Extract<Node, { op: "call" }>;

export const CONVOLUTION_BACKWARD =
  "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, " +
  "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, " +
  "bool[3] output_mask) -> (Tensor, Tensor, Tensor)";

const RULES: Readonly<Record<string, CallRule>> = {
  ...KERNEL_RULES,
  convolution: ({ b, back, given, wanted, shapeOf }) => {
    const [x, w, bias, stride, padding, dilation, transposed, outputPadding, groups] = given;
    const mask = [wanted(0), wanted(1), bias !== null && wanted(2)];
    const channels = bias === null ? null : shapeOf(2);
    const call = b.call(
      CONVOLUTION_BACKWARD,
      [of(back[0]!), x, w, channels, stride, padding, dilation, transposed, outputPadding, groups, mask],
      shapeOf(0),
    );
    return ofMasked(b, call, mask, [shapeOf(0), mask[1] ? shapeOf(1) : [], mask[2] ? shapeOf(2) : []], [
      0,
      1,
      2,
    ]);
  },
  synced_norm: ({ b, y, result, back, given, shapeOf }) => {
    const scale = result(1, shapeOf(0).map((size, i) => i === 1 ? size : 1)), count = result(2, [1]);
    const args = [of(back[0]!), of(y), of(scale), of(count), given[1]];
    return [b.call(SYNCED_NORM_BACKWARD, args, shapeOf(0))];
  },
  native_batch_norm: ofBatchNorm,
  _native_batch_norm_legit_functional: ofBatchNorm,
  native_layer_norm: ({ b, result, back, given, wanted, shapeOf }) => {
    const [x, shape, weight, bias] = given, normalised = (shape as readonly number[]).length;
    const rows = shapeOf(0).map((size, d, all) => d < all.length - normalised ? size : 1);
    const mask = [wanted(0), weight !== null && wanted(2), bias !== null && wanted(3)];
    const call = b.call(
      "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, " +
        "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      [of(back[0]!), x, shape, of(result(1, rows)), of(result(2, rows)), weight, bias, mask],
      shapeOf(0),
    );
    return ofMasked(b, call, mask, [shapeOf(0), shape as readonly number[], shape as readonly number[]], [
      0,
      2,
      3,
    ]);
  },
  native_group_norm: ({ b, result, back, given, wanted, shapeOf }) => {
    const [x, weight, bias, count, channels, places, groups] = given;
    const rows = [count as number, groups as number];
    const mask = [wanted(0), weight !== null && wanted(1), bias !== null && wanted(2)];
    const call = b.call(
      "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, " +
        "SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      [
        ...[of(back[0]!), x, of(result(1, rows)), of(result(2, rows)), weight],
        ...[count, channels, places, groups, mask],
      ],
      shapeOf(0),
    );
    return ofMasked(b, call, mask, [shapeOf(0), [channels as number], [channels as number]], [0, 1, 2]);
  },
  ...Object.fromEntries(
    Object.entries(FUSED_ATTENTIONS).map(([name, kernel]): [string, CallRule] => [
      name,
      ({ b, y, back, given }) => attendedBackward(b, kernel, y, back[0]!, given),
    ]),
  ),
  _softmax: (at) => [ofSoftmax(at, "_softmax")],
  _log_softmax: (at) => [ofSoftmax(at, "_log_softmax")],
  nll_loss_forward: (at) => [ofNll(at, "nll_loss")],
  nll_loss2d_forward: (at) => [ofNll(at, "nll_loss2d")],
  gelu: ({ b, back, given, shapeOf }) => [b.call(GELU_BACKWARD, [of(back[0]!), ...given], shapeOf(0))],
  turned_gelu: ({ b, back, given, shapeOf }) => {
    const [x, dims] = given as [{ ref: Ref }, readonly number[]], shape = dims.map((d) => shapeOf(0)[d]);
    const grad = b.call(
      GELU_BACKWARD,
      [of(b.permute(back[0]!, dims)), of(b.permute(x.ref, dims)), "none"],
      shape,
    );
    return [b.permute(grad, dims.map((_, d) => dims.indexOf(d)))];
  },
  silu: (at) => [ofActivation(at, "silu")],
  mish: (at) => [ofActivation(at, "mish")],
  embedding: ({ b, back, given, shapeOf }) => {
    const [, indices, padding, scaled] = given;
    return [b.call(
      "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, " +
        "bool scale_grad_by_freq) -> Tensor",
      [of(back[0]!), indices, shapeOf(0)[0], padding, scaled],
      shapeOf(0),
    )];
  },
  index: ({ b, back, given, shapeOf }) => [
    b.call(
      "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
      [of(zerosFor(b, back[0]!, shapeOf(0))), given[1], of(back[0]!), true],
      shapeOf(0),
    ),
  ],
  gather: ({ b, back, given, shapeOf }) => [
    b.call(
      "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
      [of(zerosFor(b, back[0]!, shapeOf(0))), given[1], given[2], of(back[0]!)],
      shapeOf(0),
    ),
  ],
  /** To zeros, which no gradient goes back to. */
  scatter_add: ({ b, back, given, shapeOf }) => [
    null,
    null,
    null,
    b.call(
      "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
      [of(back[0]!), given[1], given[2]],
      shapeOf(3),
    ),
  ],
  index_select: ({ b, back, given, shapeOf }) => [
    b.call(
      "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
      [of(back[0]!), shapeOf(0), given[1], given[2]],
      shapeOf(0),
    ),
  ],
  /** It is what an index_add adds, too; its own gradient is an index_select. */
  index_select_backward: ({ b, back, given, shapeOf }) => [
    b.call(
      "index_select(Tensor self, int dim, Tensor index) -> Tensor",
      [of(back[0]!), given[2], given[3]],
      shapeOf(0),
    ),
  ],
  topk: (at) => [ofFound(at, 2)],
  sort: (at) => [ofFound(at, 1)],
  max: (at) => [ofFound(at, 1)],
  min: (at) => [ofFound(at, 1)],
  max_pool2d_with_indices: (at) => [ofMaxPool(at, 2)],
  max_pool3d_with_indices: (at) => [ofMaxPool(at, 3)],
  avg_pool2d: (at) => [ofAveragePool(at, 2)],
  avg_pool3d: (at) => [ofAveragePool(at, 3)],
  _adaptive_avg_pool2d: (at) => [ofAdaptivePool(at, 2)],
  _adaptive_avg_pool3d: (at) => [ofAdaptivePool(at, 3)],
  upsample_nearest1d: (at) => [ofUpsample(at, "nearest1d", 1, false)],
  upsample_nearest2d: (at) => [ofUpsample(at, "nearest2d", 2, false)],
  upsample_nearest3d: (at) => [ofUpsample(at, "nearest3d", 3, false)],
  upsample_linear1d: (at) => [ofUpsample(at, "linear1d", 1, true)],
  upsample_bilinear2d: (at) => [ofUpsample(at, "bilinear2d", 2, true)],
  upsample_trilinear3d: (at) => [ofUpsample(at, "trilinear3d", 3, true)],
  ...Object.fromEntries(
    ["reflection_pad", "replication_pad"].flatMap((name) =>
      [1, 2, 3].map((n): [string, CallRule] => [`${name}${n}d`, (at) => [ofBorder(at, `${name}${n}d`, n)]])
    ),
  ),
  _scaled_dot_product_flash_attention_for_cpu: ({ b, y, back, given }) =>
    attendedOnCpuBackward(b, y, back[0]!, given),
};

/** The results of a backward op that are wanted, by the numbers of the arguments that they are gradients of. */
function ofBatchNorm({ b, result, back, given, wanted, shapeOf }: Backward): readonly (Ref | null)[] {
  const [x, weight, bias, mean, variance, training, _momentum, eps] = given;
  const channels = training === true ? [shapeOf(0)[1]] : [0]; // statistics that were kept are used, and none are made
  const mask = [wanted(0), weight !== null && wanted(1), bias !== null && wanted(2)];
  const call = b.call(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, " +
      "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) " +
      "-> (Tensor, Tensor, Tensor)",
    [
      of(back[0]!),
      x,
      weight,
      mean,
      variance,
      of(result(1, channels)),
      of(result(2, channels)),
      training,
      eps,
      mask,
    ],
    shapeOf(0),
  );
  return ofMasked(b, call, mask, [shapeOf(0), mask[1] ? shapeOf(1) : [], mask[2] ? shapeOf(2) : []], [
    0,
    1,
    2,
  ]);
}

function ofMasked(
  b: Builder,
  call: Ref,
  mask: readonly boolean[],
  shapes: readonly (readonly number[])[],
  arguments_: readonly number[],
): (Ref | null)[] {
  const gradients: (Ref | null)[] = [];
  arguments_.forEach((argument, i) => {
    gradients[argument] = !mask[i] ? null : i === 0 ? call : b.result(call, i, shapes[i]);
  });
  return gradients;
}

const ofSoftmax = ({ b, y, back, given, shapeOf }: Backward, name: string): Ref =>
  b.call(
    `${name}_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor`,
    [of(back[0]!), of(y), given[1], "f32"],
    shapeOf(0),
  );

const ofNll = ({ b, result, back, given, shapeOf }: Backward, name: string): Ref =>
  b.call(
    `${name}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, ` +
      "SymInt ignore_index, Tensor total_weight) -> Tensor",
    [of(back[0]!), ...given, of(result(1, []))],
    shapeOf(0),
  );

const ofActivation = ({ b, back, given, shapeOf }: Backward, name: string): Ref =>
  b.call(
    `${name}_backward(Tensor grad_output, Tensor self) -> Tensor`,
    [of(back[0]!), ...given],
    shapeOf(0),
  );

const zerosFor = (b: Builder, like: Ref, shape: readonly number[]): Ref =>
  b.call(
    "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, " +
      "bool? pin_memory=None) -> Tensor",
    [of(like), shape],
    shape,
  );

/** Values go back to where they were found. */
function ofFound({ b, y, result, back, given, shapeOf }: Backward, dim: number): Ref {
  return b.call(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    [of(zerosFor(b, back[0]!, shapeOf(0))), given[dim], of(result(1, b.shape(y), "i64")), of(back[0]!)],
    shapeOf(0),
  );
}

function ofMaxPool({ b, y, result, back, given, shapeOf }: Backward, dims: number): Ref {
  return b.call(
    `max_pool${dims}d_with_indices_backward(Tensor grad_output, Tensor self, int[${dims}] kernel_size, ` +
      `int[${dims}] stride, int[${dims}] padding, int[${dims}] dilation, bool ceil_mode, Tensor indices) -> Tensor`,
    [of(back[0]!), ...given, of(result(1, b.shape(y), "i64"))],
    shapeOf(0),
  );
}

function ofAveragePool({ b, back, given, shapeOf }: Backward, dims: number): Ref {
  return b.call(
    `avg_pool${dims}d_backward(Tensor grad_output, Tensor self, int[${dims}] kernel_size, int[${dims}] stride, ` +
      `int[${dims}] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor`,
    [of(back[0]!), ...given],
    shapeOf(0),
  );
}

function ofAdaptivePool({ b, back, given, shapeOf }: Backward, dims: number): Ref {
  return b.call(
    `_adaptive_avg_pool${dims}d_backward(Tensor grad_output, Tensor self) -> Tensor`,
    [of(back[0]!), given[0]],
    shapeOf(0),
  );
}

const SCALES: Readonly<Record<number, string>> = {
  1: "float? scales=None",
  2: "float? scales_h=None, float? scales_w=None",
  3: "float? scales_d=None, float? scales_h=None, float? scales_w=None",
};

const ofBorder = ({ b, back, given, shapeOf }: Backward, name: string, dims: number): Ref =>
  b.call(
    `${name}_backward(Tensor grad_output, Tensor self, SymInt[${2 * dims}] padding) -> Tensor`,
    [of(back[0]!), ...given],
    shapeOf(0),
  );

function ofUpsample(
  { b, back, given, shapeOf }: Backward,
  name: string,
  dims: number,
  aligned: boolean,
): Ref {
  const [, size, ...rest] = given;
  return b.call(
    `upsample_${name}_backward(Tensor grad_output, SymInt[${dims}] output_size, SymInt[${
      dims + 2
    }] input_size, ` +
      `${aligned ? "bool align_corners, " : ""}${SCALES[dims]}) -> Tensor`,
    [of(back[0]!), size, shapeOf(0), ...rest],
    shapeOf(0),
  );
}

/** True where the gradient of this op is known. */
const hasGradient = (name: string): boolean => Object.hasOwn(RULES, name);

export function callGradients(
  b: Builder,
  y: Ref,
  call: Call,
  back: readonly (Ref | null)[],
  wanted: (argument: Ref) => boolean,
): readonly (Ref | null)[] {
  const name = nameOfCall(call.schema);
  if (isRecorded(call.schema)) return recordedGradients(b, call, back, wanted);
  if (!hasGradient(name) || !back[0]) throw new Refused(name, "gradient");
  const refOf = (i: number): Ref => (call.values[i] as { ref: Ref }).ref;
  const byArgument = RULES[name]({
    b,
    y,
    result: (index, shape, kind) => b.result(y, index, shape, kind),
    back,
    given: call.values,
    wanted: (i) => wanted(refOf(i)),
    shapeOf: (i) => b.shape(refOf(i)),
  });
  return call.values.flatMap((value, i) => isRef(value) ? [byArgument[i] ?? null] : []);
}

/** By autograd of the op alone. */
function recordedGradients(
  b: Builder,
  { schema, values, args }: Call,
  back: readonly (Ref | null)[],
  wanted: (argument: Ref) => boolean,
): readonly (Ref | null)[] {
  const places = args.flatMap((arg, i) => wanted(arg) && hasGradients(b.kind(arg)) ? [i] : []);
  if (places.length === 0) return args.map(() => null);
  const given = Array.from(back, (g) => g === null || g === undefined ? null : of(g));
  const [first, ...others] = places;
  const call = b.call(
    gradientOfRecorded(schema),
    [places, given, ...values],
    b.shape(args[first]),
    b.kind(args[first]),
  );
  const gradients: (Ref | null)[] = args.map(() => null);
  gradients[first] = call;
  others.forEach((at, i) => gradients[at] = b.result(call, i + 1, b.shape(args[at]), b.kind(args[at])));
  return gradients;
}
