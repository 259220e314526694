// The types of what the function of a user's file is given: `hpctrain types` prints them.
import type { gradient, noGrad } from "../../../ffi/autograd.ts";
import type { tensor } from "../../../ffi/make.ts";
import type { keep, scope, Tensor } from "../../../ffi/tensor.ts";
import type { Activation, Block, block, Facts, Model, model } from "../model.ts";
import type * as nn from "../nn/mod.ts";
import type * as ops from "./ops.ts";

export type { Activation, Block, Facts, Model, Tensor };

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
  /** Side of a patch, of models that cut images into patches. */
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
  /** The derivative of a function at a tensor: gradient((t) => net(t), x). It can be derived again. */
  readonly gradient: typeof gradient;
  /** A model from its blocks: the parts that --gradient-checkpointing keeps the ends of. */
  readonly model: typeof model;
  /** One such part. */
  readonly block: typeof block;
}

/** The function of a model's file is given this. */
export interface ModelLibrary extends Library {
  /** The facts of the data: the task, the shape of a sample, how many classes or targets. */
  readonly facts: Facts;
  /** Numbers that the loss wants of the last layer for each sample: most often facts.outputs. */
  readonly outputs: number;
  /** The user's choices by flags, where the model wants to follow them. */
  readonly settings: ModelSettings;
}

/** The function of a file of data is given this. */
export interface DataLibrary extends Library {
  /** The user's choices by flags, where the data wants to follow them. */
  readonly settings: DataSettings;
  /** The run's: what is drawn from it is the same on every rank, and in every run. */
  readonly seed: number;
}

/** The function of a file of a loss, or of metrics, is given this. */
export interface JudgeLibrary extends Library {
  /** The facts of the data: the task, the shape of a sample, how many classes or targets. */
  readonly facts: Facts;
}

/** Settings of the optimizer that one of your own may follow. */
export interface OptimizerOptions {
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
export interface OptimizerLibrary extends Library {
  /** The user's choices by flags, and a group's own, where the optimizer wants to follow them. */
  readonly settings: OptimizerOptions;
}

/** An update is given this. Its tensors have one shape. */
export interface OptimizerStep {
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
export interface MadeOptimizer {
  /** Names of what is kept of each parameter from step to step: tensors of its shape, zeros at first, as in PyTorch's state. */
  readonly slots?: readonly string[];
  /**
   * True where the update of a number reads none of the others: then it is given pieces of all parameters at once, and --zero 1
   * can share it out.
   */
  readonly perElement?: boolean;
  /** Gives the next parameter and the next state; a slot that is left out, or was changed in place, is as it is. */
  update(now: OptimizerStep): { readonly parameter: Tensor; readonly [slot: string]: Tensor };
}

/** A model's file gives a module with forward, or a model of several blocks. */
export type MadeModel = Model | (InstanceType<typeof nn.Module> & { forward(x: Tensor): Tensor });

/** Samples as two tensors with one row each, or read on demand. */
export type Samples = { readonly input: Tensor; readonly target: Tensor } | {
  readonly length: number;
  /** One row for each id, in their order, that hangs on the id, the epoch and the seed alone: any thread may call it. */
  batch(ids: readonly number[], epoch: number): { readonly input: Tensor; readonly target: Tensor };
};

/** A file of data gives this. */
export interface MadeData {
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
export type Judge = (output: Tensor, target: Tensor) => Tensor;

/** A loss's file gives this. `outputs`: numbers that the model is to give for each sample, where that is not the data's. */
export type MadeLoss = Judge | { readonly outputs?: number; readonly loss: Judge };

/** A metrics' file gives each metric by its name. */
export type MadeMetrics = Readonly<Record<string, Judge>>;
