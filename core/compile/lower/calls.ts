// Ops that stay libtorch's own: convolutions, pools, interpolation, embeddings.
import type { Ref } from "../graph.ts";
import type { Builder } from "../builder.ts";
import { SYNCED_NORM } from "../../../ffi/tape.ts";
import { argsOf } from "../uses.ts";
import { liesLast } from "../strides.ts";
import { type Lowering, type LoweringRule, num, type Rules } from "./lowering.ts";

const ref = (r: Ref | null) => r === null ? null : { ref: r };

type Sizes = readonly number[];

/** One number stands for all dimensions. */
const each = (sizes: Sizes, dims: number): Sizes =>
  sizes.length === 1 ? new Array(dims).fill(sizes[0]) : sizes;

/** All ranks meet in its backward, too, which a plan leaves out where no gradient goes on. */
const syncedNorm: LoweringRule = (g, x: Ref, norm: number) => {
  if (!learns(g.b, x)) g.refuse("gradient");
  const y = g.b.call(SYNCED_NORM, [{ ref: x }, norm], g.shape(x));
  return [y, ...[1, 2].map((i) => g.b.result(y, i, g.results[i].shape))];
};

export function learns(b: Builder, x: Ref): boolean {
  const seen = new Set<Ref>(), todo = [x];
  while (todo.length > 0) {
    const next = todo.pop()!, node = b.node(next);
    if (node.op === "tensor" && node.origin.from === "parameter") return true;
    if (seen.has(next) || node.op === "stop" || node.kind === "bool") continue;
    seen.add(next);
    todo.push(...argsOf(node));
  }
  return false;
}

function convolution(
  g: Lowering,
  x: Ref,
  w: Ref,
  bias: Ref | null,
  stride: Sizes,
  padding: Sizes,
  dilation: Sizes,
  transposed: boolean,
  outputPadding: Sizes,
  groups: number,
): Ref {
  if (typeof padding === "string") g.refuse("arguments");
  if (g.shape(x).length !== g.shape(w).length) g.refuse("arguments"); // no batch
  const dims = g.shape(w).length - 2, all = (sizes: Sizes) => each(sizes, dims);
  return g.b.call(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, " +
      "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    [
      { ref: x },
      { ref: w },
      ref(bias),
      all(stride),
      all(padding),
      all(dilation),
      transposed,
      all(outputPadding),
      groups,
    ],
    g.results[0].shape,
  );
}

const forward: LoweringRule = (
  g,
  x: Ref,
  w: Ref,
  bias: Ref | null,
  stride: Sizes,
  padding: Sizes,
  dilation: Sizes,
  groups: number,
) => convolution(g, x, w, bias, stride, padding, dilation, false, [0], groups);

const transposed: LoweringRule = (
  g,
  x: Ref,
  w: Ref,
  bias: Ref | null,
  stride: Sizes,
  padding: Sizes,
  outputPadding: Sizes,
  groups: number,
  dilation: Sizes,
) => convolution(g, x, w, bias, stride, padding, dilation, true, outputPadding, groups);

/** Without strides, windows lie side by side. */
const strideOf = (stride: Sizes, kernel: Sizes, dims: number): Sizes =>
  each(stride.length === 0 ? kernel : stride, dims);

const maxPool = (dims: number): LoweringRule =>
(
  g,
  x: Ref,
  kernel: Sizes,
  stride: Sizes,
  padding: Sizes,
  dilation: Sizes,
  ceil: boolean,
) =>
  g.b.call(
    `max_pool${dims}d_with_indices(Tensor self, int[${dims}] kernel_size, int[${dims}] stride=[], ` +
      `int[${dims}] padding=0, int[${dims}] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`,
    [
      { ref: x },
      each(kernel, dims),
      strideOf(stride, kernel, dims),
      each(padding, dims),
      each(dilation, dims),
      ceil,
    ],
    g.results[0].shape,
  );

const averagePool = (dims: number): LoweringRule =>
(
  g,
  x: Ref,
  kernel: Sizes,
  stride: Sizes,
  padding: Sizes,
  ceil: boolean,
  counted: boolean,
  divisor: number | null,
) =>
  g.b.call(
    `avg_pool${dims}d(Tensor self, int[${dims}] kernel_size, int[${dims}] stride=[], int[${dims}] padding=0, ` +
      "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    [
      { ref: x },
      each(kernel, dims),
      strideOf(stride, kernel, dims),
      each(padding, dims),
      ceil,
      counted,
      divisor,
    ],
    g.results[0].shape,
  );

