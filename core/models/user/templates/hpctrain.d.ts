// The library, as the function of a file given to hpctrain sees it. Made by: hpctrain types > hpctrain.d.ts
// Import from it with `import type`: types are all there is here.
// deno-lint-ignore-file
// deno-fmt-ignore-file
/** Settings of the model section that a model of one's own may follow. */
interface ModelSettings {
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
    /** Side of a patch, of models that cut images into patches. */
    readonly patch_size: number;
}
/** Settings of the data section that data of one's own may follow. */
interface DataSettings {
    /** --data-path; empty where it is not given. */
    readonly data_path: string;
    /** --train-samples */
    readonly train_samples: number;
    /** --val-samples */
    readonly val_samples: number;
}
/** The library, as the argument of a file's function: `export default ({ nn, ops }: Library) => ...`. */
interface Library {
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
    /** The derivative of a function at a tensor: gradient((t) => net(t), x). It can be derived again. */
    readonly gradient: typeof gradient;
    /** A model from its blocks: the parts that --gradient-checkpointing keeps the ends of. */
    readonly model: typeof model;
    /** One such part. */
    readonly block: typeof block;
}
/** The function of a model's file is given this. */
interface ModelLibrary extends Library {
    /** The facts of the data: the task, the shape of a sample, how many classes or targets. */
    readonly facts: Facts;
    /** Numbers that the loss wants of the last layer for each sample: most often facts.outputs. */
    readonly outputs: number;
    /** The user's choices by flags, where the model wants to follow them. */
    readonly settings: ModelSettings;
}
/** The function of a file of data is given this. */
interface DataLibrary extends Library {
    /** The user's choices by flags, where the data wants to follow them. */
    readonly settings: DataSettings;
    /** The run's: what is drawn from it is the same on every rank, and in every run. */
    readonly seed: number;
}
/** The function of a file of a loss, or of metrics, is given this. */
interface JudgeLibrary extends Library {
    /** The facts of the data: the task, the shape of a sample, how many classes or targets. */
    readonly facts: Facts;
}
/** Settings of the optimizer that one of your own may follow. */
interface OptimizerOptions {
    /** --momentum */
    readonly momentum: number;
    /** --nesterov */
    readonly nesterov: boolean;
    /** --set training.optimizer.beta1=0.9; so are those below. */
    readonly beta1: number;
    readonly beta2: number;
    readonly eps: number;
    readonly rho: number;
    readonly alpha: number;
    readonly amsgrad: boolean;
    readonly centered: boolean;
    readonly maximize: boolean;
}
/** The function of an optimizer's file is given this. */
interface OptimizerLibrary extends Library {
    /** The user's choices by flags, and a group's own, where the optimizer wants to follow them. */
    readonly settings: OptimizerOptions;
}
/** An update is given this. Its tensors have one shape. */
interface OptimizerStep {
    readonly parameter: Tensor;
    readonly gradient: Tensor;
    /** The slots of this parameter, by their names. */
    readonly state: Readonly<Record<string, Tensor>>;
    /** 1 in the first step. */
    readonly step: number;
    /** The rate of this step, and of the parameter's group. */
    readonly lr: number;
    /** --weight-decay, or the group's. */
    readonly weightDecay: number;
}
/** An optimizer's file gives this. */
interface MadeOptimizer {
    /** Names of what is kept of each parameter from step to step: tensors of its shape, zeros at first, as in PyTorch's state. */
    readonly slots?: readonly string[];
    /**
     * True where the update of a number reads none of the others: then it is given pieces of all parameters at once, and --zero 1
     * can share it out.
     */
    readonly perElement?: boolean;
    /** Gives the next parameter and the next state; a slot that is left out, or was changed in place, is as it is. */
    update(now: OptimizerStep): {
        readonly parameter: Tensor;
        readonly [slot: string]: Tensor;
    };
}
/** A model's file gives a module with forward, or a model of several blocks. */
type MadeModel = Model | (InstanceType<typeof nn.Module> & {
    forward(x: Tensor): Tensor;
});
/** Samples as two tensors with one row each, or read on demand. */
type Samples = {
    readonly input: Tensor;
    readonly target: Tensor;
} | {
    readonly length: number;
    /** One row for each id, in their order, that hangs on the id, the epoch and the seed alone: any thread may call it. */
    batch(ids: readonly number[], epoch: number): {
        readonly input: Tensor;
        readonly target: Tensor;
    };
};
/** A file of data gives this. */
interface MadeData {
    /** The task, which chooses the loss and the metrics. */
    readonly task: Facts["task"];
    /** Classes, targets, or tokens in the vocabulary. */
    readonly outputs: number;
    /** The samples to train with. */
    readonly train: Samples;
    /** None to validate with where it is left out. */
    readonly val?: Samples | null;
}
/** One number as a tensor: the mean over the samples of a batch. */
type Judge = (output: Tensor, target: Tensor) => Tensor;
/** A loss's file gives this. `outputs`: numbers that the model is to give for each sample, where that is not the data's. */
type MadeLoss = Judge | {
    readonly outputs?: number;
    readonly loss: Judge;
};
/** A metrics' file gives each metric by its name. */
type MadeMetrics = Readonly<Record<string, Judge>>;
/** Runs `body` without remembering how its results were computed. */
declare function noGrad<R>(body: () => R): R;
/**
 * The derivative of f at x: the gradient of the sum of f(x), in the shape of x. It is differentiable itself, so it may
 * stand in a loss, and f may take a gradient in turn.
 */
declare function gradient(f: (x: Tensor) => Tensor, x: Tensor): Tensor;
/** A tensor lives on one of these. */
type Device = "cpu" | `cuda:${number}`;
/** A tensor of libtorch's, in memory that the garbage collector does not see. */
declare class Tensor {
    #private;
    /** Address of the native handle; 0n once freed. Only ffi/ reads it. */
    h: bigint;
    /** True where scopes leave it alone; `keep` sets it. */
    kept: boolean;
    /** Takes over a native handle; made by ops, not by programs. */
    constructor(handle: bigint);
    /** The size of each dimension. */
    get shape(): readonly number[];
    /** Elements from one place of each dimension to the next. */
    get strides(): readonly number[];
    /** Elements from where its memory begins, which other tensors may share, to its first one. */
    get offset(): number;
    /** The type of its elements. */
    get dtype(): DType;
    /** The device that has its memory. */
    get device(): Device;
    /** How many elements it has. */
    get numel(): number;
    /** How many bytes its elements take. */
    get byteLength(): number;
    /** True where it is laid out in row-major order without gaps. */
    get contiguous(): boolean;
    /** The one value of a one-element tensor, as a number. Waits for the device. */
    item(): number;
    /** The one value of a one-element integer tensor, exactly. */
    itemBigInt(): bigint;
    /** Gives its memory back; every later use is an error. */
    free(): void;
    /** Swaps in another tensor's handle: how a parameter moves into an arena while modules keep their reference. */
    replaceWith(other: Tensor): void;
    /** As it is named in messages: f32[32, 7]. */
    toString(): string;
}
declare function describe(t: Tensor): string;
/** Makes a tensor survive the scope it was made in. The caller frees it. */
declare function keep<T extends Tensor>(t: T): T;
/** Frees every tensor made inside, but for those returned (alone, in an array or in an object) or kept. */
declare function scope<R>(body: () => R): R;
/** The data types of tensors: f32, bf16, i64, ..., by the number of their bits. */
type DType = "u8" | "i8" | "i16" | "i32" | "i64" | "f16" | "f32" | "f64" | "c64" | "c128" | "bool" | "bf16" | "u16" | "u32" | "u64";
/** Options of a new tensor. */
interface Options {
    /** f32 by default. */
    dtype?: DType;
    /** The CPU by default. */
    device?: Device;
    /** Page-locked host memory: a copy to a GPU from it runs beside the computation. */
    pinned?: boolean;
}
/** A tensor of zeros of this shape, f32 on the CPU by default. */
declare const zeros: (shape: readonly number[], o?: Options) => Tensor;
/** A tensor of ones of this shape, f32 on the CPU by default. */
declare const ones: (shape: readonly number[], o?: Options) => Tensor;
declare const uninitialised: (shape: readonly number[], o?: Options) => Tensor;
/** Typed arrays for a new tensor; each gives its own data type. */
type Numbers = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array | BigInt64Array | BigUint64Array;
/** Numbers in rows, and rows in rows: [[1, 2], [3, 4]]. */
type Nested = readonly (number | Nested)[];
/** A tensor with these numbers, copied. By default plain arrays become f32, nested ones with their shape. */
declare function tensor(values: Numbers | Nested, shape?: readonly number[] | null, o?: Options): Tensor;
/** A 0-dim tensor. */
declare function scalar(value: number, dtype?: DType, device?: Device): Tensor;
/** Fills the tensor with one number. */
declare function fill_(t: Tensor, value: number): Tensor;
declare function zero_(t: Tensor): Tensor;
/** All values as numbers, in row-major order. */
declare function toNumbers(t: Tensor): Float64Array;
/** A copy on this device. */
declare function toDevice(t: Tensor, device: Device, nonBlocking?: boolean): Tensor;
/** a + b. */
declare function add(a: Tensor, b: Tensor): Tensor;
/** a - scale * b. */
declare function sub(a: Tensor, b: Tensor, scale?: number): Tensor;
/** A 0-dim constant for ops that want a tensor, made once per value, data type and device, never freed. */
declare function constant(value: number, dtype?: DType, device?: Device): Tensor;
/** x * factor. */
declare const scale: (x: Tensor, factor: number) => Tensor;
/**
 * One tensor passes between blocks, or a few (skip connections). The first is the block's own work; behind it
 * are tensors of its input, the same objects, handed on: a leaf between blocks gathers all its users' gradients.
 */
