// The list of optimizers; each has a file of its own in optimizers/.
import type { Module } from "../models/nn/module.ts";
import { isCode } from "../models/user/file.ts";
import type { Arena } from "./arena.ts";
import { adadelta } from "./optimizers/adadelta.ts";
import { adafactor } from "./optimizers/adafactor.ts";
import { adagrad } from "./optimizers/adagrad.ts";
import { adam } from "./optimizers/adam.ts";
import { adamax } from "./optimizers/adamax.ts";
import { asgd } from "./optimizers/asgd.ts";
import { lbfgs } from "./optimizers/lbfgs.ts";
import { lamb } from "./optimizers/lamb.ts";
import { lion } from "./optimizers/lion.ts";
import { muon } from "./optimizers/muon.ts";
import type { Optimizer, OptimizerKind, OptimizerSettings, Traits } from "./optimizers/optimizer.ts";
import { ownOptimizer } from "./optimizers/own.ts";
import { nadam } from "./optimizers/nadam.ts";
import { prodigy } from "./optimizers/prodigy.ts";
import { radam } from "./optimizers/radam.ts";
import { rmsprop } from "./optimizers/rmsprop.ts";
import { rprop } from "./optimizers/rprop.ts";
import { scheduleFree } from "./optimizers/schedule_free.ts";
import { shampoo } from "./optimizers/shampoo.ts";
import { soap } from "./optimizers/soap.ts";
import { sgd } from "./optimizers/sgd.ts";
import { unfusedAdam } from "./optimizers/unfused_adam.ts";

const OPTIMIZERS: { readonly [T in OptimizerSettings["type"]]: OptimizerKind<T> } = {
  adamw: adam,
  adam,
  sgd,
  lamb,
  lion,
  muon,
  schedule_free: scheduleFree,
  prodigy,
  soap,
  shampoo,
  adadelta,
  adafactor,
  adagrad,
  adamax,
  asgd,
  lbfgs,
  nadam,
  radam,
  rmsprop,
  rprop,
};

/** The user's own has its file's path for a name. */
function kindOf(settings: OptimizerSettings): OptimizerKind {
  if (isCode(settings.type)) return ownOptimizer(settings);
  const kind = OPTIMIZERS[settings.type];
  return kind === adam && !settings.fused ? unfusedAdam : kind;
}

/** An optimizer for this arena's parameters, which are of the modules below `root`. */
export const createOptimizer = (
  settings: OptimizerSettings,
  arena: Arena,
  root: Module | null = null,
): Optimizer => kindOf(settings).open(settings, arena, root);

export const traitsOf = (settings: OptimizerSettings): Traits => kindOf(settings).traits;

/** The names of those that have a trait, for sentences. */
export const optimizersThat = (have: (traits: Traits) => boolean): string[] =>
  Object.entries(OPTIMIZERS).flatMap(([name, { traits }]) => have(traits) ? [name] : []);
