// The library, as the function of a file given to hpctrain sees it. Made by: hpctrain types > hpctrain.d.ts
// Import from it with `import type`: types are all there is here.
// deno-lint-ignore-file
// deno-fmt-ignore-file
/** Settings of the model section that a model of one's own may follow. */
export interface ModelSettings {
    /** --hidden-size */
    readonly hidden_size: number;
    /** --layers */
    readonly layers: number;
    /** --dropout; -1 where it is not given. */
    readonly dropout: number;
    /** 0 where it is not given; so are those below. */
    readonly width: number;
    /** --context */
    readonly context: number;
    /** --heads */
    readonly heads: number;
    /** --embed */
    readonly embed: number;
    readonly patch_size: number;
}
/** Settings of the data section that data of one's own may follow. */
export interface DataSettings {
    /** --data-path; empty where it is not given. */
    readonly data_path: string;
    /** --train-samples */
    readonly train_samples: number;
    /** --val-samples */
    readonly val_samples: number;
}
/** The library, as the argument of a file's function: `export default ({ nn, ops }: Library) => ...`. */
export interface Library {
    /** Modules: nn.Linear, nn.Conv2d, nn.LayerNorm, nn.Module to extend, nn.init. */
    readonly nn: typeof nn;
    /** Operations on tensors, named as libtorch names them, in camel case: ops.relu, ops.crossEntropyLoss. */
    readonly ops: typeof ops;
    /** A tensor of these numbers; a plain array becomes f32. */
    readonly tensor: typeof tensor;
    /** Makes a tensor outlive the step that it is made in. */
    readonly keep: typeof keep;
    /** Frees the tensors that are made inside, but for those returned. */
    readonly scope: typeof scope;
    /** Computes without remembering how, so that nothing is sent back through it. */
    readonly noGrad: typeof noGrad;
    /** A model from its blocks: the parts that --gradient-checkpointing keeps the ends of. */
    readonly model: typeof model;
    /** One such part. */
    readonly block: typeof block;
}
/** What the function of a model's file is given. */
export interface ModelLibrary extends Library {
    /** What the data says: the task, the shape of a sample, how many classes or targets. */
    readonly facts: Facts;
    /** Numbers that the loss wants of the last layer for each sample: most often facts.outputs. */
    readonly outputs: number;
    readonly settings: ModelSettings;
}
/** What the function of a file of data is given. */
export interface DataLibrary extends Library {
    readonly settings: DataSettings;
    /** The run's: what is drawn from it is the same on every rank, and in every run. */
    readonly seed: number;
}
/** What the function of a file of a loss, or of metrics, is given. */
export interface JudgeLibrary extends Library {
    readonly facts: Facts;
}
/** What a model's file gives: a module with forward, or a model of several blocks. */
export type MadeModel = Model | (InstanceType<typeof nn.Module> & {
    forward(x: Tensor): Tensor;
});
/** Samples as two tensors with one row each, or read as they are asked for. */
export type Samples = {
    readonly input: Tensor;
    readonly target: Tensor;
} | {
    readonly length: number;
    /** One row for each id, in their order. */
    batch(ids: readonly number[], epoch: number): {
        readonly input: Tensor;
        readonly target: Tensor;
    };
};
/** What a file of data gives. */
export interface MadeData {
    readonly task: Facts["task"];
    /** Classes, targets, or tokens in the vocabulary. */
    readonly outputs: number;
    readonly train: Samples;
    /** None to validate with where it is left out. */
    readonly val?: Samples | null;
}
/** One number as a tensor: the mean over the samples of a batch. */
export type Judge = (output: Tensor, target: Tensor) => Tensor;
/** What a loss's file gives. `outputs`: numbers that the model is to give for each sample, where that is not the data's. */
export type MadeLoss = Judge | {
    readonly outputs?: number;
    readonly loss: Judge;
};
/** What a metrics' file gives: each by its name. */
export type MadeMetrics = Readonly<Record<string, Judge>>;
declare function noGrad<R>(body: () => R): R;
/** Where a tensor lives. */
export type Device = "cpu" | `cuda:${number}`;
export declare class Tensor {
    #private;
    /** Address of the native handle; 0n once freed. Only ffi/ reads it. */
    h: bigint;
    kept: boolean;
    constructor(handle: bigint);
    get shape(): readonly number[];
    get strides(): readonly number[];
    get dtype(): DType;
    get device(): Device;
    get numel(): number;
    get byteLength(): number;
    get contiguous(): boolean;
    /** The one value of a one-element tensor, as a number. Waits for the device. */
    item(): number;
    /** The one value of a one-element integer tensor, exactly. */
    itemBigInt(): bigint;
    free(): void;
    /** Swaps in another tensor's handle: how a parameter moves into an arena while modules keep their reference. */
    replaceWith(other: Tensor): void;
    toString(): string;
}
/** "f32[32, 7]": how a tensor is named in messages. */
declare function describe(t: Tensor): string;
/** Makes a tensor survive the scope it was made in. The caller frees it. */
declare function keep<T extends Tensor>(t: T): T;
/** Frees every tensor made inside, but for those returned (alone, in an array or in an object) or kept. */
declare function scope<R>(body: () => R): R;
/** Name -> [c10::ScalarType code, bytes per element]. The codes are part of libtorch's file formats and never change. */
declare const table: {
    readonly u8: readonly [0, 1];
    readonly i8: readonly [1, 1];
    readonly i16: readonly [2, 2];
    readonly i32: readonly [3, 4];
    readonly i64: readonly [4, 8];
    readonly f16: readonly [5, 2];
    readonly f32: readonly [6, 4];
    readonly f64: readonly [7, 8];
    readonly c64: readonly [9, 8];
    readonly c128: readonly [10, 16];
    readonly bool: readonly [11, 1];
    readonly bf16: readonly [15, 2];
    readonly u16: readonly [27, 2];
    readonly u32: readonly [28, 4];
    readonly u64: readonly [29, 8];
};
export type DType = keyof typeof table;
export interface Options {
    dtype?: DType;
    device?: Device;
    /** Page-locked host memory: a copy to a GPU from it runs beside the computation. */
    pinned?: boolean;
}
declare const zeros: (shape: readonly number[], o?: Options) => Tensor;
declare const ones: (shape: readonly number[], o?: Options) => Tensor;
declare const uninitialised: (shape: readonly number[], o?: Options) => Tensor;
export type Numbers = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array | BigInt64Array | BigUint64Array;
/** A tensor with these numbers, copied. A plain array becomes f32. */
declare function tensor(values: Numbers | readonly number[], shape?: readonly number[]): Tensor;
/** A 0-dim tensor. */
declare function scalar(value: number, dtype?: DType, device?: Device): Tensor;
declare function fill_(t: Tensor, value: number): Tensor;
declare function zero_(t: Tensor): Tensor;
/** All values as numbers, in row-major order. */
declare function toNumbers(t: Tensor): Float64Array;
declare function toDevice(t: Tensor, device: Device, nonBlocking?: boolean): Tensor;
/** a + b. */
declare function add(a: Tensor, b: Tensor): Tensor;
/** a - scale * b. */
declare function sub(a: Tensor, b: Tensor, scale?: number): Tensor;
/** A 0-dim constant, made once per value, data type and device, never freed: for ops that want a tensor. */
declare function constant(value: number, dtype?: DType, device?: Device): Tensor;
/** x * factor. */
declare const scale: (x: Tensor, factor: number) => Tensor;
/**
 * What passes between blocks: one tensor, or a few (skip connections). The first is the block's own work; behind it
 * are tensors of its input, the same objects, handed on: a leaf between blocks gathers all its users' gradients.
 */
