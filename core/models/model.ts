// What a model is to the trainer: a list of blocks over one tree of modules. May import ffi, nn/module.
import type { DType } from "../../ffi/dtype.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Module } from "./nn/module.ts";

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
  readonly input: { readonly shape: readonly number[]; readonly dtype: DType };
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
export function forward(model: Model, x: Activation): Activation {
  for (const block of model.blocks) {
    const input = x;
    x = scope(() => block.forward(input));
  }
  return x;
}

/** Trainable numbers; a shared tensor counts once. */
export function parameterCount(module: Module): number {
  return module.namedParameters().reduce((total, [, tensor]) => total + tensor.numel, 0);
}

/** A block of one tensor in, one tensor out: most are. */
export function block(name: string, module: Module | null, run: (x: Tensor) => Tensor): Block {
  return { name, module, forward: (x) => run(x as Tensor) };
}

/** A model from its parts; `layers` says in words what describe() puts before the parameter count. */
export function model(
  name: string,
  root: Module,
  blocks: readonly Block[],
  more: { layers: string; convolutional?: boolean },
): Model {
  return {
    name,
    root,
    blocks,
    convolutional: more.convolutional ?? false,
    describe: () => `${name}: ${more.layers}, ${parameterCount(root).toLocaleString("en-US")} parameters`,
  };
}
