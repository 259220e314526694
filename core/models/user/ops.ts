// All operations under one name, as users' files and mod.ts have them: libtorch's, and the verbs that take numbers.
// Made by: deno run --allow-all --no-lock scripts/user_ops.ts.
// deno-fmt-ignore-file

/**
 * Operations on tensors, named as libtorch names them, in camel case: relu, crossEntropyLoss, scaledDotProductAttention.
 * Their arguments stand in the order of libtorch's own; null leaves an optional one to it.
 *
 * @module
 */
import type { DType } from "../../../ffi/dtype.ts";
import * as own from "../../../ffi/ops.ts";
import type { Options } from "../../../ffi/make.ts";
import type { MemoryFormat } from "../../../ffi/schema.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import { operand } from "../../../ffi/scalar.ts";
export { add, op, sub } from "./op.ts";
export { constant, fill_, ones, scalar, scale, tensor, toDevice, toNumbers, uninitialised, zero_, zeros } from "../../../ffi/make.ts";

/** Adds to each input's gradient that of `self`; `backward` is the shorter way. */
const backwardOp: (self: Tensor, inputs: readonly Tensor[], gradient?: Tensor | null, retainGraph?: boolean | null, createGraph?: boolean) => void = own.backwardOp;
/** A tensor of this size whose values are whatever was in memory. */
const empty: (size: readonly number[], options?: Options) => Tensor = (size, o = {}) => own.empty(size, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Numbers drawn from the normal distribution of mean 0 and variance 1. */
const randn: (size: readonly number[], options?: Options) => Tensor = (size, o = {}) => own.randn(size, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Numbers drawn evenly from 0 up to 1, without 1. */
const rand: (size: readonly number[], options?: Options) => Tensor = (size, o = {}) => own.rand(size, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Whole numbers drawn evenly from `low` up to `high`, without `high`; i64 unless told. */
const randint: (low: number, high: number, size: readonly number[], options?: Options) => Tensor = (low, high, size, o = {}) => own.randint(low, high, size, o.dtype ?? undefined, null, o.device ?? null, o.pinned ?? null);
/** Zeros in the shape of `self`, of its type and on its device unless told. */
const zerosLike: (self: Tensor, options?: Options) => Tensor = (self, o = {}) => own.zerosLike(self, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Whatever was in memory, in the shape of `self`, of its type and on its device unless told. */
const emptyLike: (self: Tensor, options?: Options) => Tensor = (self, o = {}) => own.emptyLike(self, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Ones in the shape of `self`, of its type and on its device unless told. */
const onesLike: (self: Tensor, options?: Options) => Tensor = (self, o = {}) => own.onesLike(self, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** Fills `self` with numbers drawn from the normal distribution. */
const normal_: (self: Tensor, mean?: number, std?: number, generator?: null) => Tensor = own.normal_;
/** Fills `self` with numbers drawn evenly between `from` and `to`. */
const uniform_: (self: Tensor, from?: number, to?: number, generator?: null) => Tensor = own.uniform_;
/** Fills `self` with ones, drawn with probability `p`, and zeros. */
const bernoulli_: (self: Tensor, p?: number, generator?: null) => Tensor = own.bernoulli_;
/** Copies the values of `src` into `self`, across types and devices; `src` is repeated to its shape. */
const copy_: (self: Tensor, src: Tensor, nonBlocking?: boolean) => Tensor = own.copy_;
/** The same memory, without the way back to what it was computed from. */
const detach: (self: Tensor) => Tensor = own.detach;
/** The same memory as another tensor; gradients pass through. */
const alias: (self: Tensor) => Tensor = own.alias;
/** Tells whether this tensor was not computed from others that ask for a gradient. */
const isLeaf: (self: Tensor) => boolean = own.isLeaf;
/** A copy in memory of its own; gradients pass through. */
const clone: (self: Tensor, memoryFormat?: MemoryFormat | null) => Tensor = own.clone;
/** The same values in row-major order, or in another format of memory; itself where it is so already. */
const contiguous: (self: Tensor, memoryFormat?: MemoryFormat) => Tensor = own.contiguous;
/** The same memory in another shape of as many elements; one size may be -1. */
const view: (self: Tensor, size: readonly number[]) => Tensor = own.view;
/** Another shape of as many elements, copied only where it must be; one size may be -1. */
const reshape: (self: Tensor, shape: readonly number[]) => Tensor = own.reshape;
/** A view of `length` places of dimension `dim`, from `start` on. */
const narrow: (self: Tensor, dim: number, start: number, length: number) => Tensor = own.narrow;
/** A view of one place of dimension `dim`, which is gone from the shape. */
const select: (self: Tensor, dim: number, index: number) => Tensor = own.select;
/** A view of every `step`-th place of dimension `dim` from `start` up to `end`. */
const slice: (self: Tensor, dim?: number, start?: number | null, end?: number | null, step?: number) => Tensor = own.slice;
/** A view with two dimensions changed for each other. */
const transpose: (self: Tensor, dim0: number, dim1: number) => Tensor = own.transpose;
/** A matrix's rows as columns: (m, n) becomes (n, m). */
const t: (self: Tensor) => Tensor = own.t;
/** A view with the dimensions in this order. */
const permute: (self: Tensor, dims: readonly number[]) => Tensor = own.permute;
/** A view in which dimensions of size 1 are repeated to this size; -1 leaves one as it is. */
const expand: (self: Tensor, size: readonly number[], implicit?: boolean) => Tensor = own.expand;
/** A view with one more dimension, of size 1, at `dim`. */
const unsqueeze: (self: Tensor, dim: number) => Tensor = own.unsqueeze;
/** A view without dimension `dim`, if its size is 1. */
const squeeze: (self: Tensor, dim: number) => Tensor = own.squeeze;
/** Dimensions `startDim` to `endDim` as one: (n, c, h, w) becomes (n, c * h * w) from 1 on. */
const flatten: (self: Tensor, startDim?: number, endDim?: number) => Tensor = own.flatten;
/** Views of `splitSize` places of dimension `dim` each; the last may be smaller. */
const split: (self: Tensor, splitSize: number, dim?: number) => Tensor[] = own.split;
/** At most `chunks` views of equal size along dimension `dim`; the last may be smaller. */
const chunk: (self: Tensor, chunks: number, dim?: number) => Tensor[] = own.chunk;
/** One view for each place of dimension `dim`, without it. */
const unbind: (self: Tensor, dim?: number) => Tensor[] = own.unbind;
/** Tensors one after the other along dimension `dim`; their other sizes are the same. */
const cat: (tensors: readonly Tensor[], dim?: number) => Tensor = own.cat;
/** Tensors of one shape side by side along a new dimension `dim`. */
const stack: (tensors: readonly Tensor[], dim?: number) => Tensor = own.stack;
/** A copy in which these dimensions run backwards. */
const flip: (self: Tensor, dims: readonly number[]) => Tensor = own.flip;
/** A copy moved by `shifts` places along `dims`; what leaves at one end comes in at the other. */
const roll: (self: Tensor, shifts: readonly number[], dims?: readonly number[]) => Tensor = own.roll;
/** Wider by `pad` places before and behind the last dimension, then the one before it; `mode` says what is there. */
const pad: (self: Tensor, pad: readonly number[], mode?: string, value?: number | null) => Tensor = own.pad;
/** Wider by places before and behind each of the last two dimensions, as in a mirror at the edge. */
const reflectionPad2d: (self: Tensor, padding: readonly number[]) => Tensor = own.reflectionPad2d;
/** Wider by places before and behind each of the last two dimensions, which repeat the edge. */
const replicationPad2d: (self: Tensor, padding: readonly number[]) => Tensor = own.replicationPad2d;
/** A view of the tensor's memory by size and strides alone. */
const asStrided: (self: Tensor, size: readonly number[], stride: readonly number[], storageOffset?: number | null) => Tensor = own.asStrided;
/** Complex numbers as pairs of real ones: (...) becomes (..., 2). */
const viewAsReal: (self: Tensor) => Tensor = own.viewAsReal;
/** Pairs of real numbers as complex ones: (..., 2) becomes (...). */
const viewAsComplex: (self: Tensor) => Tensor = own.viewAsComplex;
/** The real parts, as a view. */
const real: (self: Tensor) => Tensor = own.real;
/** The values in another data type; itself where it has that already, unless `copy`. */
const toDtype: (self: Tensor, dtype: DType, nonBlocking?: boolean, copy?: boolean, memoryFormat?: MemoryFormat | null) => Tensor = own.toDtype;
/** A copy of another type, on another device, or in other memory; null leaves each as it is. */
const toCopy: (self: Tensor, options?: Options) => Tensor = (self, o = {}) => own.toCopy(self, o.dtype ?? null, null, o.device ?? null, o.pinned ?? null);
/** A copy in page-locked host memory, which a GPU copies from beside its work. */
const pinMemory: (self: Tensor, device?: Device | null) => Tensor = own.pinMemory;
/** Tells whether the tensor is in page-locked host memory. */
const isPinned: (self: Tensor, device?: Device | null) => boolean = own.isPinned;
/** `self` times `other`, element by element. */
const mul: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.mul(self, operand(other, self));
/** Multiplies `self` by `other`, in place. */
const mul_: (self: Tensor, other: Tensor) => Tensor = own.mul_;
/** `self` divided by `other`, element by element. */
const div: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.div(self, operand(other, self));
/** Divides `self` by `other`, in place. */
const div_: (self: Tensor, other: Tensor) => Tensor = own.div_;
/** Each number with the other sign. */
const neg: (self: Tensor) => Tensor = own.neg;
/** e to the power of each number. */
const exp: (self: Tensor) => Tensor = own.exp;
/** Each number's natural logarithm. */
const log: (self: Tensor) => Tensor = own.log;
/** The logarithm of 1 + x, exact for small x. */
const log1p: (self: Tensor) => Tensor = own.log1p;
/** e to the power of x, less 1, exact for small x. */
const expm1: (self: Tensor) => Tensor = own.expm1;
/** Each number's square root. */
const sqrt: (self: Tensor) => Tensor = own.sqrt;
/** 1 divided by each number's square root. */
const rsqrt: (self: Tensor) => Tensor = own.rsqrt;
/** 1 divided by each number. */
const reciprocal: (self: Tensor) => Tensor = own.reciprocal;
/** Each number without its sign; of complex numbers, their absolute value. */
const abs: (self: Tensor) => Tensor = own.abs;
/** Each number times itself. */
const square: (self: Tensor) => Tensor = own.square;
/** -1, 0 or 1 for each number. */
const sign: (self: Tensor) => Tensor = own.sign;
/** The sine of each number, in radians. */
const sin: (self: Tensor) => Tensor = own.sin;
/** The cosine of each number, in radians. */
const cos: (self: Tensor) => Tensor = own.cos;
/** The hyperbolic tangent of each number. */
const tanh: (self: Tensor) => Tensor = own.tanh;
/** 1 / (1 + exp(-x)) of each number. */
const sigmoid: (self: Tensor) => Tensor = own.sigmoid;
/** The inverse hyperbolic sine of each number. */
const asinh: (self: Tensor) => Tensor = own.asinh;
/** The error function of each number. */
const erf: (self: Tensor) => Tensor = own.erf;
/** The inverse of the error function, of numbers between -1 and 1. */
const erfinv: (self: Tensor) => Tensor = own.erfinv;
/** Puts the inverse of the error function in each number's place. */
const erfinv_: (self: Tensor) => Tensor = own.erfinv_;
/** The largest whole number that is not above each number. */
const floor: (self: Tensor) => Tensor = own.floor;
/** `self` to the power of `exponent`, element by element. */
const pow: (self: Tensor, exponent: Tensor | number) => Tensor = (self, exponent) =>
  own.pow(self, operand(exponent, self));
/** The larger of two numbers, element by element; NaN where one is. */
const maximum: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.maximum(self, operand(other, self));
/** The smaller of two numbers, element by element; NaN where one is. */
const minimum: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.minimum(self, operand(other, self));
/** Numbers moved into the range from `min` to `max`; null leaves a side open. */
const clamp: (self: Tensor, min?: Tensor | null, max?: Tensor | null) => Tensor = own.clamp;
/** Moves the numbers of `self` into the range from `min` to `max`, in place. */
const clamp_: (self: Tensor, min?: Tensor | null, max?: Tensor | null) => Tensor = own.clamp_;
/** Moves `self` towards `end` by the share `weight`, in place. */
const lerp_: (self: Tensor, end: Tensor, weight: Tensor) => Tensor = own.lerp_;
/** The sum of all elements, as a tensor without dimensions. */
const sum: (self: Tensor, dtype?: DType | null) => Tensor = own.sum;
/** The sum over these dimensions, or over all for null; `keepdim` leaves them with size 1. */
const sumDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean, dtype?: DType | null) => Tensor = own.sumDim;
/** The mean of all elements, as a tensor without dimensions. */
const mean: (self: Tensor, dtype?: DType | null) => Tensor = own.mean;
/** The mean over these dimensions, or over all for null; `keepdim` leaves them with size 1. */
const meanDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean, dtype?: DType | null) => Tensor = own.meanDim;
/** The norm of the matrices of two dimensions; `ord` is "fro", the root of the sum of squares, or "nuc". */
const linalgMatrixNorm: (self: Tensor, ord?: string, dim?: readonly number[], keepdim?: boolean, dtype?: DType | null) => Tensor = own.linalgMatrixNorm;
/** The variance over these dimensions; divided by n - 1 if `unbiased`. */
const variance: (self: Tensor, dim: readonly number[] | null, unbiased?: boolean, keepdim?: boolean) => Tensor = own.variance;
/** The largest value over these dimensions, or over all. */
const amax: (self: Tensor, dim?: readonly number[], keepdim?: boolean) => Tensor = own.amax;
/** The smallest value over these dimensions, or over all. */
const amin: (self: Tensor, dim?: readonly number[], keepdim?: boolean) => Tensor = own.amin;
/** Where along `dim` the largest value is, as i64; null means of all elements in row-major order. */
const argmax: (self: Tensor, dim?: number | null, keepdim?: boolean) => Tensor = own.argmax;
/** The largest of all elements. */
const maxValue: (self: Tensor) => Tensor = own.maxValue;
/** The smallest of all elements. */
const minValue: (self: Tensor) => Tensor = own.minValue;
/** Tells whether every element is true, or not 0. */
const allTrue: (self: Tensor) => Tensor = own.allTrue;
/** Tells whether some element is true, or not 0. */
const anyTrue: (self: Tensor) => Tensor = own.anyTrue;
/** For each number whether it is neither NaN nor infinite. */
const isfinite: (self: Tensor) => Tensor = own.isfinite;
/** For each number whether it is NaN. */
const isnan: (self: Tensor) => Tensor = own.isnan;
/** Tells whether both are equal, element by element. */
const eq: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.eq(self, operand(other, self));
/** Tells whether both differ, element by element. */
const ne: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.ne(self, operand(other, self));
/** Tells whether `self` is above `other`, element by element. */
const gt: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.gt(self, operand(other, self));
/** Tells whether `self` is not below `other`, element by element. */
const ge: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.ge(self, operand(other, self));
/** Tells whether `self` is below `other`, element by element. */
const lt: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.lt(self, operand(other, self));
/** Tells whether `self` is not above `other`, element by element. */
const le: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.le(self, operand(other, self));
/** Elements of `self` where `condition` is true, and of `other` elsewhere. */
const where: (condition: Tensor, self: Tensor, other: Tensor) => Tensor = own.where;
/** A copy of `self` with `value`, which has no dimensions, where `mask` is true. */
const maskedFill: (self: Tensor, mask: Tensor, value: Tensor) => Tensor = own.maskedFill;
/** Tells whether both are true, element by element. */
const logicalAnd: (self: Tensor, other: Tensor | number) => Tensor = (self, other) =>
  own.logicalAnd(self, operand(other, self));
/** Tells whether an element is false, or 0. */
const logicalNot: (self: Tensor) => Tensor = own.logicalNot;
/** The `k` largest values along `dim` and where they are; the smallest with `largest` false. */
const topk: (self: Tensor, k: number, dim?: number, largest?: boolean, sorted?: boolean) => [Tensor, Tensor] = own.topk;
/** The element at `index` along dimension `dim`, for each place of `index`. */
const gather: (self: Tensor, dim: number, index: Tensor, sparseGrad?: boolean) => Tensor = own.gather;
/** The places of dimension `dim` that the list `index` names, in its order. */
const indexSelect: (self: Tensor, dim: number, index: Tensor) => Tensor = own.indexSelect;
/** Adds each element of `src` to `self` at `index` along dimension `dim`, in place. */
const scatterAdd_: (self: Tensor, dim: number, index: Tensor, src: Tensor) => Tensor = own.scatterAdd_;
/** Puts the places of `source` into `self`, at those of dimension `dim` that `index` names. */
const indexCopy_: (self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor = own.indexCopy_;
/** The sum of all elements up to each one along dimension `dim`. */
const cumsum: (self: Tensor, dim: number, dtype?: DType | null) => Tensor = own.cumsum;
/** The scalar product of two vectors. */
const dot: (self: Tensor, tensor: Tensor) => Tensor = own.dot;
/** The matrix product (..., m, k) x (..., k, n) -> (..., m, n); a vector is a row, or a column. */
const matmul: (self: Tensor, other: Tensor) => Tensor = own.matmul;
/** The product of two matrices: (m, k) x (k, n) -> (m, n). */
const mm: (self: Tensor, mat2: Tensor) => Tensor = own.mm;
/** Products of matrices, batch by batch: (b, m, k) x (b, k, n) -> (b, m, n). */
const bmm: (self: Tensor, mat2: Tensor) => Tensor = own.bmm;
/** `input` times the transposed `weight`, and `bias`: (..., in) x (out, in) -> (..., out). */
const linear: (input: Tensor, weight: Tensor, bias?: Tensor | null) => Tensor = own.linear;
/** Sums of products over pairs of dimensions: those of `self`, then those of `other`, are left. */
const tensordot: (self: Tensor, other: Tensor | number, dimsSelf: readonly number[], dimsOther: readonly number[]) => Tensor = (self, other, dimsSelf, dimsOther) =>
  own.tensordot(self, operand(other, self), dimsSelf, dimsOther);
/** Eigenvalues of a symmetric matrix, which rise, and its eigenvectors in columns; `UPLO` says which half is read. */
const linalgEigh: (self: Tensor, UPLO?: string) => [Tensor, Tensor] = own.linalgEigh;
/** A matrix with orthogonal columns and a triangular one whose product is the first. */
const linalgQr: (A: Tensor, mode?: string) => [Tensor, Tensor] = own.linalgQr;
/** The values along `dim` in rising order and where each was. */
const sort: (self: Tensor, dim?: number, descending?: boolean) => [Tensor, Tensor] = own.sort;
/** Convolution of (n, in, l) with (out, in / groups, k); one number may stand for all in a list. */
const conv1d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor = own.conv1d;
/** Convolution of (n, in, h, w) with (out, in / groups, kh, kw). */
const conv2d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor = own.conv2d;
/** Convolution of (n, in, d, h, w) with (out, in / groups, kd, kh, kw). */
const conv3d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor = own.conv3d;
/** Transposed convolution of (n, in, l) with (in, out / groups, k). */
const convTranspose1d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor = own.convTranspose1d;
/** Transposed convolution of (n, in, h, w) with (in, out / groups, kh, kw). */
const convTranspose2d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor = own.convTranspose2d;
/** Transposed convolution of (n, in, d, h, w) with (in, out / groups, kd, kh, kw). */
const convTranspose3d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor = own.convTranspose3d;
/** Normalises each channel of (n, c, ...): by the batch, which moves the running statistics, or by those. */
const batchNorm: (input: Tensor, weight: Tensor | null, bias: Tensor | null, runningMean: Tensor | null, runningVar: Tensor | null, training: boolean, momentum: number, eps: number, cudnnEnabled: boolean) => Tensor = own.batchNorm;
/** Normalises over the last dimensions, which `normalizedShape` names, then scales and shifts. */
const layerNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, bias?: Tensor | null, eps?: number, cudnnEnable?: boolean) => Tensor = own.layerNorm;
/** Normalises each of `numGroups` groups of channels of each sample of (n, c, ...). */
const groupNorm: (input: Tensor, numGroups: number, weight?: Tensor | null, bias?: Tensor | null, eps?: number, cudnnEnabled?: boolean) => Tensor = own.groupNorm;
/** Divides by the root of the mean square over the last dimensions, then scales. */
const rmsNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, eps?: number | null) => Tensor = own.rmsNorm;
/** Rows of `weight` by their numbers: (...) of (rows, width) -> (..., width). */
const embedding: (weight: Tensor, indices: Tensor, paddingIdx?: number, scaleGradByFreq?: boolean, sparse?: boolean) => Tensor = own.embedding;
/** In training, zeros with probability `p` and the rest times 1 / (1 - p); else as it is. */
const dropout: (input: Tensor, p: number, train: boolean) => Tensor = own.dropout;
/** Attention of (..., heads, l, d) to keys and values (..., heads, s, d): softmax(q k / sqrt(d) + mask) v. */
const scaledDotProductAttention: (query: Tensor, key: Tensor, value: Tensor, attnMask?: Tensor | null, dropoutP?: number, isCausal?: boolean, scale?: number | null, enableGqa?: boolean) => Tensor = own.scaledDotProductAttention;
/** The largest value in each window of (n, c, l); the stride is the window unless told. */
const maxPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor = own.maxPool1d;
/** The largest value in each window of (n, c, h, w); the stride is the window unless told. */
const maxPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor = own.maxPool2d;
/** The largest value in each window of (n, c, d, h, w); the stride is the window unless told. */
const maxPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor = own.maxPool3d;
/** The mean of each window of (n, c, l); the stride is the window unless told. */
const avgPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean) => Tensor = own.avgPool1d;
/** The mean of each window of (n, c, h, w); the stride is the window unless told. */
const avgPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean, divisorOverride?: number | null) => Tensor = own.avgPool2d;
/** The mean of each window of (n, c, d, h, w); the stride is the window unless told. */
const avgPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean, divisorOverride?: number | null) => Tensor = own.avgPool3d;
/** Means over windows chosen so that (n, c, l) becomes (n, c, `outputSize`). */
const adaptiveAvgPool1d: (self: Tensor, outputSize: readonly number[]) => Tensor = own.adaptiveAvgPool1d;
/** Means over windows chosen so that (n, c, h, w) gets these two sizes. */
const adaptiveAvgPool2d: (self: Tensor, outputSize: readonly number[]) => Tensor = own.adaptiveAvgPool2d;
/** Means over windows chosen so that (n, c, d, h, w) gets these three sizes. */
const adaptiveAvgPool3d: (self: Tensor, outputSize: readonly number[]) => Tensor = own.adaptiveAvgPool3d;
/** Each number, or 0 where it is negative. */
const relu: (self: Tensor) => Tensor = own.relu;
/** Puts 0 in place of negative numbers. */
const relu_: (self: Tensor) => Tensor = own.relu_;
/** Each number, times `weight` where it is negative; one weight, or one for each channel. */
const prelu: (self: Tensor, weight: Tensor) => Tensor = own.prelu;
/** x times the share of the normal distribution below it; `approximate` is "none" or "tanh". */
const gelu: (self: Tensor, approximate?: string) => Tensor = own.gelu;
/** x * sigmoid(x) of each number. */
const silu: (self: Tensor) => Tensor = own.silu;
/** x * tanh(log(1 + exp(x))) of each number. */
const mish: (self: Tensor) => Tensor = own.mish;
/** x * min(max(x + 3, 0), 6) / 6 of each number. */
const hardswish: (self: Tensor) => Tensor = own.hardswish;
/** min(max(x + 3, 0), 6) / 6 of each number. */
const hardsigmoid: (self: Tensor) => Tensor = own.hardsigmoid;
/** The logarithm of sigmoid(x), of each number. */
const logSigmoid: (self: Tensor) => Tensor = own.logSigmoid;
/** Shares along `dim` that are positive and add up to 1: exp(x) / sum(exp(x)). */
const softmax: (self: Tensor, dim: number, dtype?: DType | null) => Tensor = own.softmax;
/** The logarithm of the softmax along `dim`, exact where shares are small. */
const logSoftmax: (self: Tensor, dim: number, dtype?: DType | null) => Tensor = own.logSoftmax;
/** (n, c, l) at another length, from the nearest value. */
const upsampleNearest1d: (self: Tensor, outputSize: readonly number[], scales?: number | null) => Tensor = own.upsampleNearest1d;
/** (n, c, h, w) at another height and width, from the nearest value. */
const upsampleNearest2d: (self: Tensor, outputSize: readonly number[], scalesH?: number | null, scalesW?: number | null) => Tensor = own.upsampleNearest2d;
/** (n, c, d, h, w) at other sizes, from the nearest value. */
const upsampleNearest3d: (self: Tensor, outputSize: readonly number[], scalesD?: number | null, scalesH?: number | null, scalesW?: number | null) => Tensor = own.upsampleNearest3d;
/** (n, c, h, w) at another height and width, between neighbouring values. */
const upsampleBilinear2d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesH?: number | null, scalesW?: number | null) => Tensor = own.upsampleBilinear2d;
/** (n, c, d, h, w) at other sizes, between neighbouring values. */
const upsampleTrilinear3d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesD?: number | null, scalesH?: number | null, scalesW?: number | null) => Tensor = own.upsampleTrilinear3d;
/** (n, c, l) at another length, between neighbouring values. */
const upsampleLinear1d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scales?: number | null) => Tensor = own.upsampleLinear1d;
/** Channels become pixels: (n, c * r * r, h, w) -> (n, c, h * r, w * r). */
const pixelShuffle: (self: Tensor, upscaleFactor: number) => Tensor = own.pixelShuffle;
/** Cross-entropy of logits (n, classes, ...) and i64 classes (n, ...); `reduction` is 0 none, 1 mean, 2 sum. */
const crossEntropyLoss: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number, labelSmoothing?: number) => Tensor = own.crossEntropyLoss;
/** Squared differences; `reduction` is 0 none, 1 mean, 2 sum. */
const mseLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor = own.mseLoss;
/** Absolute differences; `reduction` is 0 none, 1 mean, 2 sum. */
const l1Loss: (self: Tensor, target: Tensor, reduction?: number) => Tensor = own.l1Loss;
/** Half the squared difference up to `delta`, linear beyond; `reduction` is 0 none, 1 mean, 2 sum. */
const huberLoss: (self: Tensor, target: Tensor, reduction?: number, delta?: number) => Tensor = own.huberLoss;
/** Half the squared difference over `beta` up to `beta`, linear beyond; `reduction` is 0 none, 1 mean, 2 sum. */
const smoothL1Loss: (self: Tensor, target: Tensor, reduction?: number, beta?: number) => Tensor = own.smoothL1Loss;
/** Negative logarithms of probabilities (n, classes, ...) at i64 classes (n, ...); `reduction` is 0 none, 1 mean, 2 sum. */
const nllLoss: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number) => Tensor = own.nllLoss;
/** Kullback-Leibler divergence of logarithms of probabilities from probabilities; `reduction` is 0 none, 1 mean, 2 sum. */
const klDiv: (self: Tensor, target: Tensor, reduction?: number, logTarget?: boolean) => Tensor = own.klDiv;
/** Negative log-likelihood of counts; the first is their rate, or its logarithm (`log_input`). */
const poissonNllLoss: (input: Tensor, target: Tensor, logInput: boolean, full: boolean, eps: number, reduction: number) => Tensor = own.poissonNllLoss;
/** log(1 + exp(-target * x)) of targets 1 and -1; `reduction` is 0 none, 1 mean, 2 sum. */
const softMarginLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor = own.softMarginLoss;
/** x where the target is 1, max(0, margin - x) where it is -1. */
const hingeEmbeddingLoss: (self: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor = own.hingeEmbeddingLoss;
/** max(0, -target * (a - b) + margin): a should be above b where the target is 1. */
const marginRankingLoss: (input1: Tensor, input2: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor = own.marginRankingLoss;
/** Hinges between scores (n, classes) and the classes of each row, i64 numbers followed by -1. */
const multilabelMarginLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor = own.multilabelMarginLoss;
/** 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1. */
const cosineEmbeddingLoss: (input1: Tensor, input2: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor = own.cosineEmbeddingLoss;
/** max(0, |anchor - positive| - |anchor - negative| + margin), row by row. */
const tripletMarginLoss: (anchor: Tensor, positive: Tensor, negative: Tensor, margin?: number, p?: number, eps?: number, swap?: boolean, reduction?: number) => Tensor = own.tripletMarginLoss;
/** Connectionist temporal classification of logarithms of probabilities (t, n, classes) and padded labels (n, s). */
const ctcLoss: (logProbs: Tensor, targets: Tensor, inputLengths: Tensor, targetLengths: Tensor, blank?: number, reduction?: number, zeroInfinity?: boolean) => Tensor = own.ctcLoss;
/** Binary cross-entropy of logits and targets from 0 to 1; `reduction` is 0 none, 1 mean, 2 sum. */
const bceWithLogits: (self: Tensor, target: Tensor, weight?: Tensor | null, posWeight?: Tensor | null, reduction?: number) => Tensor = own.bceWithLogits;
/** Binary cross-entropy of probabilities and targets from 0 to 1; `reduction` is 0 none, 1 mean, 2 sum. */
const bce: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number) => Tensor = own.bce;
/** One step of AdamW over all parameters, in one kernel; what createOptimizer calls. */
const fusedAdamW_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedAdamW_;
/** As fusedAdamW_, with the learning rate in a tensor. */
const fusedAdamWByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: Tensor, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedAdamWByTensor_;
/** As fusedAdam_, with the learning rate in a tensor. */
const fusedAdamByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: Tensor, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedAdamByTensor_;
/** As fusedSgd_, with the learning rate in a tensor. */
const fusedSgdByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], momentumBufferList: readonly Tensor[], weightDecay: number, momentum: number, lr: Tensor, dampening: number, nesterov: boolean, maximize: boolean, isFirstStep: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedSgdByTensor_;
/** One step of Adam over all parameters, in one kernel; what createOptimizer calls. */
const fusedAdam_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedAdam_;
/** One step of SGD over all parameters, in one kernel; what createOptimizer calls. */
const fusedSgd_: (self: readonly Tensor[], grads: readonly Tensor[], momentumBufferList: readonly Tensor[], weightDecay: number, momentum: number, lr: number, dampening: number, nesterov: boolean, maximize: boolean, isFirstStep: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void = own.fusedSgd_;
/** Fills each tensor of the list with zeros. */
const foreachZero_: (self: readonly Tensor[]) => void = own.foreachZero_;
/** Copies each tensor of `src` into that of `self` at its place. */
const foreachCopy_: (self: readonly Tensor[], src: readonly Tensor[], nonBlocking?: boolean) => void = own.foreachCopy_;
/** Multiplies each tensor of the list by `other`, which has no dimensions, in place. */
const foreachMul_: (self: readonly Tensor[], other: Tensor) => void = own.foreachMul_;
/** Adds `scalars[i] * tensor1[i] * tensor2[i]` to each tensor of the list, in place. */
const foreachAddcmul_: (self: readonly Tensor[], tensor1: readonly Tensor[], tensor2: readonly Tensor[], scalars: Tensor) => void = own.foreachAddcmul_;
/** Adds `scalars[i] * tensor1[i] / tensor2[i]` to each tensor of the list, in place. */
const foreachAddcdiv_: (self: readonly Tensor[], tensor1: readonly Tensor[], tensor2: readonly Tensor[], scalars: Tensor) => void = own.foreachAddcdiv_;
/** The square roots of each tensor of the list. */
const foreachSqrt: (self: readonly Tensor[]) => Tensor[] = own.foreachSqrt;
/** Multiplies gradients by `invScale` and sets `foundInf` to 1 where one is not finite. */
const checkAndUnscale_: (self: readonly Tensor[], foundInf: Tensor, invScale: Tensor) => void = own.checkAndUnscale_;
/** Lowers the loss's scale after a step that was not finite, raises it after enough that were. */
const updateLossScale_: (self: Tensor, growthTracker: Tensor, foundInf: Tensor, scaleGrowthFactor: number, scaleBackoffFactor: number, growthInterval: number) => Tensor = own.updateLossScale_;
/** The Fourier transform over `dim`, or over all dimensions; complex. */
const fftFftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor = own.fftFftn;
/** The inverse Fourier transform over `dim`, or over all dimensions; complex. */
const fftIfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor = own.fftIfftn;
/** The Fourier transform of real numbers over two dimensions: (..., h, w) -> (..., h, w / 2 + 1). */
const fftRfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor = own.fftRfft2;
/** The inverse of fftRfft2, to real numbers; `s` says the sizes where w is odd. */
const fftIrfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor = own.fftIrfft2;
/** The Fourier transform over two dimensions; complex. */
const fftFft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor = own.fftFft2;
/** The inverse Fourier transform over two dimensions; complex. */
const fftIfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor = own.fftIfft2;
/** The Fourier transform of real numbers over `dim`, or all; the last has w / 2 + 1 places. */
const fftRfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor = own.fftRfftn;
/** The inverse of fftRfftn, to real numbers; `s` says the sizes where the last is odd. */
const fftIrfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor = own.fftIrfftn;

export {
  backwardOp, empty, randn, rand, randint, zerosLike, emptyLike, onesLike, normal_, uniform_,
  bernoulli_, copy_, detach, alias, isLeaf, clone, contiguous, view, reshape, narrow, select, slice,
  transpose, t, permute, expand, unsqueeze, squeeze, flatten, split, chunk, unbind, cat, stack, flip,
  roll, pad, reflectionPad2d, replicationPad2d, asStrided, viewAsReal, viewAsComplex, real, toDtype,
  toCopy, pinMemory, isPinned, mul, mul_, div, div_, neg, exp, log, log1p, expm1, sqrt, rsqrt,
  reciprocal, abs, square, sign, sin, cos, tanh, sigmoid, asinh, erf, erfinv, erfinv_, floor, pow,
  maximum, minimum, clamp, clamp_, lerp_, sum, sumDim, mean, meanDim, linalgMatrixNorm, variance,
  amax, amin, argmax, maxValue, minValue, allTrue, anyTrue, isfinite, isnan, eq, ne, gt, ge, lt, le,
  where, maskedFill, logicalAnd, logicalNot, topk, gather, indexSelect, scatterAdd_, indexCopy_,
  cumsum, dot, matmul, mm, bmm, linear, tensordot, linalgEigh, linalgQr, sort, conv1d, conv2d, conv3d,
  convTranspose1d, convTranspose2d, convTranspose3d, batchNorm, layerNorm, groupNorm, rmsNorm,
  embedding, dropout, scaledDotProductAttention, maxPool1d, maxPool2d, maxPool3d, avgPool1d,
  avgPool2d, avgPool3d, adaptiveAvgPool1d, adaptiveAvgPool2d, adaptiveAvgPool3d, relu, relu_, prelu,
  gelu, silu, mish, hardswish, hardsigmoid, logSigmoid, softmax, logSoftmax, upsampleNearest1d,
  upsampleNearest2d, upsampleNearest3d, upsampleBilinear2d, upsampleTrilinear3d, upsampleLinear1d,
  pixelShuffle, crossEntropyLoss, mseLoss, l1Loss, huberLoss, smoothL1Loss, nllLoss, klDiv,
  poissonNllLoss, softMarginLoss, hingeEmbeddingLoss, marginRankingLoss, multilabelMarginLoss,
  cosineEmbeddingLoss, tripletMarginLoss, ctcLoss, bceWithLogits, bce, fusedAdamW_,
  fusedAdamWByTensor_, fusedAdamByTensor_, fusedSgdByTensor_, fusedAdam_, fusedSgd_, foreachZero_,
  foreachCopy_, foreachMul_, foreachAddcmul_, foreachAddcdiv_, foreachSqrt, checkAndUnscale_,
  updateLossScale_, fftFftn, fftIfftn, fftRfft2, fftIrfft2, fftFft2, fftIfft2, fftRfftn, fftIrfftn
};