export type Activation = Tensor | readonly Tensor[];
/** The unit of gradient checkpointing: only detached tensors pass from one block to the next. */
export interface Block {
    readonly name: string;
    /** Whose parameters the block uses; null when it has none. A tied parameter is in more than one block. */
    readonly module: Module | null;
    forward(x: Activation): Activation;
}
/** What the data says of the task. */
export interface Facts {
    readonly task: "classification" | "regression" | "language" | "segmentation";
    /** Of one sample, without the batch dimension. */
    readonly input: {
        readonly shape: readonly number[];
        readonly dtype: DType;
    };
    /** Classes, targets, or tokens in the vocabulary. */
    readonly outputs: number;
}
export interface Model {
    readonly name: string;
    readonly root: Module;
    readonly blocks: readonly Block[];
    /** Worth keeping images channels-last on a GPU. */
    readonly convolutional: boolean;
    /** One line: layers, parameters. */
    describe(): string;
}
/** Runs all blocks, inside the caller's scope; what a block leaves behind but its result is freed at its end. */
declare function forward(model: Model, x: Activation): Activation;
/** A block of one tensor in, one tensor out: most are. */
declare function block(name: string, module: Module | null, run: (x: Tensor) => Tensor): Block;
/** A model from its parts; `layers` says in words what describe() puts before the parameter count. */
declare function model(name: string, root: Module, blocks: readonly Block[], more: {
    layers: string;
    convolutional?: boolean;
}): Model;
export type MemoryFormat = "contiguous" | "preserve" | "channels_last" | "channels_last_3d";
declare const verb_add: typeof add;
declare const verb_constant: typeof constant;
declare const verb_fill_: typeof fill_;
declare const verb_ones: typeof ones;
declare const verb_scalar: typeof scalar;
declare const verb_scale: typeof scale;
declare const verb_sub: typeof sub;
declare const verb_tensor: typeof tensor;
declare const verb_toDevice: typeof toDevice;
declare const verb_toNumbers: typeof toNumbers;
declare const verb_uninitialised: typeof uninitialised;
declare const verb_zero_: typeof zero_;
declare const verb_zeros: typeof zeros;
export declare namespace ops {
export const backwardOp: (self: Tensor, inputs: readonly Tensor[], gradient?: Tensor | null | undefined, retainGraph?: boolean | null | undefined, createGraph?: boolean | undefined) => void;
export const zerosOp: (size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined) => Tensor;
export const onesOp: (size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined) => Tensor;
export const empty: (size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const randn: (size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined) => Tensor;
export const rand: (size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined) => Tensor;
export const randint: (low: number, high: number, size: readonly number[], dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined) => Tensor;
export const zerosLike: (self: Tensor, dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const emptyLike: (self: Tensor, dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const onesLike: (self: Tensor, dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const normal_: (self: Tensor, mean?: number | undefined, std?: number | undefined, generator?: null | undefined) => Tensor;
export const uniform_: (self: Tensor, from?: number | undefined, to?: number | undefined, generator?: null | undefined) => Tensor;
export const bernoulli_: (self: Tensor, p?: number | undefined, generator?: null | undefined) => Tensor;
export const copy_: (self: Tensor, src: Tensor, nonBlocking?: boolean | undefined) => Tensor;
export const detach: (self: Tensor) => Tensor;
export const clone: (self: Tensor, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const contiguous: (self: Tensor, memoryFormat?: MemoryFormat | undefined) => Tensor;
export const view: (self: Tensor, size: readonly number[]) => Tensor;
export const reshape: (self: Tensor, shape: readonly number[]) => Tensor;
export const narrow: (self: Tensor, dim: number, start: number, length: number) => Tensor;
export const select: (self: Tensor, dim: number, index: number) => Tensor;
export const slice: (self: Tensor, dim?: number | undefined, start?: number | null | undefined, end?: number | null | undefined, step?: number | undefined) => Tensor;
export const transpose: (self: Tensor, dim0: number, dim1: number) => Tensor;
export const t: (self: Tensor) => Tensor;
export const permute: (self: Tensor, dims: readonly number[]) => Tensor;
export const expand: (self: Tensor, size: readonly number[], implicit?: boolean | undefined) => Tensor;
export const unsqueeze: (self: Tensor, dim: number) => Tensor;
export const squeeze: (self: Tensor, dim: number) => Tensor;
export const flatten: (self: Tensor, startDim?: number | undefined, endDim?: number | undefined) => Tensor;
export const split: (self: Tensor, splitSize: number, dim?: number | undefined) => Tensor[];
export const chunk: (self: Tensor, chunks: number, dim?: number | undefined) => Tensor[];
export const unbind: (self: Tensor, dim?: number | undefined) => Tensor[];
export const cat: (tensors: readonly Tensor[], dim?: number | undefined) => Tensor;
export const stack: (tensors: readonly Tensor[], dim?: number | undefined) => Tensor;
export const flip: (self: Tensor, dims: readonly number[]) => Tensor;
export const roll: (self: Tensor, shifts: readonly number[], dims?: readonly number[] | undefined) => Tensor;
export const asStrided: (self: Tensor, size: readonly number[], stride: readonly number[], storageOffset?: number | null | undefined) => Tensor;
export const viewAsReal: (self: Tensor) => Tensor;
export const viewAsComplex: (self: Tensor) => Tensor;
export const real: (self: Tensor) => Tensor;
export const toDtype: (self: Tensor, dtype: DType, nonBlocking?: boolean | undefined, copy?: boolean | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const toCopy: (self: Tensor, dtype?: DType | null | undefined, layout?: null | undefined, device?: Device | null | undefined, pinMemory?: boolean | null | undefined, nonBlocking?: boolean | undefined, memoryFormat?: MemoryFormat | null | undefined) => Tensor;
export const pinMemory: (self: Tensor, device?: Device | null | undefined) => Tensor;
export const isPinned: (self: Tensor, device?: Device | null | undefined) => boolean;
export const mul: (self: Tensor, other: Tensor) => Tensor;
export const mul_: (self: Tensor, other: Tensor) => Tensor;
export const div: (self: Tensor, other: Tensor) => Tensor;
export const div_: (self: Tensor, other: Tensor) => Tensor;
export const neg: (self: Tensor) => Tensor;
export const exp: (self: Tensor) => Tensor;
export const log: (self: Tensor) => Tensor;
export const log1p: (self: Tensor) => Tensor;
export const expm1: (self: Tensor) => Tensor;
export const sqrt: (self: Tensor) => Tensor;
export const rsqrt: (self: Tensor) => Tensor;
export const reciprocal: (self: Tensor) => Tensor;
export const abs: (self: Tensor) => Tensor;
export const square: (self: Tensor) => Tensor;
export const sign: (self: Tensor) => Tensor;
export const sin: (self: Tensor) => Tensor;
export const cos: (self: Tensor) => Tensor;
export const tanh: (self: Tensor) => Tensor;
export const sigmoid: (self: Tensor) => Tensor;
export const asinh: (self: Tensor) => Tensor;
export const erf: (self: Tensor) => Tensor;
export const erfinv: (self: Tensor) => Tensor;
export const erfinv_: (self: Tensor) => Tensor;
export const floor: (self: Tensor) => Tensor;
export const pow: (self: Tensor, exponent: Tensor) => Tensor;
export const maximum: (self: Tensor, other: Tensor) => Tensor;
export const minimum: (self: Tensor, other: Tensor) => Tensor;
export const clamp: (self: Tensor, min?: Tensor | null | undefined, max?: Tensor | null | undefined) => Tensor;
export const clamp_: (self: Tensor, min?: Tensor | null | undefined, max?: Tensor | null | undefined) => Tensor;
export const lerp_: (self: Tensor, end: Tensor, weight: Tensor) => Tensor;
export const sum: (self: Tensor, dtype?: DType | null | undefined) => Tensor;
export const sumDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean | undefined, dtype?: DType | null | undefined) => Tensor;
export const mean: (self: Tensor, dtype?: DType | null | undefined) => Tensor;
export const meanDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean | undefined, dtype?: DType | null | undefined) => Tensor;
export const variance: (self: Tensor, dim: readonly number[] | null, unbiased?: boolean | undefined, keepdim?: boolean | undefined) => Tensor;
export const amax: (self: Tensor, dim?: readonly number[] | undefined, keepdim?: boolean | undefined) => Tensor;
export const amin: (self: Tensor, dim?: readonly number[] | undefined, keepdim?: boolean | undefined) => Tensor;
export const argmax: (self: Tensor, dim?: number | null | undefined, keepdim?: boolean | undefined) => Tensor;
export const maxValue: (self: Tensor) => Tensor;
export const minValue: (self: Tensor) => Tensor;
export const allTrue: (self: Tensor) => Tensor;
export const anyTrue: (self: Tensor) => Tensor;
export const isfinite: (self: Tensor) => Tensor;
export const isnan: (self: Tensor) => Tensor;
export const eq: (self: Tensor, other: Tensor) => Tensor;
export const ne: (self: Tensor, other: Tensor) => Tensor;
export const gt: (self: Tensor, other: Tensor) => Tensor;
export const ge: (self: Tensor, other: Tensor) => Tensor;
export const lt: (self: Tensor, other: Tensor) => Tensor;
export const le: (self: Tensor, other: Tensor) => Tensor;
export const where: (condition: Tensor, self: Tensor, other: Tensor) => Tensor;
export const maskedFill: (self: Tensor, mask: Tensor, value: Tensor) => Tensor;
export const logicalAnd: (self: Tensor, other: Tensor) => Tensor;
export const logicalNot: (self: Tensor) => Tensor;
export const topk: (self: Tensor, k: number, dim?: number | undefined, largest?: boolean | undefined, sorted?: boolean | undefined) => [Tensor, Tensor];
export const gather: (self: Tensor, dim: number, index: Tensor, sparseGrad?: boolean | undefined) => Tensor;
export const indexSelect: (self: Tensor, dim: number, index: Tensor) => Tensor;
export const scatterAdd_: (self: Tensor, dim: number, index: Tensor, src: Tensor) => Tensor;
export const indexCopy_: (self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor;
export const cumsum: (self: Tensor, dim: number, dtype?: DType | null | undefined) => Tensor;
export const dot: (self: Tensor, tensor: Tensor) => Tensor;
export const matmul: (self: Tensor, other: Tensor) => Tensor;
export const mm: (self: Tensor, mat2: Tensor) => Tensor;
export const bmm: (self: Tensor, mat2: Tensor) => Tensor;
export const linear: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined) => Tensor;
export const sort: (self: Tensor, dim?: number | undefined, descending?: boolean | undefined) => [Tensor, Tensor];
export const conv1d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, groups?: number | undefined) => Tensor;
export const conv2d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, groups?: number | undefined) => Tensor;
export const conv3d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, groups?: number | undefined) => Tensor;
export const convTranspose1d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, outputPadding?: readonly number[] | undefined, groups?: number | undefined, dilation?: readonly number[] | undefined) => Tensor;
export const convTranspose2d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, outputPadding?: readonly number[] | undefined, groups?: number | undefined, dilation?: readonly number[] | undefined) => Tensor;
export const convTranspose3d: (input: Tensor, weight: Tensor, bias?: Tensor | null | undefined, stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, outputPadding?: readonly number[] | undefined, groups?: number | undefined, dilation?: readonly number[] | undefined) => Tensor;
export const batchNorm: (input: Tensor, weight: Tensor | null, bias: Tensor | null, runningMean: Tensor | null, runningVar: Tensor | null, training: boolean, momentum: number, eps: number, cudnnEnabled: boolean) => Tensor;
export const layerNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null | undefined, bias?: Tensor | null | undefined, eps?: number | undefined, cudnnEnable?: boolean | undefined) => Tensor;
export const groupNorm: (input: Tensor, numGroups: number, weight?: Tensor | null | undefined, bias?: Tensor | null | undefined, eps?: number | undefined, cudnnEnabled?: boolean | undefined) => Tensor;
export const rmsNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null | undefined, eps?: number | null | undefined) => Tensor;
export const embedding: (weight: Tensor, indices: Tensor, paddingIdx?: number | undefined, scaleGradByFreq?: boolean | undefined, sparse?: boolean | undefined) => Tensor;
export const dropout: (input: Tensor, p: number, train: boolean) => Tensor;
export const scaledDotProductAttention: (query: Tensor, key: Tensor, value: Tensor, attnMask?: Tensor | null | undefined, dropoutP?: number | undefined, isCausal?: boolean | undefined, scale?: number | null | undefined, enableGqa?: boolean | undefined) => Tensor;
export const maxPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, ceilMode?: boolean | undefined) => Tensor;
export const maxPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, ceilMode?: boolean | undefined) => Tensor;
export const maxPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, dilation?: readonly number[] | undefined, ceilMode?: boolean | undefined) => Tensor;
export const avgPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, ceilMode?: boolean | undefined, countIncludePad?: boolean | undefined) => Tensor;
export const avgPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, ceilMode?: boolean | undefined, countIncludePad?: boolean | undefined, divisorOverride?: number | null | undefined) => Tensor;
export const avgPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[] | undefined, padding?: readonly number[] | undefined, ceilMode?: boolean | undefined, countIncludePad?: boolean | undefined, divisorOverride?: number | null | undefined) => Tensor;
export const adaptiveAvgPool1d: (self: Tensor, outputSize: readonly number[]) => Tensor;
export const adaptiveAvgPool2d: (self: Tensor, outputSize: readonly number[]) => Tensor;
export const adaptiveAvgPool3d: (self: Tensor, outputSize: readonly number[]) => Tensor;
export const relu: (self: Tensor) => Tensor;
export const relu_: (self: Tensor) => Tensor;
export const prelu: (self: Tensor, weight: Tensor) => Tensor;
export const gelu: (self: Tensor, approximate?: string | undefined) => Tensor;
export const silu: (self: Tensor) => Tensor;
export const mish: (self: Tensor) => Tensor;
export const hardswish: (self: Tensor) => Tensor;
export const hardsigmoid: (self: Tensor) => Tensor;
export const logSigmoid: (self: Tensor) => Tensor;
export const softmax: (self: Tensor, dim: number, dtype?: DType | null | undefined) => Tensor;
export const logSoftmax: (self: Tensor, dim: number, dtype?: DType | null | undefined) => Tensor;
export const upsampleNearest1d: (self: Tensor, outputSize: readonly number[], scales?: number | null | undefined) => Tensor;
export const upsampleNearest2d: (self: Tensor, outputSize: readonly number[], scalesH?: number | null | undefined, scalesW?: number | null | undefined) => Tensor;
export const upsampleNearest3d: (self: Tensor, outputSize: readonly number[], scalesD?: number | null | undefined, scalesH?: number | null | undefined, scalesW?: number | null | undefined) => Tensor;
export const upsampleBilinear2d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesH?: number | null | undefined, scalesW?: number | null | undefined) => Tensor;
export const upsampleTrilinear3d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesD?: number | null | undefined, scalesH?: number | null | undefined, scalesW?: number | null | undefined) => Tensor;
export const upsampleLinear1d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scales?: number | null | undefined) => Tensor;
export const pixelShuffle: (self: Tensor, upscaleFactor: number) => Tensor;
export const crossEntropyLoss: (self: Tensor, target: Tensor, weight?: Tensor | null | undefined, reduction?: number | undefined, ignoreIndex?: number | undefined, labelSmoothing?: number | undefined) => Tensor;
export const mseLoss: (self: Tensor, target: Tensor, reduction?: number | undefined) => Tensor;
export const l1Loss: (self: Tensor, target: Tensor, reduction?: number | undefined) => Tensor;
export const huberLoss: (self: Tensor, target: Tensor, reduction?: number | undefined, delta?: number | undefined) => Tensor;
export const bceWithLogits: (self: Tensor, target: Tensor, weight?: Tensor | null | undefined, posWeight?: Tensor | null | undefined, reduction?: number | undefined) => Tensor;
export const bce: (self: Tensor, target: Tensor, weight?: Tensor | null | undefined, reduction?: number | undefined) => Tensor;
export const fusedAdamW_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null | undefined, foundInf?: Tensor | null | undefined) => void;
export const fusedAdam_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null | undefined, foundInf?: Tensor | null | undefined) => void;
export const fusedSgd_: (self: readonly Tensor[], grads: readonly Tensor[], momentumBufferList: readonly Tensor[], weightDecay: number, momentum: number, lr: number, dampening: number, nesterov: boolean, maximize: boolean, isFirstStep: boolean, gradScale?: Tensor | null | undefined, foundInf?: Tensor | null | undefined) => void;
export const foreachZero_: (self: readonly Tensor[]) => void;
export const foreachCopy_: (self: readonly Tensor[], src: readonly Tensor[], nonBlocking?: boolean | undefined) => void;
export const foreachMul_: (self: readonly Tensor[], other: Tensor) => void;
export const foreachAddcmul_: (self: readonly Tensor[], tensor1: readonly Tensor[], tensor2: readonly Tensor[], scalars: Tensor) => void;
export const foreachSqrt: (self: readonly Tensor[]) => Tensor[];
export const checkAndUnscale_: (self: readonly Tensor[], foundInf: Tensor, invScale: Tensor) => void;
export const updateLossScale_: (self: Tensor, growthTracker: Tensor, foundInf: Tensor, scaleGrowthFactor: number, scaleBackoffFactor: number, growthInterval: number) => Tensor;
export const fftFftn: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | null | undefined, norm?: string | null | undefined) => Tensor;
export const fftIfftn: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | null | undefined, norm?: string | null | undefined) => Tensor;
export const fftRfft2: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | undefined, norm?: string | null | undefined) => Tensor;
export const fftIrfft2: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | undefined, norm?: string | null | undefined) => Tensor;
export const fftFft2: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | undefined, norm?: string | null | undefined) => Tensor;
export const fftIfft2: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | undefined, norm?: string | null | undefined) => Tensor;
export const fftRfftn: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | null | undefined, norm?: string | null | undefined) => Tensor;
export const fftIrfftn: (self: Tensor, s?: readonly number[] | null | undefined, dim?: readonly number[] | null | undefined, norm?: string | null | undefined) => Tensor;
export { verb_add as add, verb_constant as constant, verb_fill_ as fill_, verb_ones as ones, verb_scalar as scalar, verb_scale as scale, verb_sub as sub, verb_tensor as tensor, verb_toDevice as toDevice, verb_toNumbers as toNumbers, verb_uninitialised as uninitialised, verb_zero_ as zero_, verb_zeros as zeros };
}
export declare namespace nn {
export type Named<T> = [name: string, value: T];
/** Modules hold Tensor objects for life, never native handles: a trainer may move a parameter into an arena. */
export abstract class Module {
    #private;
    training: boolean;
    /** Registers a trainable tensor. */
    protected parameter(name: string, tensor: Tensor): Tensor;
    /** Registers a tensor that is saved with the weights but not trained. */
    protected buffer(name: string, tensor: Tensor): Tensor;
    protected child<M extends Module>(name: string, module: M): M;
    /** Puts another module's parameter in the place of an own one, which is freed. */
    protected share(name: string, tensor: Tensor): Tensor;
    /** Switches dropout and batch statistics on or off, here and below. */
    train(on?: boolean): void;
    /** Own parameters, then the children's, depth first; a shared tensor once, under its first name. */
    namedParameters(): Named<Tensor>[];
    namedBuffers(): Named<Tensor>[];
    /** What PyTorch's state_dict lists, in its order: shared tensors under each of their names. */
    stateDict(): Named<Tensor>[];
    /** This module and all below it, parents first. */
    modules(): Module[];
    free(): void;
}
/** A module that only gives names to others: PyTorch's Sequential and ModuleDict, or the modules of one block. */
export class Group extends Module {
    constructor(children?: Readonly<Record<string, Module>>);
    add<M extends Module>(name: string | number, module: M): M;
}
export class LeakyReLU extends Module {
    #private;
    constructor(negativeSlope?: number);
    forward(x: Tensor): Tensor;
}
export class PReLU extends Module {
    readonly weight: Tensor;
    constructor(numParameters?: number, init?: number);
    forward(x: Tensor): Tensor;
}
export class MultiheadAttention extends Module {
    #private;
    /** Share of attention weights dropped while training. */
    readonly p: number;
    constructor(embedDim: number, numHeads: number, options?: {
        dropout?: number;
        bias?: boolean;
        causal?: boolean;
    });
    /** x is [batch, tokens, embed]. PyTorch's order of views, so that sums run in its order too. */
    forward(x: Tensor): Tensor;
}
export interface BatchNormOptions {
    eps?: number;
    momentum?: number;
    affine?: boolean;
}
/** Runs forward a second time over the same batch (gradient checkpointing): running statistics stay as they are. */
export function recompute<R>(body: () => R): R;
/** True inside recompute: whatever else keeps statistics leaves them, too. */
export const recomputing: () => boolean;
export class BatchNorm extends Module {
    #private;
    readonly features: number;
    readonly weight: Tensor | null;
    readonly bias: Tensor | null;
    constructor(features: number, options?: BatchNormOptions);
    forward(x: Tensor): Tensor;
}
export interface ConvOptions {
    stride?: Size;
    padding?: Size;
    dilation?: Size;
    groups?: number;
    bias?: boolean;
}
export abstract class Conv extends Module {
    readonly weight: Tensor;
    readonly bias: Tensor | null;
    protected readonly stride: readonly number[];
    protected readonly padding: readonly number[];
    protected readonly dilation: readonly number[];
    protected readonly groups: number;
    constructor(dims: number, inChannels: number, outChannels: number, kernelSize: Size, o: ConvOptions);
}
export class Conv1d extends Conv {
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    forward(x: Tensor): Tensor;
}
export class Conv2d extends Conv {
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    forward(x: Tensor): Tensor;
}
export class Conv3d extends Conv {
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    forward(x: Tensor): Tensor;
}
/** One number for all dimensions, or one each. */
export type Size = number | readonly number[];
/** A list of `dims` numbers, made once so that forward allocates none. */
export function perDimension(size: Size, dims: number): readonly number[];
export interface ConvTransposeOptions extends ConvOptions {
    outputPadding?: Size;
}
export abstract class ConvTranspose extends Module {
    readonly weight: Tensor;
    readonly bias: Tensor | null;
    protected readonly stride: readonly number[];
    protected readonly padding: readonly number[];
    protected readonly outputPadding: readonly number[];
    protected readonly dilation: readonly number[];
    protected readonly groups: number;
    constructor(dims: number, inChannels: number, outChannels: number, kernel: Size, o: ConvTransposeOptions);
}
export class ConvTranspose1d extends ConvTranspose {
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    forward(x: Tensor): Tensor;
}
export class ConvTranspose2d extends ConvTranspose {
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    forward(x: Tensor): Tensor;
}
export class ConvTranspose3d extends ConvTranspose {
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    forward(x: Tensor): Tensor;
}
export class Dropout extends Module {
    readonly p: number;
    constructor(p?: number);
    forward(x: Tensor): Tensor;
}
export class Embedding extends Module {
    #private;
    readonly weight: Tensor;
    /** The row `paddingIdx` is zero and gets no gradient. */
    constructor(numEmbeddings: number, embeddingDim: number, options?: {
        paddingIdx?: number;
    });
    forward(indices: Tensor): Tensor;
}
export class Linear extends Module {
    weight: Tensor;
    readonly bias: Tensor | null;
    constructor(inFeatures: number, outFeatures: number, options?: {
        bias?: boolean;
    });
    /** Uses another module's weight, e.g. an embedding's. */
    tie(weight: Tensor): void;
    forward(x: Tensor): Tensor;
}
export class LayerNorm extends Module {
    #private;
    readonly weight: Tensor | null;
    readonly bias: Tensor | null;
    constructor(normalizedShape: Size, options?: {
        eps?: number;
        elementwiseAffine?: boolean;
        bias?: boolean;
    });
    forward(x: Tensor): Tensor;
}
export class GroupNorm extends Module {
    #private;
    readonly weight: Tensor | null;
    readonly bias: Tensor | null;
    constructor(numGroups: number, numChannels: number, options?: {
        eps?: number;
        affine?: boolean;
    });
    forward(x: Tensor): Tensor;
}
export class RMSNorm extends Module {
    #private;
    readonly weight: Tensor | null;
    /** Without eps it is the data type's own smallest step, as in PyTorch. */
    constructor(normalizedShape: Size, options?: {
        eps?: number;
        elementwiseAffine?: boolean;
    });
    forward(x: Tensor): Tensor;
}
export type Dims = 1 | 2 | 3;
export interface MaxPoolOptions {
    /** The kernel's size unless given. */
    stride?: Size;
    padding?: Size;
    dilation?: Size;
    ceilMode?: boolean;
}
export interface AvgPoolOptions {
    stride?: Size;
    padding?: Size;
    ceilMode?: boolean;
    countIncludePad?: boolean;
}
/** new MaxPool(2, 3) is nn.MaxPool2d(3). */
export class MaxPool extends Module {
    #private;
    constructor(dims: Dims, kernelSize: Size, options?: MaxPoolOptions);
    forward(x: Tensor): Tensor;
}
export class AvgPool extends Module {
    #private;
    constructor(dims: Dims, kernelSize: Size, options?: AvgPoolOptions);
    forward(x: Tensor): Tensor;
}
export class AdaptiveAvgPool extends Module {
    #private;
    constructor(dims: Dims, outputSize: Size);
    forward(x: Tensor): Tensor;
}
export const dimsOf: {
    readonly nearest1d: 1;
    readonly nearest2d: 2;
    readonly nearest3d: 3;
    readonly linear: 1;
    readonly bilinear: 2;
    readonly trilinear: 3;
};
export interface UpsampleOptions {
    scaleFactor: Size;
    /** PyTorch's modes; "nearest" says for how many dimensions. */
    mode: keyof typeof dimsOf;
    alignCorners?: boolean;
}
export class Upsample extends Module {
    #private;
    constructor({ scaleFactor, mode, alignCorners }: UpsampleOptions);
    forward(x: Tensor): Tensor;
}
export namespace init {
export const uniform: (t: Tensor, from: number, to: number) => Tensor;
export const normal: (t: Tensor, mean: number, std: number) => Tensor;
export const fill: (t: Tensor, value: number) => Tensor;
/** Inputs and outputs of one unit of a weight [out, in, ...kernel]. */
export function fans(weight: Tensor): {
    fanIn: number;
    fanOut: number;
};
/** kaiming_uniform_ with the slope a: the default of linear and convolution layers is a = sqrt(5). */
export function kaimingUniform(weight: Tensor, a?: number): Tensor;
/** kaiming_normal_ with mode="fan_out", nonlinearity="relu": residual networks. */
export function kaimingNormalFanOut(weight: Tensor): Tensor;
export function xavierUniform(weight: Tensor): Tensor;
/** The bias beside a weight, as linear and convolution layers draw it. */
export function biasUniform(bias: Tensor, weight: Tensor): Tensor;
/** trunc_normal_ between -2 and 2 with mean 0: what lies outside is drawn again. PyTorch's own way for std up to 5. */
export function truncNormal(t: Tensor, std: number): Tensor;
}
}
type Module = nn.Module;
export {};