type Activation = Tensor | readonly Tensor[];
/** The unit of gradient checkpointing: only detached tensors pass from one block to the next. */
interface Block {
    /** Its name in messages, such as layer1.0. */
    readonly name: string;
    /** Its module, whose parameters it uses; null when it has none. A tied parameter is in more than one block. */
    readonly module: Module | null;
    /** From the last block's activation to this one's. */
    forward(x: Activation): Activation;
}
/** The facts of the task and its data. */
interface Facts {
    /** The task, which chooses the loss and the metrics. */
    readonly task: "classification" | "regression" | "language" | "segmentation";
    /** One sample, without the batch dimension. */
    readonly input: {
        readonly shape: readonly number[];
        readonly dtype: DType;
        /** The columns that lie in it side by side along its first dimension, where it is made of columns. */
        readonly columns?: readonly InputColumn[];
        /** So many steps of time lie one after the other along its first dimension, each with all channels. */
        readonly history?: number;
        /** Their shapes do not fit each other: each is there as plain numbers, row by row. */
        readonly flat?: boolean;
    };
    /** Classes, targets, or tokens in the vocabulary. */
    readonly outputs: number;
    /** The data has nothing to predict: only a model with a loss of its own can learn from it. */
    readonly targetless?: boolean;
    /** Targets are maps whose sides are so many times those of the input's maps; absent where they are not finer. */
    readonly upscale?: number;
    /** Targets may have missing points, which are NaN, or training.ignore_index in maps of classes. */
    readonly missing?: boolean;
}
/** A column of the data that the input is made of. */
interface InputColumn {
    /** As it is in the data. */
    readonly name: string;
    /** The shape of one sample, as it is in the data. */
    readonly shape: readonly number[];
    /** The same as it is taken: a number is a row of one, a map an image of one channel. */
    readonly layout: readonly number[];
    /** It holds whole numbers. */
    readonly whole: boolean;
}
/** A model as training sees it: its modules, and the blocks that a batch goes through. */
interface Model {
    /** Its name for --model. */
    readonly name: string;
    /** Holds all modules; its state dict is the checkpoint's. */
    readonly root: Module;
    /** In the order in which a batch goes through them. */
    readonly blocks: readonly Block[];
    /** Worth keeping images channels-last on a GPU. */
    readonly convolutional: boolean;
    /** Measured to be faster so on a CPU, too. */
    readonly channelsLastOnCpu?: boolean;
    /** Its forward draws random numbers, beside what its modules drop. */
    readonly draws?: boolean;
    /** The last block in two steps: its logits can be computed for some tokens at a time. */
    readonly head?: Head;
    /** One line: layers, parameters. */
    describe(): string;
}
/**
 * The head of a language model.
 * @internal
 */
