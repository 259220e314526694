// Checks what an exported program gives to an operation before libtorch sees it, where libtorch itself does not
// look before it reads, writes, divides or takes memory. Shapes and numbers are checked at each call, since they
// cost next to nothing. Values of tensors are looked at only where a kernel for CPUs trusts them; on a GPU the
// kernels assert them. A check belongs to an operation (CHECKS), or to arguments that several have under one
// name (KINDS).
import { NativeError } from "../../../ffi/errors.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import type { DType } from "../../../ffi/dtype.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { amax, amin } from "../../../ffi/ops.ts";
import type { Schema } from "../../../ffi/schema.ts";
import { unrecorded } from "../../../ffi/tape.ts";
import { scope, Tensor } from "../../../ffi/tensor.ts";

/** A check returns why a call may not be made, or "". It is given all arguments in the schema's order. */
type Check = (...args: never[]) => string;

type Sizes = readonly number[];
type Numbers = Sizes | number | null | undefined;

/** No honest program makes more elements than the machine has bytes. */
const MOST = Deno.systemMemoryInfo().total;
const sized = (count: number): string =>
  count <= MOST
    ? ""
    : `it makes ${count.toExponential(1)} numbers, and this machine has memory for ${
      MOST.toExponential(1)
    } bytes`;
const product = (sizes: Sizes): number => sizes.reduce((all, size) => all * Math.max(Math.abs(size), 1), 1);
const listAt = (at: number): Check => (...args: unknown[]) => sized(product(args[at] as Sizes));
const countAt = (at: number): Check => (...args: unknown[]) => sized(Math.abs((args[at] ?? 0) as number));
const stepsOf = (start: { value: number }, end: { value: number }, step: { value: number }): string =>
  step.value === 0 ? "its step is 0" : sized(Math.abs((end.value - start.value) / step.value));
const ONE = { value: 1 }, NONE = { value: 0 };

const MANY = 1 << 20;
const pieces = (count: number): string => count <= MANY ? "" : `it gives ${count} tensors`;

const onceEach = (x: Tensor, dims: Sizes): boolean =>
  dims.length > 0 && new Set(dims).size === dims.length &&
  dims.every((dim) => dim >= 0 && dim < x.shape.length && x.shape[dim] > 0);
const TRANSFORM = "its dimensions are not those of its tensor";

const channels = (...others: readonly number[]): Check => (...args: unknown[]) => {
  const x = args[0] as Tensor, { shape } = x;
  const fits = shape.length >= 2 && !shape.includes(0) && others.every((at) => {
    const t = args[at] as Tensor | null | undefined;
    return !t ||
      (t.shape.length === 1 && t.shape[0] === shape[1] && (t.dtype === x.dtype || t.dtype === "f32"));
  });
  return fits ? "" : "its weights and statistics are not one for each channel";
};

/** oneDNN does not check the sizes of a recurrent layer's weights. */
const recurrent = (gates: number): Check => {
  return (
    x: Tensor,
    states: Tensor | readonly Tensor[],
    weights: readonly Tensor[],
    biases: boolean,
    layers: number,
    _dropout: number,
    _train: boolean,
    both: boolean,
    batchFirst: boolean,
  ) => {
    const [first, cell = first] = "length" in states ? states : [states];
    const ways = both ? 2 : 1, many = layers * ways;
    if (!first || x.shape.length !== 3 || x.shape.includes(0) || !(many > 0) || weights.length % many !== 0) {
      return ODD;
    }
    const each = weights.length / many, plain = biases ? 4 : 2;
    const given = first.shape[2], hidden = cell.shape[2], rows = gates * hidden;
    const projected = each === plain + 1;
    if (!projected && (each !== plain || given !== hidden)) return ODD;
    const batch = x.shape[batchFirst ? 0 : 1];
    const fits = isOf(first, many, batch, given) && isOf(cell, many, batch, hidden) &&
      weights.every((w, i) => {
        const taken = i < ways * each ? x.shape[2] : ways * given;
        const kind = i % each;
        if (kind === 0) return isOf(w, rows, taken);
        if (kind === 1) return isOf(w, rows, given);
        return kind < plain ? isOf(w, rows) : isOf(w, given, hidden);
      });
    return fits ? "" : ODD;
  };
};
const ODD = "its weights and states do not have the sizes that belong together";
const isOf = ({ shape }: Tensor, ...sizes: Sizes): boolean =>
  shape.length === sizes.length && shape.every((size, i) => size === sizes[i]);