/** Pools of rows are pools of maps of one row. */
const ofRows =
  (pool: LoweringRule, kernel: (sizes: readonly unknown[]) => readonly unknown[]): LoweringRule =>
  (g, x: Ref, ...more) => {
    const shape = g.shape(x), [seen] = g.results;
    g.results = [{ ...seen, shape: seen.shape.toSpliced(-1, 0, 1) }];
    const y = pool(g, g.b.reshape(x, shape.toSpliced(-1, 0, 1)), ...kernel(more)) as Ref;
    return g.b.reshape(y, seen.shape);
  };

const adaptivePool = (dims: number): LoweringRule => (g, x: Ref, size: Sizes) => {
  const { shape } = g.results[0];
  if (each(size, dims).every((n) => n === 1)) {
    const over = g.all(x).slice(-dims), mean = g.b.reshape(g.mean(x, over), shape);
    if (!g.exact || dims !== 2 || g.source === null || !liesLast(g.source)) return mean;
    return g.b.permute(g.b.reshape(mean, [shape[0], 1, 1, shape[1]]), [0, 3, 1, 2]); // its channels lie last, too
  }
  if (dims === 1) g.refuse("unknown");
  return g.b.call(
    `_adaptive_avg_pool${dims}d(Tensor self, SymInt[${dims}] output_size) -> Tensor`,
    [{ ref: x }, each(size, dims)],
    shape,
  );
};

const SCALES: Readonly<Record<number, string>> = {
  1: "float? scales=None",
  2: "float? scales_h=None, float? scales_w=None",
  3: "float? scales_d=None, float? scales_h=None, float? scales_w=None",
};

const upsample =
  (name: string, dims: number, aligned: boolean): LoweringRule => (g, x: Ref, size: Sizes, ...rest) =>
    g.b.call(
      `upsample_${name}(Tensor self, SymInt[${dims}] output_size, ${aligned ? "bool align_corners, " : ""}` +
        `${SCALES[dims]}) -> Tensor`,
      [{ ref: x }, each(size, dims), ...rest],
      g.results[0].shape,
    );

/** The size is what was seen; the factors go on as they were given. */
const upsampleBy =
  (name: string, dims: number, aligned: boolean): LoweringRule => (g, x: Ref, _size, ...rest) => {
    const factors = rest.at(-1) as Sizes | null, corners = aligned ? [rest[0]] : [];
    const scales = factors ?? new Array(dims).fill(null);
    return upsample(name, dims, aligned)(g, x, g.results[0].shape.slice(2), ...corners, ...scales);
  };

/** A mask would choose as many numbers as are true in it. */
function indexed(g: Lowering, x: Ref, indices: readonly (Ref | null)[]): Ref {
  if (indices.some((i) => i !== null && g.kind(i) !== "i64")) g.refuse("arguments");
  return g.b.call(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    [{ ref: x }, indices.map(ref)],
    g.results[0].shape,
  );
}

const byIndex = (schema: string): LoweringRule => (g, x: Ref, dim: number, index: Ref) =>
  g.b.call(schema, [{ ref: x }, g.dim(dim, g.shape(x).length), { ref: index }], g.results[0].shape);

/** The greatest or the least value along a dimension, and where it was found. */
const found = (name: string): LoweringRule => (g, x: Ref, dim: number) => {
  const d = g.dim(dim, g.shape(x).length), shape = g.shape(x).with(d, 1);
  const schema = `${name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`;
  const call = g.b.call(schema, [{ ref: x }, d, true], shape);
  return [g.shaped(call, 0), g.shaped(g.b.result(call, 1, shape, "i64"), 1)];
};

/** Whole numbers have no gradient. */
const placeOf = (name: string): LoweringRule => (g, x: Ref, dim: number | null, keepdim: boolean) =>
  g.b.call(
    `${name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor`,
    [{ ref: x }, dim, keepdim],
    g.results[0].shape,
    "i64",
  );

const border = (name: string): LoweringRule => (g, x: Ref, sizes: Sizes) =>
  g.b.call(
    `${name}(Tensor self, SymInt[${sizes.length}] padding) -> Tensor`,
    [{ ref: x }, sizes],
    g.results[0].shape,
  );

function embedding(
  g: Lowering,
  w: Ref,
  indices: Ref,
  padding: number,
  scaled: boolean,
  sparse: boolean,
): Ref {
  if (sparse) g.refuse("arguments");
  if (g.kind(indices) !== "i64") g.refuse("type");
  return g.b.call(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, " +
      "bool sparse=False) -> Tensor",
    [{ ref: w }, { ref: indices }, padding, scaled, false],
    g.results[0].shape,
  );
}

/** libtorch's kernels make what lies beyond a map's borders. */
const BORDERS = ["reflection_pad", "replication_pad"].flatMap((name) => [1, 2, 3].map((n) => `${name}${n}d`));

