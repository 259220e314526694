// What every optimizer offers, and the choice among them. May import its siblings, config types, arena.
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../config/settings.ts";
import type { Arena } from "../arena.ts";
import { adam } from "./adam.ts";
import { lamb } from "./lamb.ts";
import { sgd } from "./sgd.ts";

/** What changes weights by their gradients. */
export interface Optimizer {
  /** As training.optimizer.type names it. */
  readonly type: string;
  /** Updates the parameters from the gradient arena. */
  step(learningRate: number): void;
  /** Steps taken: bias correction counts them. */
  steps: number;
  /** Per-parameter state by PyTorch's names (exp_avg, momentum_buffer, ...), in the arena's order. */
  readonly slots: ReadonlyMap<string, readonly Tensor[]>;
  /** PyTorch's param_groups entry, but for lr and params. */
  readonly options: Readonly<Record<string, number | boolean | readonly number[] | null>>;
}

/** The settings of training.optimizer. */
export type OptimizerSettings = Config["training"]["optimizer"];

/** An optimizer for this arena's parameters: AdamW, Adam, SGD or LAMB. */
export function createOptimizer(settings: OptimizerSettings, arena: Arena): Optimizer {
  switch (settings.type) {
    case "adamw":
    case "adam":
      return adam(settings, arena);
    case "sgd":
      return sgd(settings, arena);
    case "lamb":
      return lamb(settings, arena);
  }
}