/** The kernels step through key, value and mask by the query's sizes, and divide by the number of keys. */
function attention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  _dropout?: number,
  _causal?: boolean,
  mask?: Tensor | null | boolean,
): string {
  const [batch, heads, , width] = query.shape, keys = key.shape[2];
  const fits = query.shape.length === 4 && key.shape.length === 4 && value.shape.length === 4 &&
    !query.shape.includes(0) && isOf(key, batch, heads, keys, width) && keys > 0 &&
    isOf(value, batch, heads, keys, width);
  if (!fits) return "its queries, keys and values do not have the sizes that belong together";
  if (typeof mask !== "object" || mask === null) return "";
  const wanted = query.shape.slice(0, 3).concat(keys).slice(-mask.shape.length || 4);
  const spreads = mask.shape.length <= 4 && mask.shape.every((size, i) => size === 1 || size === wanted[i]);
  return spreads ? "" : "its mask does not have the sizes of its queries and keys";
}

/** Values are read where kernels on CPUs trust them: of a GPU they would have to be waited for. */
function looking(x: Tensor, look: () => string): string {
  if (x.device !== "cpu" || x.numel === 0) return "";
  try {
    return unrecorded(() => noGrad(() => scope(look)));
  } catch (error) {
    if (error instanceof NativeError) return "its values can't be looked at (inside torch.vmap?)";
    throw error;
  }
}

const least = (x: Tensor): number => amin(x).item(), most = (x: Tensor): number => amax(x).item();
/** Adds up integers whose sum may be more than 64 bits hold. */
const total = (x: Tensor): number => toNumbers(x).reduce((sum, value) => sum + value, 0);

/**
 * Bags begin at 0, one behind the other, and take rows that are there. Where the last offset is an end, indices
 * behind it would belong to a bag that is not there.
 */
function bags(
  weight: Tensor,
  indices: Tensor,
  offsets: Tensor,
  _scale?: boolean,
  mode = 0,
  _sparse?: boolean,
  shares?: Tensor | null,
  ends?: boolean,
): string {
  const { shape } = indices;
  const whole = ({ dtype }: Tensor) => dtype === "i64" || dtype === "i32";
  if (!whole(indices) || !whole(offsets)) return "its indices and offsets are not i64 or i32";
  if (weight.shape.length !== 2 || shape.length !== 1 || offsets.shape.length !== 1) {
    return "its indices and offsets are not one list each";
  }
  if (mode !== 0 && mode !== 1 && mode !== 2) return "its mode is none of sum, mean and max";
  if (offsets.numel === 0 && (ends || shape[0] > 0)) return "it has no offsets";
  if (shares && !isOf(shares, shape[0])) return "its weights are not one for each index";
  return looking(offsets, () => {
    const all = toNumbers(offsets);
    let before = 0;
    for (const at of all) {
      if (!(at >= before && at <= shape[0]) || all[0] !== 0) {
        return `its offsets don't begin at 0, run backwards, or past its ${shape[0]} indices`;
      }
      before = at;
    }
    return ends && before !== shape[0] ? `its last offset is not the number of its indices, ${shape[0]}` : "";
  }) || looking(indices, () =>
    least(indices) >= 0 && most(indices) < weight.shape[0]
      ? ""
      : `its indices are not all among its ${weight.shape[0]} rows`);
}

const LEASTS: Readonly<Partial<Record<DType, number>>> = { i64: -(2 ** 63), i32: -(2 ** 31) };
type Divided = Tensor | { readonly value: number };