export const CALL_RULES: Rules = {
  synced_norm: syncedNorm,
  convolution,
  conv1d: forward,
  conv2d: forward,
  conv3d: forward,
  conv_transpose1d: transposed,
  "conv_transpose2d.input": transposed,
  "conv_transpose3d.input": transposed,
  max_pool1d: ofRows(maxPool(2), ([kernel, stride, padding, dilation, ceil]) => [
    [1, ...kernel as Sizes],
    (stride as Sizes).length === 0 ? [] : [1, ...stride as Sizes],
    [0, ...padding as Sizes],
    [1, ...dilation as Sizes],
    ceil,
  ]),
  max_pool2d: maxPool(2),
  max_pool3d: maxPool(3),
  avg_pool1d: ofRows(averagePool(2), ([kernel, stride, padding, ceil, counted]) => [
    [1, ...kernel as Sizes],
    (stride as Sizes).length === 0 ? [] : [1, ...stride as Sizes],
    [0, ...padding as Sizes],
    ceil,
    counted,
    null,
  ]),
  avg_pool2d: averagePool(2),
  avg_pool3d: averagePool(3),
  adaptive_avg_pool1d: adaptivePool(1),
  adaptive_avg_pool2d: adaptivePool(2),
  adaptive_avg_pool3d: adaptivePool(3),
  upsample_nearest1d: upsample("nearest1d", 1, false),
  upsample_nearest2d: upsample("nearest2d", 2, false),
  upsample_nearest3d: upsample("nearest3d", 3, false),
  upsample_linear1d: upsample("linear1d", 1, true),
  upsample_bilinear2d: upsample("bilinear2d", 2, true),
  upsample_trilinear3d: upsample("trilinear3d", 3, true),
  ...Object.fromEntries(BORDERS.map((name) => [name, border(name)])),
  embedding,
  "index.Tensor": indexed,
  gather: byIndex("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"),
  index_select: byIndex("index_select(Tensor self, int dim, Tensor index) -> Tensor"),
  index_add: (g, x: Ref, dim: number, index: Ref, source: Ref, alpha: number) =>
    g.add(
      x,
      g.b.call(
        "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
        [
          { ref: alpha === 1 ? source : g.mul(source, num(alpha)) },
          g.shape(x),
          g.dim(dim, g.shape(x).length),
          { ref: index },
        ],
        g.shape(x),
      ),
    ),
  topk: (g, x: Ref, k: number, dim: number, largest: boolean, sorted: boolean) => {
    const d = g.dim(dim, g.shape(x).length), { shape } = g.results[0];
    const call = g.b.call(
      "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
      [{ ref: x }, k, d, largest, sorted],
      shape,
    );
    return [call, g.b.result(call, 1, shape, "i64")];
  },
  sort: (g, x: Ref, dim: number, descending: boolean) => {
    const call = g.b.call(
      "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
      [{ ref: x }, g.dim(dim, g.shape(x).length), descending],
      g.shape(x),
    );
    return [call, g.b.result(call, 1, g.shape(x), "i64")];
  },
  "max.dim": found("max"),
  "min.dim": found("min"),
  argmax: placeOf("argmax"),
  argmin: placeOf("argmin"),
  scatter_add: (g, x: Ref, dim: number, index: Ref, source: Ref) => {
    const zeros = g.b.call(
      "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, " +
        "bool? pin_memory=None) -> Tensor",
      [{ ref: source }, g.shape(x)],
      g.shape(x),
    );
    const sums = g.b.call(
      "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
      [{ ref: g.b.stop(zeros) }, g.dim(dim, g.shape(x).length), { ref: index }, { ref: source }],
      g.shape(x),
    );
    return g.add(x, sums);
  },
  cumsum: (g, x: Ref, dim: number) =>
    g.b.call(
      "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
      [{ ref: g.float(x) }, g.dim(dim, g.shape(x).length)],
      g.results[0].shape,
    ),
  "upsample_nearest1d.vec": upsampleBy("nearest1d", 1, false),
  "upsample_nearest2d.vec": upsampleBy("nearest2d", 2, false),
  "upsample_nearest3d.vec": upsampleBy("nearest3d", 3, false),
  "upsample_linear1d.vec": upsampleBy("linear1d", 1, true),
  "upsample_bilinear2d.vec": upsampleBy("bilinear2d", 2, true),
  "upsample_trilinear3d.vec": upsampleBy("trilinear3d", 3, true),
  pixel_shuffle: (g, x: Ref, factor: number) => {
    const [count, channels, height, width] = g.shape(x);
    const split = g.b.reshape(x, [count, channels / factor ** 2, factor, factor, height, width]);
    return g.shaped(g.b.permute(split, [0, 1, 4, 2, 5, 3]));
  },
};
