// A model: its root module, its blocks and what describes them; running it, and writing its weights to a .pt file.
import { formatWhole } from "../base/format.ts";
import type { DType } from "../../ffi/dtype.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Module } from "./nn/module.ts";
import type { Positions } from "../checkpoint/positions.ts";
import { writePt } from "../checkpoint/pt.ts";
import { toData } from "../checkpoint/training_state.ts";
import { OrderedDict } from "../checkpoint/value.ts";

/**
 * One tensor passes between blocks, or a few (skip connections). The first is the block's own work; behind it
 * are tensors of its input, the same objects, handed on: a leaf between blocks gathers all its users' gradients.
 */
export type Activation = Tensor | readonly Tensor[];

/** The unit of gradient checkpointing: only detached tensors pass from one block to the next. */
export interface Block {
  /** Its name in messages, such as layer1.0. */
  readonly name: string;
  /** Its module, whose parameters it uses; null when it has none. A tied parameter is in more than one block. */
  readonly module: Module | null;
  /** From the last block's activation to this one's. */
  forward(x: Activation): Activation;
}

/** The facts of the task and its data. */
export interface Facts {
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
  /**
   * Tokens are hidden, and the targets are those (masked_language): a model may look at both sides of each.
   * @internal
   */
  readonly masked?: boolean;
  /**
   * Texts shorter than a window are filled with this token.
   * @internal
   */
  readonly padding?: number;
}

/** A column of the data that the input is made of. */
export interface InputColumn {
  /** As it is in the data. */
  readonly name: string;
  /** The shape of one sample, as it is in the data. */
  readonly shape: readonly number[];
  /** The same as it is taken: a number is a row of one, a map an image of one channel. */
  readonly layout: readonly number[];
  /** It holds whole numbers. */
  readonly whole: boolean;
  /**
   * Some of them are beyond those that the floats of a batch tell apart.
   * @internal
   */
  readonly large?: boolean;
}

/** A model as training sees it: its modules, and the blocks that a batch goes through. */
export interface Model {
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
  /**
   * Sentences that say where predictions are drawn.
   * @internal
   */
  readonly drawing?: readonly string[];
  /**
   * Where evaluation draws, too, it does so for these samples, those of the batch that comes next.
   * @internal
   */
  drawFor?(seed: number, ids: Int32Array): void;
  /**
   * Parameters that don't decay by default, as --no-decay names them.
   * @internal
   */
  readonly noDecay?: readonly string[];
  /** The last block in two steps: its logits can be computed for some tokens at a time. */
  readonly head?: Head;
  /**
   * Losses that take turns in a step; absent where one loss trains all weights.
   * @internal
   */
  readonly turns?: Turns;
  /**
   * Moves weights that no optimizer trains, such as a teacher's, when a step has updated the others.
   * @internal
   */
  afterStep?(): void;
  /**
   * Weights that were trained with images of another size are fitted to them.
   * @internal
   */
  readonly positions?: Positions;
  /** One line: layers, parameters. */
  describe(): string;
}

/**
 * In each turn a loss trains its own part of the weights, and the next turn sees what it has come to.
 * @internal
 */
export interface Turns {
  /** The modules or parameters that each turn trains. */
  readonly names: readonly string[];
  /** The turn that trains this parameter; -1 for none. */
  of(parameter: string): number;
  /** The next forward and loss are this turn's. */
  begin(turn: number): void;
}

/**
 * The head of a language model.
 * @internal
 */
export interface Head {
  /** The logits are a linear map of it, token by token. */
  hidden(x: Tensor): Tensor;
  /** The logits of tokens. */
  logits(hidden: Tensor): Tensor;
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
  more: { layers: string; convolutional?: boolean; channelsLastOnCpu?: boolean; head?: Head },
): Model {
  return {
    name,
    root,
    blocks,
    convolutional: more.convolutional ?? false,
    channelsLastOnCpu: more.channelsLastOnCpu,
    head: more.head,
    describe: () => `${name}: ${more.layers}, ${formatWhole(parameterCount(root))} parameters`,
  };
}

/** Writes the state dict to a .pt file, whole or not at all: `model.load_state_dict(torch.load(path))` takes it. */
export function saveWeights(path: string, module: Module): void {
  writePt(path, new OrderedDict(module.stateDict().map(([name, tensor]) => [name, toData(tensor)])));
}

/** How many come from each block; one that several use belongs to the first of them, whose backward is the last. */
export function blockParameters({ blocks }: Pick<Model, "blocks">): number[] {
  const seen = new Set<unknown>();
  return blocks.map(({ module }) =>
    [...module?.namedParameters() ?? []].reduce((sum, [, parameter]) => {
      if (seen.has(parameter)) return sum;
      seen.add(parameter);
      return sum + parameter.numel;
    }, 0)
  );
}