/** A processor ends the process that divides the smallest of its integers by -1. */
function truncated(x: Divided, by: Divided, mode?: string | null): string {
  if (mode !== "trunc") return "";
  const odd = "shape" in x ? LEASTS[x.dtype] : x.value <= LEASTS.i32! ? x.value : undefined;
  const negative = (of: Divided) => "shape" in of ? of.dtype[0] === "i" : of.value === -1;
  if (odd === undefined || !negative(by)) return "";
  const lowest = (of: Divided) => "shape" in of ? least(of) : of.value;
  const tensor = "shape" in x ? x : by as Tensor;
  return looking(tensor, () => lowest(x) <= odd && lowest(by) < 0 ? DIVIDED : "");
}
const DIVIDED = "it divides the smallest of all integers by a negative one, which has no result";

/** Far below 0 the series of these functions takes a step for each integer up to 0. */
const DEEPEST = -(2 ** 12);
const series = (at: number): Check => (...args: unknown[]) => {
  const x = args[at] as Tensor | { readonly value: number };
  const deep = (value: number) => value < DEEPEST ? `it is asked for a value below ${DEEPEST}` : "";
  return "shape" in x ? looking(x, () => deep(least(x))) : deep(x.value);
};

/** Shares of a step: each pool begins within its own. */
const samples: Check = (
  x: Tensor,
  _kernel: Sizes,
  _output: Sizes,
  drawn: Tensor,
) =>
  looking(
    drawn,
    () => least(drawn) >= 0 && most(drawn) <= 1 ? "" : "its random samples are not between 0 and 1",
  ) ||
  (x.shape.includes(0) ? "there is nothing to pool" : "");