interface Head {
    /** The logits are a linear map of it, token by token. */
    hidden(x: Tensor): Tensor;
    /** The logits of tokens. */
    logits(hidden: Tensor): Tensor;
}
/** Runs all blocks, inside the caller's scope; what a block leaves behind but its result is freed at its end. */
declare function forward(model: Model, x: Activation): Activation;
/** A block of one tensor in, one tensor out: most are. */
declare function block(name: string, module: Module | null, run: (x: Tensor) => Tensor): Block;
/** A model from its parts; `layers` says in words what describe() puts before the parameter count. */
declare function model(name: string, root: Module, blocks: readonly Block[], more: {
    layers: string;
    convolutional?: boolean;
    channelsLastOnCpu?: boolean;
    head?: Head;
}): Model;
/** How a tensor lies in memory: row-major order, as it was, or channels last. */
type MemoryFormat = "contiguous" | "preserve" | "channels_last" | "channels_last_3d";
declare const verb_constant: typeof constant;
declare const verb_fill_: typeof fill_;
declare const verb_ones: typeof ones;
declare const verb_scalar: typeof scalar;
declare const verb_scale: typeof scale;
declare const verb_tensor: typeof tensor;
declare const verb_toDevice: typeof toDevice;
declare const verb_toNumbers: typeof toNumbers;
declare const verb_uninitialised: typeof uninitialised;
declare const verb_zero_: typeof zero_;
declare const verb_zeros: typeof zeros;
declare namespace ops {
/**
 * Operations on tensors, named as libtorch names them, in camel case: relu, crossEntropyLoss, scaledDotProductAttention.
 * Their arguments stand in the order of libtorch's own; null leaves an optional one to it.
 *
 * @module
 */
/** Adds to each input's gradient that of `self`; `backward` is the shorter way. */
const backwardOp: (self: Tensor, inputs: readonly Tensor[], gradient?: Tensor | null, retainGraph?: boolean | null, createGraph?: boolean) => void;
/** A tensor of this size whose values are whatever was in memory. */
const empty: (size: readonly number[], options?: Options) => Tensor;
/** Numbers drawn from the normal distribution of mean 0 and variance 1. */
const randn: (size: readonly number[], options?: Options) => Tensor;
/** Numbers drawn evenly from 0 up to 1, without 1. */
const rand: (size: readonly number[], options?: Options) => Tensor;
/** Whole numbers drawn evenly from `low` up to `high`, without `high`; i64 unless told. */
const randint: (low: number, high: number, size: readonly number[], options?: Options) => Tensor;
/** Zeros in the shape of `self`, of its type and on its device unless told. */
const zerosLike: (self: Tensor, options?: Options) => Tensor;
/** Whatever was in memory, in the shape of `self`, of its type and on its device unless told. */
const emptyLike: (self: Tensor, options?: Options) => Tensor;
/** Ones in the shape of `self`, of its type and on its device unless told. */
const onesLike: (self: Tensor, options?: Options) => Tensor;
/** Fills `self` with numbers drawn from the normal distribution. */
const normal_: (self: Tensor, mean?: number, std?: number, generator?: null) => Tensor;
/** Fills `self` with numbers drawn evenly between `from` and `to`. */
const uniform_: (self: Tensor, from?: number, to?: number, generator?: null) => Tensor;
/** Fills `self` with ones, drawn with probability `p`, and zeros. */
const bernoulli_: (self: Tensor, p?: number, generator?: null) => Tensor;
/** Copies the values of `src` into `self`, across types and devices; `src` is repeated to its shape. */
const copy_: (self: Tensor, src: Tensor, nonBlocking?: boolean) => Tensor;
/** The same memory, without the way back to what it was computed from. */
const detach: (self: Tensor) => Tensor;
/** The same memory as another tensor; gradients pass through. */
const alias: (self: Tensor) => Tensor;
/** Tells whether this tensor was not computed from others that ask for a gradient. */
const isLeaf: (self: Tensor) => boolean;
/** A copy in memory of its own; gradients pass through. */
const clone: (self: Tensor, memoryFormat?: MemoryFormat | null) => Tensor;
/** The same values in row-major order, or in another format of memory; itself where it is so already. */
const contiguous: (self: Tensor, memoryFormat?: MemoryFormat) => Tensor;
/** The same memory in another shape of as many elements; one size may be -1. */
const view: (self: Tensor, size: readonly number[]) => Tensor;
/** Another shape of as many elements, copied only where it must be; one size may be -1. */
const reshape: (self: Tensor, shape: readonly number[]) => Tensor;
/** A view of `length` places of dimension `dim`, from `start` on. */
const narrow: (self: Tensor, dim: number, start: number, length: number) => Tensor;
/** A view of one place of dimension `dim`, which is gone from the shape. */
const select: (self: Tensor, dim: number, index: number) => Tensor;
/** A view of every `step`-th place of dimension `dim` from `start` up to `end`. */
const slice: (self: Tensor, dim?: number, start?: number | null, end?: number | null, step?: number) => Tensor;
/** A view with two dimensions changed for each other. */
const transpose: (self: Tensor, dim0: number, dim1: number) => Tensor;
/** A matrix's rows as columns: (m, n) becomes (n, m). */
const t: (self: Tensor) => Tensor;
/** A view with the dimensions in this order. */
const permute: (self: Tensor, dims: readonly number[]) => Tensor;
/** A view in which dimensions of size 1 are repeated to this size; -1 leaves one as it is. */
const expand: (self: Tensor, size: readonly number[], implicit?: boolean) => Tensor;
/** A view with one more dimension, of size 1, at `dim`. */
const unsqueeze: (self: Tensor, dim: number) => Tensor;
/** A view without dimension `dim`, if its size is 1. */
const squeeze: (self: Tensor, dim: number) => Tensor;
/** Dimensions `startDim` to `endDim` as one: (n, c, h, w) becomes (n, c * h * w) from 1 on. */
const flatten: (self: Tensor, startDim?: number, endDim?: number) => Tensor;
/** Views of `splitSize` places of dimension `dim` each; the last may be smaller. */
const split: (self: Tensor, splitSize: number, dim?: number) => Tensor[];
/** At most `chunks` views of equal size along dimension `dim`; the last may be smaller. */
const chunk: (self: Tensor, chunks: number, dim?: number) => Tensor[];
/** One view for each place of dimension `dim`, without it. */
const unbind: (self: Tensor, dim?: number) => Tensor[];
/** Tensors one after the other along dimension `dim`; their other sizes are the same. */
const cat: (tensors: readonly Tensor[], dim?: number) => Tensor;
/** Tensors of one shape side by side along a new dimension `dim`. */
const stack: (tensors: readonly Tensor[], dim?: number) => Tensor;
/** A copy in which these dimensions run backwards. */
const flip: (self: Tensor, dims: readonly number[]) => Tensor;
/** A copy moved by `shifts` places along `dims`; what leaves at one end comes in at the other. */
const roll: (self: Tensor, shifts: readonly number[], dims?: readonly number[]) => Tensor;
/** Wider by `pad` places before and behind the last dimension, then the one before it; `mode` says what is there. */
const pad: (self: Tensor, pad: readonly number[], mode?: string, value?: number | null) => Tensor;
/** Wider by places before and behind each of the last two dimensions, as in a mirror at the edge. */
const reflectionPad2d: (self: Tensor, padding: readonly number[]) => Tensor;
/** Wider by places before and behind each of the last two dimensions, which repeat the edge. */
const replicationPad2d: (self: Tensor, padding: readonly number[]) => Tensor;
/** A view of the tensor's memory by size and strides alone. */
const asStrided: (self: Tensor, size: readonly number[], stride: readonly number[], storageOffset?: number | null) => Tensor;
/** Complex numbers as pairs of real ones: (...) becomes (..., 2). */
const viewAsReal: (self: Tensor) => Tensor;
/** Pairs of real numbers as complex ones: (..., 2) becomes (...). */
const viewAsComplex: (self: Tensor) => Tensor;
/** The real parts, as a view. */
const real: (self: Tensor) => Tensor;
/** The values in another data type; itself where it has that already, unless `copy`. */
const toDtype: (self: Tensor, dtype: DType, nonBlocking?: boolean, copy?: boolean, memoryFormat?: MemoryFormat | null) => Tensor;
/** A copy of another type, on another device, or in other memory; null leaves each as it is. */
const toCopy: (self: Tensor, options?: Options) => Tensor;
/** A copy in page-locked host memory, which a GPU copies from beside its work. */
const pinMemory: (self: Tensor, device?: Device | null) => Tensor;
/** Tells whether the tensor is in page-locked host memory. */
const isPinned: (self: Tensor, device?: Device | null) => boolean;
/** `self` times `other`, element by element. */
const mul: (self: Tensor, other: Tensor | number) => Tensor;
/** Multiplies `self` by `other`, in place. */
const mul_: (self: Tensor, other: Tensor) => Tensor;
/** `self` divided by `other`, element by element. */
const div: (self: Tensor, other: Tensor | number) => Tensor;
/** Divides `self` by `other`, in place. */
const div_: (self: Tensor, other: Tensor) => Tensor;
/** Each number with the other sign. */
const neg: (self: Tensor) => Tensor;
/** e to the power of each number. */
const exp: (self: Tensor) => Tensor;
/** Each number's natural logarithm. */
const log: (self: Tensor) => Tensor;
/** The logarithm of 1 + x, exact for small x. */
const log1p: (self: Tensor) => Tensor;
/** e to the power of x, less 1, exact for small x. */
const expm1: (self: Tensor) => Tensor;
/** Each number's square root. */
const sqrt: (self: Tensor) => Tensor;
/** 1 divided by each number's square root. */
const rsqrt: (self: Tensor) => Tensor;
/** 1 divided by each number. */
const reciprocal: (self: Tensor) => Tensor;
/** Each number without its sign; of complex numbers, their absolute value. */
const abs: (self: Tensor) => Tensor;
/** Each number times itself. */
const square: (self: Tensor) => Tensor;
/** -1, 0 or 1 for each number. */
const sign: (self: Tensor) => Tensor;
/** The sine of each number, in radians. */
const sin: (self: Tensor) => Tensor;
/** The cosine of each number, in radians. */
const cos: (self: Tensor) => Tensor;
/** The hyperbolic tangent of each number. */
const tanh: (self: Tensor) => Tensor;
/** 1 / (1 + exp(-x)) of each number. */
const sigmoid: (self: Tensor) => Tensor;
/** The inverse hyperbolic sine of each number. */
const asinh: (self: Tensor) => Tensor;
/** The error function of each number. */
const erf: (self: Tensor) => Tensor;
/** The inverse of the error function, of numbers between -1 and 1. */
const erfinv: (self: Tensor) => Tensor;
/** Puts the inverse of the error function in each number's place. */
const erfinv_: (self: Tensor) => Tensor;
/** The largest whole number that is not above each number. */
const floor: (self: Tensor) => Tensor;
/** `self` to the power of `exponent`, element by element. */
const pow: (self: Tensor, exponent: Tensor | number) => Tensor;
/** The larger of two numbers, element by element; NaN where one is. */
const maximum: (self: Tensor, other: Tensor | number) => Tensor;
/** The smaller of two numbers, element by element; NaN where one is. */
const minimum: (self: Tensor, other: Tensor | number) => Tensor;
/** Numbers moved into the range from `min` to `max`; null leaves a side open. */
const clamp: (self: Tensor, min?: Tensor | null, max?: Tensor | null) => Tensor;
/** Moves the numbers of `self` into the range from `min` to `max`, in place. */
const clamp_: (self: Tensor, min?: Tensor | null, max?: Tensor | null) => Tensor;
/** Moves `self` towards `end` by the share `weight`, in place. */
const lerp_: (self: Tensor, end: Tensor, weight: Tensor) => Tensor;
/** The sum of all elements, as a tensor without dimensions. */
const sum: (self: Tensor, dtype?: DType | null) => Tensor;
/** The sum over these dimensions, or over all for null; `keepdim` leaves them with size 1. */
const sumDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean, dtype?: DType | null) => Tensor;
/** The mean of all elements, as a tensor without dimensions. */
const mean: (self: Tensor, dtype?: DType | null) => Tensor;
/** The mean over these dimensions, or over all for null; `keepdim` leaves them with size 1. */
const meanDim: (self: Tensor, dim: readonly number[] | null, keepdim?: boolean, dtype?: DType | null) => Tensor;
/** The norm of the matrices of two dimensions; `ord` is "fro", the root of the sum of squares, or "nuc". */
const linalgMatrixNorm: (self: Tensor, ord?: string, dim?: readonly number[], keepdim?: boolean, dtype?: DType | null) => Tensor;
/** The variance over these dimensions; divided by n - 1 if `unbiased`. */
const variance: (self: Tensor, dim: readonly number[] | null, unbiased?: boolean, keepdim?: boolean) => Tensor;
/** The largest value over these dimensions, or over all. */
const amax: (self: Tensor, dim?: readonly number[], keepdim?: boolean) => Tensor;
/** The smallest value over these dimensions, or over all. */
const amin: (self: Tensor, dim?: readonly number[], keepdim?: boolean) => Tensor;
/** Where along `dim` the largest value is, as i64; null means of all elements in row-major order. */
const argmax: (self: Tensor, dim?: number | null, keepdim?: boolean) => Tensor;
/** The largest of all elements. */
const maxValue: (self: Tensor) => Tensor;
/** The smallest of all elements. */
const minValue: (self: Tensor) => Tensor;
/** Tells whether every element is true, or not 0. */
const allTrue: (self: Tensor) => Tensor;
/** Tells whether some element is true, or not 0. */
const anyTrue: (self: Tensor) => Tensor;
/** For each number whether it is neither NaN nor infinite. */
const isfinite: (self: Tensor) => Tensor;
/** For each number whether it is NaN. */
const isnan: (self: Tensor) => Tensor;
/** Tells whether both are equal, element by element. */
const eq: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether both differ, element by element. */
const ne: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether `self` is above `other`, element by element. */
const gt: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether `self` is not below `other`, element by element. */
const ge: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether `self` is below `other`, element by element. */
const lt: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether `self` is not above `other`, element by element. */
const le: (self: Tensor, other: Tensor | number) => Tensor;
/** Elements of `self` where `condition` is true, and of `other` elsewhere. */
const where: (condition: Tensor, self: Tensor, other: Tensor) => Tensor;
/** A copy of `self` with `value`, which has no dimensions, where `mask` is true. */
const maskedFill: (self: Tensor, mask: Tensor, value: Tensor) => Tensor;
/** Tells whether both are true, element by element. */
const logicalAnd: (self: Tensor, other: Tensor | number) => Tensor;
/** Tells whether an element is false, or 0. */
const logicalNot: (self: Tensor) => Tensor;
/** The `k` largest values along `dim` and where they are; the smallest with `largest` false. */
const topk: (self: Tensor, k: number, dim?: number, largest?: boolean, sorted?: boolean) => [Tensor, Tensor];
/** The element at `index` along dimension `dim`, for each place of `index`. */
const gather: (self: Tensor, dim: number, index: Tensor, sparseGrad?: boolean) => Tensor;
/** The places of dimension `dim` that the list `index` names, in its order. */
const indexSelect: (self: Tensor, dim: number, index: Tensor) => Tensor;
/** Adds each element of `src` to `self` at `index` along dimension `dim`, in place. */
const scatterAdd_: (self: Tensor, dim: number, index: Tensor, src: Tensor) => Tensor;
/** Puts the places of `source` into `self`, at those of dimension `dim` that `index` names. */
const indexCopy_: (self: Tensor, dim: number, index: Tensor, source: Tensor) => Tensor;
/** The sum of all elements up to each one along dimension `dim`. */
const cumsum: (self: Tensor, dim: number, dtype?: DType | null) => Tensor;
/** The scalar product of two vectors. */
const dot: (self: Tensor, tensor: Tensor) => Tensor;
/** The matrix product (..., m, k) x (..., k, n) -> (..., m, n); a vector is a row, or a column. */
const matmul: (self: Tensor, other: Tensor) => Tensor;
/** The product of two matrices: (m, k) x (k, n) -> (m, n). */
const mm: (self: Tensor, mat2: Tensor) => Tensor;
/** Products of matrices, batch by batch: (b, m, k) x (b, k, n) -> (b, m, n). */
const bmm: (self: Tensor, mat2: Tensor) => Tensor;
/** `input` times the transposed `weight`, and `bias`: (..., in) x (out, in) -> (..., out). */
const linear: (input: Tensor, weight: Tensor, bias?: Tensor | null) => Tensor;
/** Sums of products over pairs of dimensions: those of `self`, then those of `other`, are left. */
const tensordot: (self: Tensor, other: Tensor | number, dimsSelf: readonly number[], dimsOther: readonly number[]) => Tensor;
/** Eigenvalues of a symmetric matrix, which rise, and its eigenvectors in columns; `UPLO` says which half is read. */
const linalgEigh: (self: Tensor, UPLO?: string) => [Tensor, Tensor];
/** A matrix with orthogonal columns and a triangular one whose product is the first. */
const linalgQr: (A: Tensor, mode?: string) => [Tensor, Tensor];
/** The values along `dim` in rising order and where each was. */
const sort: (self: Tensor, dim?: number, descending?: boolean) => [Tensor, Tensor];
/** Convolution of (n, in, l) with (out, in / groups, k); one number may stand for all in a list. */
const conv1d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor;
/** Convolution of (n, in, h, w) with (out, in / groups, kh, kw). */
const conv2d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor;
/** Convolution of (n, in, d, h, w) with (out, in / groups, kd, kh, kw). */
const conv3d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], groups?: number) => Tensor;
/** Transposed convolution of (n, in, l) with (in, out / groups, k). */
const convTranspose1d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor;
/** Transposed convolution of (n, in, h, w) with (in, out / groups, kh, kw). */
const convTranspose2d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor;
/** Transposed convolution of (n, in, d, h, w) with (in, out / groups, kd, kh, kw). */
const convTranspose3d: (input: Tensor, weight: Tensor, bias?: Tensor | null, stride?: readonly number[], padding?: readonly number[], outputPadding?: readonly number[], groups?: number, dilation?: readonly number[]) => Tensor;
/** Normalises each channel of (n, c, ...): by the batch, which moves the running statistics, or by those. */
const batchNorm: (input: Tensor, weight: Tensor | null, bias: Tensor | null, runningMean: Tensor | null, runningVar: Tensor | null, training: boolean, momentum: number, eps: number, cudnnEnabled: boolean) => Tensor;
/** Normalises over the last dimensions, which `normalizedShape` names, then scales and shifts. */
const layerNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, bias?: Tensor | null, eps?: number, cudnnEnable?: boolean) => Tensor;
/** Normalises each of `numGroups` groups of channels of each sample of (n, c, ...). */
const groupNorm: (input: Tensor, numGroups: number, weight?: Tensor | null, bias?: Tensor | null, eps?: number, cudnnEnabled?: boolean) => Tensor;
/** Divides by the root of the mean square over the last dimensions, then scales. */
const rmsNorm: (input: Tensor, normalizedShape: readonly number[], weight?: Tensor | null, eps?: number | null) => Tensor;
/** Rows of `weight` by their numbers: (...) of (rows, width) -> (..., width). */
const embedding: (weight: Tensor, indices: Tensor, paddingIdx?: number, scaleGradByFreq?: boolean, sparse?: boolean) => Tensor;
/** In training, zeros with probability `p` and the rest times 1 / (1 - p); else as it is. */
const dropout: (input: Tensor, p: number, train: boolean) => Tensor;
/** Attention of (..., heads, l, d) to keys and values (..., heads, s, d): softmax(q k / sqrt(d) + mask) v. */
const scaledDotProductAttention: (query: Tensor, key: Tensor, value: Tensor, attnMask?: Tensor | null, dropoutP?: number, isCausal?: boolean, scale?: number | null, enableGqa?: boolean) => Tensor;
/** The largest value in each window of (n, c, l); the stride is the window unless told. */
const maxPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor;
/** The largest value in each window of (n, c, h, w); the stride is the window unless told. */
const maxPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor;
/** The largest value in each window of (n, c, d, h, w); the stride is the window unless told. */
const maxPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], dilation?: readonly number[], ceilMode?: boolean) => Tensor;
/** The mean of each window of (n, c, l); the stride is the window unless told. */
const avgPool1d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean) => Tensor;
/** The mean of each window of (n, c, h, w); the stride is the window unless told. */
const avgPool2d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean, divisorOverride?: number | null) => Tensor;
/** The mean of each window of (n, c, d, h, w); the stride is the window unless told. */
const avgPool3d: (self: Tensor, kernelSize: readonly number[], stride?: readonly number[], padding?: readonly number[], ceilMode?: boolean, countIncludePad?: boolean, divisorOverride?: number | null) => Tensor;
/** Means over windows chosen so that (n, c, l) becomes (n, c, `outputSize`). */
const adaptiveAvgPool1d: (self: Tensor, outputSize: readonly number[]) => Tensor;
/** Means over windows chosen so that (n, c, h, w) gets these two sizes. */
const adaptiveAvgPool2d: (self: Tensor, outputSize: readonly number[]) => Tensor;
/** Means over windows chosen so that (n, c, d, h, w) gets these three sizes. */
const adaptiveAvgPool3d: (self: Tensor, outputSize: readonly number[]) => Tensor;
/** Each number, or 0 where it is negative. */
const relu: (self: Tensor) => Tensor;
/** Puts 0 in place of negative numbers. */
const relu_: (self: Tensor) => Tensor;
/** Each number, times `weight` where it is negative; one weight, or one for each channel. */
const prelu: (self: Tensor, weight: Tensor) => Tensor;
/** x times the share of the normal distribution below it; `approximate` is "none" or "tanh". */
const gelu: (self: Tensor, approximate?: string) => Tensor;
/** x * sigmoid(x) of each number. */
const silu: (self: Tensor) => Tensor;
/** x * tanh(log(1 + exp(x))) of each number. */
const mish: (self: Tensor) => Tensor;
/** x * min(max(x + 3, 0), 6) / 6 of each number. */
const hardswish: (self: Tensor) => Tensor;
/** min(max(x + 3, 0), 6) / 6 of each number. */
const hardsigmoid: (self: Tensor) => Tensor;
/** The logarithm of sigmoid(x), of each number. */
const logSigmoid: (self: Tensor) => Tensor;
/** Shares along `dim` that are positive and add up to 1: exp(x) / sum(exp(x)). */
const softmax: (self: Tensor, dim: number, dtype?: DType | null) => Tensor;
/** The logarithm of the softmax along `dim`, exact where shares are small. */
const logSoftmax: (self: Tensor, dim: number, dtype?: DType | null) => Tensor;
/** (n, c, l) at another length, from the nearest value. */
const upsampleNearest1d: (self: Tensor, outputSize: readonly number[], scales?: number | null) => Tensor;
/** (n, c, h, w) at another height and width, from the nearest value. */
const upsampleNearest2d: (self: Tensor, outputSize: readonly number[], scalesH?: number | null, scalesW?: number | null) => Tensor;
/** (n, c, d, h, w) at other sizes, from the nearest value. */
const upsampleNearest3d: (self: Tensor, outputSize: readonly number[], scalesD?: number | null, scalesH?: number | null, scalesW?: number | null) => Tensor;
/** (n, c, h, w) at another height and width, between neighbouring values. */
const upsampleBilinear2d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesH?: number | null, scalesW?: number | null) => Tensor;
/** (n, c, d, h, w) at other sizes, between neighbouring values. */
const upsampleTrilinear3d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scalesD?: number | null, scalesH?: number | null, scalesW?: number | null) => Tensor;
/** (n, c, l) at another length, between neighbouring values. */
const upsampleLinear1d: (self: Tensor, outputSize: readonly number[], alignCorners: boolean, scales?: number | null) => Tensor;
/** Channels become pixels: (n, c * r * r, h, w) -> (n, c, h * r, w * r). */
const pixelShuffle: (self: Tensor, upscaleFactor: number) => Tensor;
/** Cross-entropy of logits (n, classes, ...) and i64 classes (n, ...); `reduction` is 0 none, 1 mean, 2 sum. */
const crossEntropyLoss: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number, labelSmoothing?: number) => Tensor;
/** Squared differences; `reduction` is 0 none, 1 mean, 2 sum. */
const mseLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor;
/** Absolute differences; `reduction` is 0 none, 1 mean, 2 sum. */
const l1Loss: (self: Tensor, target: Tensor, reduction?: number) => Tensor;
/** Half the squared difference up to `delta`, linear beyond; `reduction` is 0 none, 1 mean, 2 sum. */
const huberLoss: (self: Tensor, target: Tensor, reduction?: number, delta?: number) => Tensor;
/** Half the squared difference over `beta` up to `beta`, linear beyond; `reduction` is 0 none, 1 mean, 2 sum. */
const smoothL1Loss: (self: Tensor, target: Tensor, reduction?: number, beta?: number) => Tensor;
/** Negative logarithms of probabilities (n, classes, ...) at i64 classes (n, ...); `reduction` is 0 none, 1 mean, 2 sum. */
const nllLoss: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number, ignoreIndex?: number) => Tensor;
/** Kullback-Leibler divergence of logarithms of probabilities from probabilities; `reduction` is 0 none, 1 mean, 2 sum. */
const klDiv: (self: Tensor, target: Tensor, reduction?: number, logTarget?: boolean) => Tensor;
/** Negative log-likelihood of counts; the first is their rate, or its logarithm (`log_input`). */
const poissonNllLoss: (input: Tensor, target: Tensor, logInput: boolean, full: boolean, eps: number, reduction: number) => Tensor;
/** log(1 + exp(-target * x)) of targets 1 and -1; `reduction` is 0 none, 1 mean, 2 sum. */
const softMarginLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor;
/** x where the target is 1, max(0, margin - x) where it is -1. */
const hingeEmbeddingLoss: (self: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor;
/** max(0, -target * (a - b) + margin): a should be above b where the target is 1. */
const marginRankingLoss: (input1: Tensor, input2: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor;
/** Hinges between scores (n, classes) and the classes of each row, i64 numbers followed by -1. */
const multilabelMarginLoss: (self: Tensor, target: Tensor, reduction?: number) => Tensor;
/** 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1. */
const cosineEmbeddingLoss: (input1: Tensor, input2: Tensor, target: Tensor, margin?: number, reduction?: number) => Tensor;
/** max(0, |anchor - positive| - |anchor - negative| + margin), row by row. */
const tripletMarginLoss: (anchor: Tensor, positive: Tensor, negative: Tensor, margin?: number, p?: number, eps?: number, swap?: boolean, reduction?: number) => Tensor;
/** Connectionist temporal classification of logarithms of probabilities (t, n, classes) and padded labels (n, s). */
const ctcLoss: (logProbs: Tensor, targets: Tensor, inputLengths: Tensor, targetLengths: Tensor, blank?: number, reduction?: number, zeroInfinity?: boolean) => Tensor;
/** Binary cross-entropy of logits and targets from 0 to 1; `reduction` is 0 none, 1 mean, 2 sum. */
const bceWithLogits: (self: Tensor, target: Tensor, weight?: Tensor | null, posWeight?: Tensor | null, reduction?: number) => Tensor;
/** Binary cross-entropy of probabilities and targets from 0 to 1; `reduction` is 0 none, 1 mean, 2 sum. */
const bce: (self: Tensor, target: Tensor, weight?: Tensor | null, reduction?: number) => Tensor;
/** One step of AdamW over all parameters, in one kernel; what createOptimizer calls. */
const fusedAdamW_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** As fusedAdamW_, with the learning rate in a tensor. */
const fusedAdamWByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: Tensor, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** As fusedAdam_, with the learning rate in a tensor. */
const fusedAdamByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: Tensor, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** As fusedSgd_, with the learning rate in a tensor. */
const fusedSgdByTensor_: (self: readonly Tensor[], grads: readonly Tensor[], momentumBufferList: readonly Tensor[], weightDecay: number, momentum: number, lr: Tensor, dampening: number, nesterov: boolean, maximize: boolean, isFirstStep: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** One step of Adam over all parameters, in one kernel; what createOptimizer calls. */
const fusedAdam_: (self: readonly Tensor[], grads: readonly Tensor[], expAvgs: readonly Tensor[], expAvgSqs: readonly Tensor[], maxExpAvgSqs: readonly Tensor[], stateSteps: readonly Tensor[], lr: number, beta1: number, beta2: number, weightDecay: number, eps: number, amsgrad: boolean, maximize: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** One step of SGD over all parameters, in one kernel; what createOptimizer calls. */
const fusedSgd_: (self: readonly Tensor[], grads: readonly Tensor[], momentumBufferList: readonly Tensor[], weightDecay: number, momentum: number, lr: number, dampening: number, nesterov: boolean, maximize: boolean, isFirstStep: boolean, gradScale?: Tensor | null, foundInf?: Tensor | null) => void;
/** Fills each tensor of the list with zeros. */
const foreachZero_: (self: readonly Tensor[]) => void;
/** Copies each tensor of `src` into that of `self` at its place. */
const foreachCopy_: (self: readonly Tensor[], src: readonly Tensor[], nonBlocking?: boolean) => void;
/** Multiplies each tensor of the list by `other`, which has no dimensions, in place. */
const foreachMul_: (self: readonly Tensor[], other: Tensor) => void;
/** Adds `scalars[i] * tensor1[i] * tensor2[i]` to each tensor of the list, in place. */
const foreachAddcmul_: (self: readonly Tensor[], tensor1: readonly Tensor[], tensor2: readonly Tensor[], scalars: Tensor) => void;
/** Adds `scalars[i] * tensor1[i] / tensor2[i]` to each tensor of the list, in place. */
const foreachAddcdiv_: (self: readonly Tensor[], tensor1: readonly Tensor[], tensor2: readonly Tensor[], scalars: Tensor) => void;
/** The square roots of each tensor of the list. */
const foreachSqrt: (self: readonly Tensor[]) => Tensor[];
/** Multiplies gradients by `invScale` and sets `foundInf` to 1 where one is not finite. */
const checkAndUnscale_: (self: readonly Tensor[], foundInf: Tensor, invScale: Tensor) => void;
/** Lowers the loss's scale after a step that was not finite, raises it after enough that were. */
const updateLossScale_: (self: Tensor, growthTracker: Tensor, foundInf: Tensor, scaleGrowthFactor: number, scaleBackoffFactor: number, growthInterval: number) => Tensor;
/** The Fourier transform over `dim`, or over all dimensions; complex. */
const fftFftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor;
/** The inverse Fourier transform over `dim`, or over all dimensions; complex. */
const fftIfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor;
/** The Fourier transform of real numbers over two dimensions: (..., h, w) -> (..., h, w / 2 + 1). */
const fftRfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor;
/** The inverse of fftRfft2, to real numbers; `s` says the sizes where w is odd. */
const fftIrfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor;
/** The Fourier transform over two dimensions; complex. */
const fftFft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor;
/** The inverse Fourier transform over two dimensions; complex. */
const fftIfft2: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[], norm?: string | null) => Tensor;
/** The Fourier transform of real numbers over `dim`, or all; the last has w / 2 + 1 places. */
const fftRfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor;
/** The inverse of fftRfftn, to real numbers; `s` says the sizes where the last is odd. */
const fftIrfftn: (self: Tensor, s?: readonly number[] | null, dim?: readonly number[] | null, norm?: string | null) => Tensor;
/** `a` plus `b`, element by element. */
const add: (a: Tensor, b: Tensor | number) => Tensor;
/** `a` less `scale` times `b`, element by element. */
const sub: (a: Tensor, b: Tensor | number, scale?: number) => Tensor;
/** The arguments of an operation of any name, in its schema's order; named ones may come last: `{ dim: [1], keepdim: true }`. */
type OpArgument = Tensor | number | boolean | string | null | undefined | readonly OpArgument[] | {
    readonly [name: string]: OpArgument;
};
/** An operation that was looked up by name. */
type AnyOp<R = Tensor> = (...args: OpArgument[]) => R;
/**
 * Any operation of the libtorch that is loaded: `const logsumexp = op("logsumexp")`, `op("scatter_add")`,
 * `op("sum.dim_IntList")`. The name is that of PyTorch's schema, with the overload behind a dot. Look it up once, not in
 * each step. A name that is not there, or an argument that does not fit, is refused with the schema.
 */
function op<R = Tensor>(name: string): AnyOp<R>;
const constant: typeof verb_constant;
const fill_: typeof verb_fill_;
const ones: typeof verb_ones;
const scalar: typeof verb_scalar;
const scale: typeof verb_scale;
const tensor: typeof verb_tensor;
const toDevice: typeof verb_toDevice;
const toNumbers: typeof verb_toNumbers;
const uninitialised: typeof verb_uninitialised;
const zero_: typeof verb_zero_;
const zeros: typeof verb_zeros;
}
declare namespace nn {
/** @internal */
type Named<T> = [name: string, value: T];
/** Modules hold Tensor objects for life, never native handles: a trainer may move a parameter into an arena. */
abstract class Module {
    #private;
    /** True while it behaves as in training; `train` sets it. */
    training: boolean;
    /** Registers a trainable tensor. */
    protected parameter(name: string, tensor: Tensor): Tensor;
    /** Registers a tensor that is saved with the weights but not trained. */
    protected buffer(name: string, tensor: Tensor): Tensor;
    /** Registers a module under this name, and gives it back. */
    protected child<M extends Module>(name: string, module: M): M;
    /** Puts another module's parameter in the place of an own one, which is freed. */
    protected share(name: string, tensor: Tensor): Tensor;
    /** Switches dropout and batch statistics on or off, here and below. */
    train(on?: boolean): void;
    /** Own parameters, then the children's, depth first; a shared tensor once, under its first name. */
    namedParameters(): Named<Tensor>[];
    /** Those that `buffer` registered, here and in all children, with their names. */
    namedBuffers(): Named<Tensor>[];
    /** Lists what PyTorch's state_dict does, in its order: shared tensors under each of their names. */
    stateDict(): Named<Tensor>[];
    /** This module and all below it, parents first. */
    modules(): Module[];
    /** Frees all parameters and buffers, here and in all children. */
    free(): void;
}
/**
 * LoRA puts it beside a layer: modules under names of their own, which add something to the layer's output.
 * @internal
 */
interface Adapter {
    readonly parts: Readonly<Record<string, Module>>;
    /** The layer's output `y` for its input `x`, and what the adapter adds. */
    added(y: Tensor, x: Tensor): Tensor;
}
/**
 * A layer that may have an adapter.
 * @internal
 */
abstract class Adaptable extends Module {
    #private;
    adapt(adapter: Adapter): void;
    protected adapted(y: Tensor, x: Tensor): Tensor;
}
/** A module that only gives names to others: PyTorch's Sequential and ModuleDict, or the modules of one block. */
class Group extends Module {
    /** In the order of the names' mention. */
    constructor(children?: Readonly<Record<string, Module>>);
    /** Adds a module under this name, and gives it back. */
    add<M extends Module>(name: string | number, module: M): M;
}
/** One number for all dimensions, or one each. */
type Size = number | readonly number[];
/** A list of `dims` numbers, made once so that forward allocates none. */
function perDimension(size: Size, dims: number): readonly number[];
/**
 * Modules with PyTorch's names, which draw PyTorch's weights from the same seed: Linear, Conv2d, LayerNorm, ...; Module
 * to extend; init.
 *
 * @module
 */
/** x, or `negativeSlope` times x where it is negative. */
class LeakyReLU extends Module {
    #private;
    /** `negativeSlope`: 0 would be ReLU. */
    constructor(negativeSlope?: number);
    /** Takes any shape, element by element. */
    forward(x: Tensor): Tensor;
}
/** x, or a learnt weight times x where it is negative. */
class PReLU extends Module {
    /** One, or one for each channel. */
    readonly weight: Tensor;
    /** `numParameters` is 1 or the number of channels; each begins with `init`. */
    constructor(numParameters?: number, init?: number);
    /** Takes (n, channels, ...), element by element. */
    forward(x: Tensor): Tensor;
}
/** torch.nn.MultiheadAttention: several attentions beside each other, over (n, l, embedDim). */
class MultiheadAttention extends Adaptable {
    #private;
    /** Share of attention weights dropped while training. */
    readonly p: number;
    /** `numHeads` divides `embedDim`. */
    constructor(embedDim: number, numHeads: number, options?: {
        dropout?: number;
        bias?: boolean;
        causal?: boolean;
    });
    /** x is [batch, tokens, embed]. PyTorch's order of views, so that sums run in its order too. */
    forward(x: Tensor): Tensor;
}
/** Options of convolutions. */
interface ConvOptions {
    /** Places from one window to the next; 1 by default. */
    stride?: Size;
    /** Places around the input on each side; 0 by default. */
    padding?: Size;
    /** Those places hold this, as PyTorch's padding_mode says; "zeros" by default. */
    paddingMode?: PaddingMode;
    /** Places from one weight of the kernel to the next; 1 by default. */
    dilation?: Size;
    /** Groups of channels that don't see each other; 1 by default. */
    groups?: number;
    /** Adds a number to each output channel; true by default. */
    bias?: boolean;
}
abstract class Conv extends Adaptable {
    #private;
    readonly weight: Tensor;
    readonly bias: Tensor | null;
    protected readonly stride: readonly number[];
    protected readonly padding: readonly number[];
    protected readonly dilation: readonly number[];
    protected readonly groups: number;
    constructor(dims: number, inChannels: number, outChannels: number, kernelSize: Size, o: ConvOptions);
    protected padded(x: Tensor): Tensor;
}
/** torch.nn.Conv1d, over (n, channels, l). */
class Conv1d extends Conv {
    /** `kernelSize` is the window's length. */
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    /** (n, in, l) -> (n, out, l'). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.Conv2d, over (n, channels, h, w). */
class Conv2d extends Conv {
    /** `kernelSize` is the window's side, or its height and width. */
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    /** (n, in, h, w) -> (n, out, h', w'). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.Conv3d, over (n, channels, d, h, w). */
class Conv3d extends Conv {
    /** `kernelSize` is the window's side, or its three sides. */
    constructor(inChannels: number, outChannels: number, kernelSize: Size, options?: ConvOptions);
    /** (n, in, d, h, w) -> (n, out, d', h', w'). */
    forward(x: Tensor): Tensor;
}
/** Options of transposed convolutions. */
interface ConvTransposeOptions extends Omit<ConvOptions, "paddingMode"> {
    /** Places added to one side of the output, where several sizes would fit; 0 by default. */
    outputPadding?: Size;
}
abstract class ConvTranspose extends Module {
    readonly weight: Tensor;
    readonly bias: Tensor | null;
    protected readonly stride: readonly number[];
    protected readonly padding: readonly number[];
    protected readonly outputPadding: readonly number[];
    protected readonly dilation: readonly number[];
    protected readonly groups: number;
    constructor(dims: number, inChannels: number, outChannels: number, kernel: Size, o: ConvTransposeOptions);
}
/** torch.nn.ConvTranspose1d, over (n, channels, l). */
class ConvTranspose1d extends ConvTranspose {
    /** `kernel` is the window's length. */
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    /** (n, in, l) -> (n, out, l'). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.ConvTranspose2d, over (n, channels, h, w). */
class ConvTranspose2d extends ConvTranspose {
    /** `kernel` is the window's side, or its height and width. */
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    /** (n, in, h, w) -> (n, out, h', w'). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.ConvTranspose3d, over (n, channels, d, h, w). */
class ConvTranspose3d extends ConvTranspose {
    /** `kernel` is the window's side, or its three sides. */
    constructor(inChannels: number, outChannels: number, kernel: Size, options?: ConvTransposeOptions);
    /** (n, in, d, h, w) -> (n, out, d', h', w'). */
    forward(x: Tensor): Tensor;
}
/**
 * PyTorch's padding modes; and longitude, which is circular in the last dimension and replicates the edge in the others.
 */
type PaddingMode = "zeros" | "replicate" | "reflect" | "circular" | "longitude";
/** Places that are missing to a multiple in each dimension, half of them on each side; `sizes` are F.pad's. */
function frameAround(sides: readonly number[], multiple: number): {
    starts: number[];
    sizes: number[] | null;
};
/** `sizes` are F.pad's: places before and behind the last dimension, then before and behind the one before it. */
function padder(sizes: readonly number[], mode: PaddingMode): (x: Tensor) => Tensor;
/** torch.nn.Linear: x times the transposed weight, and the bias. */
class Linear extends Adaptable {
    /** (outFeatures, inFeatures). */
    weight: Tensor;
    /** (outFeatures), or null. */
    readonly bias: Tensor | null;
    /** Weights are drawn as PyTorch draws them; `bias` is true by default. */
    constructor(inFeatures: number, outFeatures: number, options?: {
        bias?: boolean;
    });
    /** Uses another module's weight, e.g. an embedding's. */
    tie(weight: Tensor): void;
    /** (..., inFeatures) -> (..., outFeatures). */
    forward(x: Tensor): Tensor;
}
/** A learnt row for each token or class. */
class Embedding extends Module {
    #private;
    /** (rows, width). */
    readonly weight: Tensor;
    /** The row `paddingIdx` is zero and gets no gradient. */
    constructor(numEmbeddings: number, embeddingDim: number, options?: {
        paddingIdx?: number;
    });
    /** (...) of numbers of rows -> (..., width). */
    forward(indices: Tensor): Tensor;
}
/** In training, numbers become 0 with probability `p` and the others grow by 1 / (1 - p). */
class Dropout extends Module {
    readonly p: number;
    /** `p` is the share that is dropped. */
    constructor(p?: number);
    /** Takes any shape; in evaluation it gives its input. */
    forward(x: Tensor): Tensor;
}
/** In training, whole channels become 0 with probability `p`, sample by sample, and the others grow by 1 / (1 - p). */
class ChannelDropout extends Dropout {
    /** Takes (n, channels, ...); in evaluation it gives its input. */
    forward(x: Tensor): Tensor;
}
/** torch.nn.Dropout1d: of (n, channels, length). */
class Dropout1d extends ChannelDropout {
}
/** torch.nn.Dropout2d: of (n, channels, height, width). */
class Dropout2d extends ChannelDropout {
}
/** torch.nn.Dropout3d: of (n, channels, depth, height, width). */
class Dropout3d extends ChannelDropout {
}
/** torch.nn.LayerNorm: over the last dimensions, which the shape names. */
class LayerNorm extends Module {
    #private;
    /** Has the normalised shape; null without `affine`. */
    readonly weight: Tensor | null;
    /** Has the normalised shape; null without it. */
    readonly bias: Tensor | null;
    /** `normalizedShape` is the size, or the sizes, of the last dimensions. */
    constructor(normalizedShape: Size, options?: {
        eps?: number;
        elementwiseAffine?: boolean;
        bias?: boolean;
    });
    /** Takes any shape that ends in the normalised one. */
    forward(x: Tensor): Tensor;
}
/** torch.nn.GroupNorm: over groups of channels, sample by sample. */
class GroupNorm extends Module {
    #private;
    /** (channels); null without `affine`. */
    readonly weight: Tensor | null;
    /** (channels); null without `affine`. */
    readonly bias: Tensor | null;
    /** `numGroups` divides `numChannels`. */
    constructor(numGroups: number, numChannels: number, options?: {
        eps?: number;
        affine?: boolean;
    });
    /** Takes (n, channels, ...). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.RMSNorm: divides by the root of the mean square of the last dimensions. */
class RMSNorm extends Module {
    #private;
    /** Has the normalised shape; null without `affine`. */
    readonly weight: Tensor | null;
    /** Without eps it is the data type's own smallest step, as in PyTorch. */
    constructor(normalizedShape: Size, options?: {
        eps?: number;
        elementwiseAffine?: boolean;
    });
    /** Takes any shape that ends in the normalised one. */
    forward(x: Tensor): Tensor;
}
interface BatchNormOptions {
    eps?: number;
    momentum?: number;
    affine?: boolean;
}
class BatchNorm extends Module {
    #private;
    readonly features: number;
    readonly weight: Tensor | null;
    readonly bias: Tensor | null;
    constructor(features: number, options?: BatchNormOptions);
    /** (features): the mean that evaluation subtracts. */
    get runningMean(): Tensor;
    /** (features): the variance that evaluation divides by. */
    get runningVar(): Tensor;
    forward(x: Tensor): Tensor;
}
/** torch.nn.BatchNorm1d: of (n, features) or (n, features, length). */
class BatchNorm1d extends BatchNorm {
}
/** torch.nn.BatchNorm2d: of (n, features, height, width). */
class BatchNorm2d extends BatchNorm {
}
/** torch.nn.BatchNorm3d: of (n, features, depth, height, width). */
class BatchNorm3d extends BatchNorm {
}
type Dims = 1 | 2 | 3;
/** Options of windows of the largest value. */
interface MaxPoolOptions {
    /** The kernel's size unless given. */
    stride?: Size;
    /** Places around the input that count as minus infinity; 0 by default. */
    padding?: Size;
    /** Places from one element of the window to the next; 1 by default. */
    dilation?: Size;
    /** Counts a window that is not whole; false by default. */
    ceilMode?: boolean;
}
/** Options of windows of means. */
interface AvgPoolOptions {
    /** Places from one window to the next; the window's size by default. */
    stride?: Size;
    /** Zeros around the input; 0 by default. */
    padding?: Size;
    /** Counts a window that is not whole; false by default. */
    ceilMode?: boolean;
    /** Counts those zeros in the mean; true by default. */
    countIncludePad?: boolean;
}
/** new MaxPool(2, 3) is nn.MaxPool2d(3). */
class MaxPool extends Module {
    #private;
    /** `dims` is 1, 2 or 3; one number stands for all sides. */
    constructor(dims: Dims, kernelSize: Size, options?: MaxPoolOptions);
    /** (n, c, ...) -> (n, c, ...'), smaller. */
    forward(x: Tensor): Tensor;
}
/** torch.nn.AvgPool1d, 2d and 3d: the mean of each window. */
class AvgPool extends Module {
    #private;
    /** `dims` is 1, 2 or 3; one number stands for all sides. */
    constructor(dims: Dims, kernelSize: Size, options?: AvgPoolOptions);
    /** (n, c, ...) -> (n, c, ...'), smaller. */
    forward(x: Tensor): Tensor;
}
/** torch.nn.AdaptiveAvgPool1d, 2d and 3d: means over windows that give the output this size. */
class AdaptiveAvgPool extends Module {
    #private;
    /** `dims` is 1, 2 or 3; one number stands for all sides. */
    constructor(dims: Dims, outputSize: Size);
    /** (n, c, ...) -> (n, c, ...outputSize). */
    forward(x: Tensor): Tensor;
}
const dimsOf: {
    readonly nearest1d: 1;
    readonly nearest2d: 2;
    readonly nearest3d: 3;
    readonly linear: 1;
    readonly bilinear: 2;
    readonly trilinear: 3;
};
/** How images are made larger. */
interface UpsampleOptions {
    /** By how much, of all sides or of each. */
    scaleFactor: Size;
    /** PyTorch's modes; "nearest" says for how many dimensions. */
    mode: keyof typeof dimsOf;
    /** Leaves the corners' centres where they are; false by default. */
    alignCorners?: boolean;
}
/** torch.nn.Upsample: (n, c, ...) at sizes that are a multiple. */
class Upsample extends Module {
    #private;
    /** `mode` says what comes between the values. */
    constructor({ scaleFactor, mode, alignCorners }: UpsampleOptions);
    /** (n, c, ...) -> (n, c, ... times the factor). */
    forward(x: Tensor): Tensor;
}
/** torch.nn.MaxPool1d: the largest value of each window. */
class MaxPool1d extends MaxPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: MaxPoolOptions);
}
/** torch.nn.MaxPool2d: the largest value of each window. */
class MaxPool2d extends MaxPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: MaxPoolOptions);
}
/** torch.nn.MaxPool3d: the largest value of each window. */
class MaxPool3d extends MaxPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: MaxPoolOptions);
}
/** torch.nn.AvgPool1d: the mean of each window. */
class AvgPool1d extends AvgPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: AvgPoolOptions);
}
/** torch.nn.AvgPool2d: the mean of each window. */
class AvgPool2d extends AvgPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: AvgPoolOptions);
}
/** torch.nn.AvgPool3d: the mean of each window. */
class AvgPool3d extends AvgPool {
    /** One number stands for all sides. */
    constructor(kernelSize: Size, options?: AvgPoolOptions);
}
/** torch.nn.AdaptiveAvgPool1d: means over windows that give the output this size. */
class AdaptiveAvgPool1d extends AdaptiveAvgPool {
    /** One number stands for all sides. */
    constructor(outputSize: Size);
}
/** torch.nn.AdaptiveAvgPool2d: means over windows that give the output this size. */
class AdaptiveAvgPool2d extends AdaptiveAvgPool {
    /** One number stands for all sides. */
    constructor(outputSize: Size);
}
/** torch.nn.AdaptiveAvgPool3d: means over windows that give the output this size. */
class AdaptiveAvgPool3d extends AdaptiveAvgPool {
    /** One number stands for all sides. */
    constructor(outputSize: Size);
}
namespace init {
const uniform: (t: Tensor, from: number, to: number) => Tensor;
const normal: (t: Tensor, mean: number, std: number) => Tensor;
const fill: (t: Tensor, value: number) => Tensor;
/** Inputs and outputs of one unit of a weight [out, in, ...kernel]. */
function fans(weight: Tensor): {
    fanIn: number;
    fanOut: number;
};
/** kaiming_uniform_ with the slope a: the default of linear and convolution layers is a = sqrt(5). */
function kaimingUniform(weight: Tensor, a?: number): Tensor;
/** kaiming_normal_ with mode="fan_out", nonlinearity="relu": residual networks. */
function kaimingNormalFanOut(weight: Tensor): Tensor;
function xavierUniform(weight: Tensor): Tensor;
/** The bias beside a weight, as linear and convolution layers draw it. */
function biasUniform(bias: Tensor, weight: Tensor): Tensor;
/** trunc_normal_ between -2 and 2 with mean 0: what lies outside is drawn again. PyTorch's own way for std up to 5. */
function truncNormal(t: Tensor, std: number): Tensor;
}
}
type Module = nn.Module;
export {
  ModelSettings, DataSettings, Library, ModelLibrary, DataLibrary, JudgeLibrary, OptimizerOptions,
  OptimizerLibrary, OptimizerStep, MadeOptimizer, MadeModel, Samples, MadeData, Judge, MadeLoss,
  MadeMetrics, Device, Tensor, DType, Options, Numbers, Nested, Activation, Block, Facts, InputColumn,
  Model, Head, MemoryFormat, ops, nn
};