const CHECKS: Readonly<Record<string, Check>> = {
  as_strided: (x: Tensor, size: Sizes, stride: Sizes, offset?: number | null) =>
    staysInside(x, size, stride, offset ?? x.offset)
      ? ""
      : "it looks outside its tensor: other tensors may lie there",
  _fft_r2c: (x: Tensor, dims: Sizes) => onceEach(x, dims) ? "" : TRANSFORM,
  _fft_c2c: (x: Tensor, dims: Sizes) => onceEach(x, dims) ? "" : TRANSFORM,
  _fft_c2r: (x: Tensor, dims: Sizes, _norm: number, last: number) =>
    onceEach(x, dims) && last > 0 && x.shape[dims[dims.length - 1]] === Math.floor(last / 2) + 1
      ? ""
      : TRANSFORM,
  _native_batch_norm_legit: channels(1, 2, 3, 4),
  "_native_batch_norm_legit.no_stats": channels(1, 2),
  _native_batch_norm_legit_functional: channels(1, 2, 3, 4),
  _native_batch_norm_legit_no_training: channels(1, 2, 3, 4),
  _weight_norm: (v: Tensor, g: Tensor, dim = 0) =>
    v.numel > 0 && v.dtype === g.dtype && g.numel === (dim === -1 ? 1 : v.shape[dim])
      ? ""
      : "its lengths are not one for each of its weight's vectors",
  ...Object.fromEntries(
    ("_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention " +
      "_scaled_dot_product_efficient_attention").split(" ").map((name) => [name, attention]),
  ),
  embedding_bag: bags,
  _embedding_bag: bags,
  "div.Tensor_mode": truncated,
  "div_.Tensor_mode": truncated,
  "div.Scalar_mode": truncated,
  "divide.Tensor_mode": truncated,
  special_zeta: series(1),
  polygamma: series(1),
  fractional_max_pool2d: samples,
  fractional_max_pool3d: samples,
  "repeat_interleave.self_int": (x: Tensor, times: number) => sized(x.numel * Math.abs(times)),
  "lstm.input": recurrent(4),
  "gru.input": recurrent(3),
  "rnn_tanh.input": recurrent(1),
  "rnn_relu.input": recurrent(1),

  "repeat_interleave.Tensor": (repeats: Tensor) =>
    looking(repeats, () => least(repeats) < 0 ? "it repeats less than no times" : sized(total(repeats))),
  "repeat_interleave.self_Tensor": (x: Tensor, repeats: Tensor, dim?: number | null) =>
    looking(repeats, () => {
      const rows = dim === null || dim === undefined ? x.numel : x.shape.at(dim) ?? 1;
      const times = total(repeats) * (repeats.numel === 1 ? rows : 1);
      return least(repeats) < 0
        ? "it repeats less than no times"
        : sized(times * x.numel / Math.max(rows, 1));
    }),
  ...Object.fromEntries(
    ("empty empty_permuted full ones zeros rand randn").split(" ").map((name) => [name, listAt(0)]),
  ),
  ...Object.fromEntries(
    ("new_empty new_full new_ones new_zeros expand broadcast_to repeat tile").split(" ")
      .map((name) => [name, listAt(1)]),
  ),
  ...Object.fromEntries(
    ("blackman_window hamming_window hann_window kaiser_window fft_fftfreq fft_rfftfreq randperm")
      .split(" ").map((name) => [name, countAt(0)]),
  ),
  "randint.low": listAt(2),
  bincount: (x: Tensor, _weights?: Tensor | null, length = 0) =>
    sized(length) || looking(x, () => sized(most(x))),
  multinomial: countAt(1),
  histc: countAt(1),
  nonzero_static: countAt(1),
  affine_grid_generator: listAt(1),
  mvlgamma: (x: Tensor, p: number) => sized(x.numel * p),
  combinations: (x: Tensor, r = 2) => sized(r * Math.max(x.numel, 1) ** Math.abs(r)),
  outer: (x: Tensor, y: Tensor) => sized(x.numel * y.numel),
  kron: (x: Tensor, y: Tensor) => sized(x.numel * y.numel),
  cartesian_prod: (all: readonly Tensor[]) =>
    sized(all.reduce((made, { numel }) => made * numel, all.length)),
  one_hot: (x: Tensor, classes = -1) =>
    classes >= 0 ? sized(x.numel * classes) : looking(x, () => sized(x.numel * (most(x) + 1))),
  eye: (n: number) => sized(n * n),
  "eye.m": (n: number, m: number) => sized(n * m),
  tril_indices: (row: number, col: number) => sized(row * col),
  triu_indices: (row: number, col: number) => sized(row * col),
  linspace: countAt(2),
  logspace: countAt(2),
  arange: (end: { value: number }) => stepsOf(NONE, end, ONE),
  "arange.start": (start: { value: number }, end: { value: number }) => stepsOf(start, end, ONE),
  "arange.start_step": (start: { value: number }, end: { value: number }, step = ONE) =>
    stepsOf(start, end, step),
  unbind: (x: Tensor, dim = 0) => pieces(x.shape.at(dim) ?? 0),
  split: (x: Tensor, size: number, dim = 0) => pieces((x.shape.at(dim) ?? 0) / Math.max(size, 1)),
  chunk: (_: Tensor, count: number) => pieces(count),
  tensor_split: (_: Tensor, sections: number | Sizes | Tensor) =>
    typeof sections === "number" ? pieces(sections) : "",
};

/** Parameters lie in memory side by side, and libtorch only asks whether a view stays inside all of it. */
function staysInside(x: Tensor, size: Sizes, stride: Sizes, offset: number): boolean {
  const last = (sizes: Sizes, strides: Sizes) =>
    sizes.reduce((at, n, i) => at + (n - 1) * (strides[i] ?? 0), 0);
  if (size.includes(0)) return true;
  return x.numel > 0 && stride.every((s) => s >= 0) && offset >= x.offset &&
    offset + last(size, stride) <= x.offset + last(x.shape, x.strides);
}

const listOf = (of: Numbers, length: number, otherwise: number): Sizes => {
  const given = typeof of === "number" ? [of] : of ?? [];
  const all = given.length > 0 ? given : [otherwise];
  return Array.from({ length }, (_, i) => all[all.length === 1 ? 0 : i] ?? otherwise);
};

/** A window has a size for each dimension that it steps over. */
interface Window {
  readonly kernel: Sizes;
  readonly stride?: Numbers;
  readonly padding?: Numbers | string;
  readonly dilation?: Numbers;
  readonly outputPadding?: Numbers;
  readonly transposed?: boolean;
  readonly pool?: boolean;
  /** Channels that come out of a convolution. */
  readonly channels: number;
}

/** Products of large sizes come back small: beyond 64 bits in libtorch, beyond 32 in oneDNN. */
function windowed({ shape }: Tensor, w: Window): string {
  const count = w.kernel.length, spatial = shape.slice(-count);
  if (count === 0 || shape.length < count) return "";
  const stride = listOf(w.stride, count, 1), dilation = listOf(w.dilation, count, 1);
  const padding = listOf(typeof w.padding === "string" ? 0 : w.padding, count, 0);
  const extra = listOf(w.outputPadding, count, 0);
  const reach = w.kernel.map((size, i) => Math.abs(dilation[i] * (size - 1)));
  const laid = spatial.map((size, i) =>
    size + 2 * Math.abs(padding[i]) + (w.padding === "same" ? reach[i] : 0)
  );
  const made = laid.map((size, i) =>
    w.transposed
      ? Math.abs((spatial[i] - 1) * stride[i]) + reach[i] + Math.abs(extra[i]) + 1
      : size / Math.max(stride[i], 1)
  );
  if (Math.max(...made, ...laid, ...reach) > LARGEST) return WINDOW;
  const why = sized(product(laid) * (shape.at(-count - 1) ?? 1)) || sized(product(made) * w.channels);
  if (why !== "" || w.transposed) return why;
  // A pool's last window may begin in what it is laid on, and end behind it.
  const behind = (i: number) => w.pool ? Math.abs(stride[i]) : 0;
  return laid.every((size, i) => reach[i] < Math.max(size + behind(i), 1)) ? "" : WINDOW;
}
const LARGEST = 2 ** 31 - 1;
const WINDOW = "its window is larger than what it is laid on, or that is larger than can be computed";

type Named = Readonly<Record<string, unknown>>;

const convolved = (given: Named, name: string): string => {
  const { shape } = given.weight as Tensor;
  const transposed = given.transposed === true || name.startsWith("conv_transpose");
  return windowed(given.input as Tensor, {
    kernel: shape.slice(2),
    stride: given.stride as Numbers,
    padding: given.padding as Numbers | string,
    dilation: given.dilation as Numbers,
    outputPadding: given.output_padding as Numbers,
    transposed,
    channels: shape[transposed ? 1 : 0] ?? 1,
  });
};

/** The name of a pool says over how many dimensions it goes. */
const pooled = (given: Named, name: string): string => {
  const count = Number(/(\d)d/.exec(name)?.[1] ?? 2), kernel = listOf(given.kernel_size as Numbers, count, 1);
  const stride = given.stride as Numbers;
  return windowed(given.self as Tensor, {
    kernel,
    stride: Array.isArray(stride) && stride.length > 0 ? stride : kernel,
    padding: given.padding as Numbers,
    dilation: given.dilation as Numbers,
    pool: /pool/.test(name),
    channels: 1,
  });
};

/** All but the last sizes stay. */
const outputs = ({ input, self, output_size: sizes, kernel_size: kernel }: Named): string => {
  const x = (input ?? self) as Tensor;
  if (!Array.isArray(sizes)) return "";
  const kept = kernel === undefined ? x.shape.slice(0, -sizes.length) : x.shape.slice(0, 1);
  return Math.max(0, ...sizes) > LARGEST ? sized(Infinity) : sized(product(kept) * product(sizes));
};

/** A kernel steps through its input by the scale: it has to be the one between both sizes. */
const scaled = (given: Named): string => {
  const x = (given.input ?? given.self) as Tensor, sizes = given.output_size as Sizes | null | undefined;
  const count = sizes?.length ?? (given.scale_factors as Sizes | null | undefined)?.length ?? 0;
  const spatial = x.shape.slice(-count);
  const factors = given.scale_factors as Sizes | null | undefined;
  if (factors) {
    return sized(
      factors.reduce((all, factor, i) => all * spatial[i] * factor, product(x.shape.slice(0, -count))),
    );
  }
  const named = count === 1 ? [given.scales] : [given.scales_d, given.scales_h, given.scales_w].slice(-count);
  const fits = named.every((scale, i) =>
    typeof scale !== "number" || Math.abs(spatial[i] * scale - sizes![i]) <= 1 + sizes![i] / 1024
  );
  return fits ? outputs(given) : "its scales are not those between its sizes";
};

/** Pairs of paddings begin at the last dimension. */
const padded = ({ self, pad, padding }: Named): string => {
  const { shape } = self as Tensor, pads = (pad ?? padding) as Sizes;
  const grown = shape.map((size, i) => {
    const at = 2 * (shape.length - 1 - i);
    return size + Math.abs(pads[at] ?? 0) + Math.abs(pads[at + 1] ?? 0);
  });
  return sized(product(grown));
};

/** Lengths that are asked for take the place of those that are there. */
const transformed = ({ self, n, s, dim }: Named): string => {
  const { shape, numel } = self as Tensor,
    lengths = listOf((s ?? n) as Numbers, (s as Sizes | null)?.length ?? 1, -1);
  const dims = typeof dim === "number"
    ? [dim]
    : dim as Sizes | null ?? lengths.map((_, i) => i - lengths.length);
  return sized(
    lengths.reduce(
      (all, length, i) => length < 0 ? all : all / Math.max(shape.at(dims[i] ?? -1) ?? 1, 1) * length,
      numel,
    ),
  );
};

/** Checks of arguments that several operations have under these names. */
const KINDS: readonly { readonly of: RegExp; readonly check: (given: Named, name: string) => string }[] = [
  { of: /^conv(_transpose)?[123]d$|^convolution$/, check: convolved },
  { of: /^(max|avg)_pool[123]d|^im2col$/, check: pooled },
  { of: /^(_?adaptive_\w+_pool|fractional_max_pool|max_unpool)[123]d$|^col2im$/, check: outputs },
  { of: /^_?upsample_/, check: scaled },
  { of: /^(pad|constant_pad_nd|(reflection|replication)_pad[123]d)$/, check: padded },
  { of: /^fft_i?r?fft[2n]?$/, check: transformed },
];

/** Those that have a check of their own, as "lstm.input", or by the name that all their forms have. */
export const checkedOperations = (): readonly string[] => Object.keys(CHECKS);

/** All checks of an operation in one, or null where there are none. */
export function checkOf({ name, overload, args }: Pick<Schema, "name" | "overload" | "args">): Check | null {
  const own = [`${name}.${overload}`, name].find((key) => Object.hasOwn(CHECKS, key));
  const kinds = KINDS.filter(({ of }) => of.test(name));
  const first = own === undefined ? null : CHECKS[own];
  if (kinds.length === 0) return first;
  const names = args.map((a) => a.name);
  const passed = rememberingShapes();
  return (...given: unknown[]) => {
    if (!passed.before(given)) {
      const named = Object.fromEntries(names.map((key, i) => [key, given[i]]));
      for (const { check } of kinds) {
        const why = check(named, name);
        if (why !== "") return why;
      }
      passed.now(given);
    }
    return first === null ? "" : first(...given as never[]);
  };
}

/** A call that passed once passes again with tensors of the same shapes, whatever is in them. */
function rememberingShapes() {
  let last: readonly unknown[] = [], shapes: readonly (Sizes | null)[] = [];
  const shapeOf = (value: unknown): Sizes | null => value instanceof Tensor ? value.shape : null;
  const alike = (value: unknown, i: number): boolean => {
    const known = shapes[i], shape = known && shapeOf(value);
    if (!known || !shape) return value === last[i];
    return shape.length === known.length && shape.every((size, k) => size === known[k]);
  };
  return {
    before: (given: readonly unknown[]) => given.length === last.length && given.every(alike),
    now(given: readonly unknown[]) {
      shapes = given.map(shapeOf);
      last = given.map((value, i) => shapes[i] ? null : value);
    },
  };
}
