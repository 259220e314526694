// The parameters that a run trains, from when on, and at what rates: --freeze, --freeze-until, --lr-for, --layer-decay, LoRA.
import { requireGrad } from "../../ffi/autograd.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import { checkPatterns, matcher } from "../base/patterns.ts";
import { isAdapter } from "../checkpoint/adapters.ts";
import { headOf } from "../models/heads.ts";
import type { Model } from "../models/model.ts";
import { BatchNorm } from "../models/nn/norms.ts";
import type { Config } from "../settings/settings.ts";
import type { Arena } from "./arena.ts";
import type { Pass } from "./blocks.ts";
import type { Optimizer } from "./optimizers/optimizer.ts";

type Named = readonly [name: string, parameter: Tensor];

export interface TrainedParameters {
  /** They lie in the arena. */
  readonly named: readonly Named[];
  /** They stay as they are for the whole run. */
  readonly frozen: readonly Tensor[];
  /** Indices of `named` that begin with an epoch of their own. */
  readonly waiting: ReadonlySet<number>;
  /** Factors of the learning rate, one for each of `named`. */
  readonly factors: readonly number[];
  readonly notes: readonly string[];
}

/** Nothing is frozen where a model only answers. */
export const allParameters = (model: Model): TrainedParameters => {
  const named = model.root.namedParameters();
  return { named, frozen: [], waiting: new Set(), factors: named.map(() => 1), notes: [] };
};

/** Patterns that fit nothing are refused. */
export function chooseParameters(model: Model, config: Config): TrainedParameters {
  const { training, model: { lora_rank: rank } } = config;
  const all = model.root.namedParameters(), names = all.map(([name]) => name);
  checkPatterns("--freeze", training.freeze, names);
  const isHead = matcher(training.new_head === "" ? [] : headOf(model, config));
  const patterned = matcher(training.freeze);
  const stays = ([name]: Named): boolean =>
    !isAdapter(name) && !isHead(name) && (rank > 0 || patterned(name));
  const until = training.freeze_until;
  if (until > 0) refuseUntil(config);
  const stayingFrozen = all.filter(stays), frozen = until > 0 ? [] : stayingFrozen.map(([, t]) => t);
  if (stayingFrozen.length === all.length && until === 0) {
    throw new UserError(
      "usage",
      `--freeze ${training.freeze.join(",")} leaves nothing to train: leave a part of the model out of it` +
        `${training.new_head === "" ? ", or give it a new head (--new-head)" : ""}.`,
    );
  }
  for (const t of frozen) requireGrad(t, false);
  holdNorms(model, new Set(stayingFrozen.map(([, t]) => t)), true);
  const gone = new Set(frozen), named = all.filter(([, t]) => !gone.has(t)), waits = new Set(stayingFrozen);
  const factors = factorsOf(model, config, named);
  return {
    named,
    frozen,
    waiting: new Set(until > 0 ? named.flatMap((one, i) => waits.has(one) ? [i] : []) : []),
    factors,
    notes: [
      ...(stayingFrozen.length > 0 ? [frozenNote(stayingFrozen, all, until)] : []),
      ...rateNotes(factors, training.optimizer.learning_rate),
    ],
  };
}

function refuseUntil({ training, model }: Config): void {
  const other = model.lora_rank > 0
    ? "--lora-rank, whose layers stay frozen: leave one of them out"
    : training.sync_bn
    ? "--sync-bn: leave one of them out"
    : training.freeze.length === 0
    ? "no --freeze: say which parameters wait, such as --freeze 'layer*'"
    : null;
  if (other !== null) {
    throw new UserError(
      "usage",
      `--freeze-until ${training.freeze_until} does not go together with ${other}.`,
    );
  }
}

/** A batch norm whose own numbers are frozen keeps its statistics, too. */
function holdNorms({ root }: Model, frozen: ReadonlySet<Tensor>, on: boolean): void {
  for (const norm of root.modules()) {
    if (!(norm instanceof BatchNorm) || norm.weight === null || !frozen.has(norm.weight)) continue;
    const training = norm.training || norm.held;
    norm.held = on;
    norm.train(training);
  }
}

/** The first blocks of the model that learn nothing: backward ends behind them. `waiting` ones learn later. */
export function restingBlocks(
  { blocks }: Pick<Model, "blocks">,
  { named, waiting }: Pick<TrainedParameters, "named" | "waiting">,
  wait: boolean,
): number {
  const learns = new Set(named.flatMap(([, t], i) => wait && waiting.has(i) ? [] : [t]));
  const first = blocks.findIndex(({ module }) => module?.namedParameters().some(([, t]) => learns.has(t)));
  return Math.max(0, first);
}

/** Sets for an epoch what --freeze-until asks for; true where the waiting parameters begin to learn with it. */
type Thaw = (epoch: number) => boolean;

/** Null where no parameter waits. */
export function openThaw(
  { model, trained, arena, pass }: {
    readonly model: Model;
    readonly trained: TrainedParameters;
    readonly arena: Arena;
    readonly pass: Pass;
  },
  optimizer: Pick<Optimizer, "groups">,
  until: number,
): Thaw | null {
  if (trained.waiting.size === 0) return null;
  const parameters = [...trained.waiting].map((i) => arena.parameters[i]);
  let waiting = true;
  return (epoch) => {
    const before = waiting;
    waiting = epoch < until;
    if (before === waiting) return false;
    for (const t of parameters) requireGrad(t, !waiting);
    holdNorms(model, new Set(parameters), waiting);
    pass.atRest = restingBlocks(model, trained, waiting);
    optimizer.groups!.wait(waiting);
    return !waiting;
  };
}

function factorsOf(model: Model, { training }: Config, named: readonly Named[]): number[] {
  const { lr_for, layer_decay: decay, optimizer: { learning_rate: base } } = training;
  const rules = lr_for.map((rule) => {
    const [pattern, rate] = ruleOf(rule);
    checkPatterns("--lr-for", [pattern], named.map(([name]) => name));
    if (base === 0) {
      throw new UserError("usage", `--lr-for ${rule} needs a --lr above 0, whose schedule it follows.`);
    }
    return { fits: matcher([pattern]), factor: rate / base };
  });
  const levels = decay > 0 ? levelsOf(model) : null;
  return named.map(([name, t]) => {
    const rule = rules.find(({ fits }) => fits(name));
    if (rule) return rule.factor;
    return levels === null ? 1 : decay ** (levels.most - (levels.of.get(t) ?? levels.most));
  });
}

/** head*=1e-3 */
function ruleOf(rule: string): [pattern: string, rate: number] {
  const at = rule.lastIndexOf("="), rate = Number(rule.slice(at + 1));
  if (at > 0 && rule.slice(at + 1).trim() !== "" && rate > 0 && Number.isFinite(rate)) {
    return [rule.slice(0, at), rate];
  }
  throw new UserError(
    "usage",
    `--lr-for takes PATTERN=RATE with a rate above 0, such as 'head*=1e-3', but got "${rule}"` +
      `${at > 0 && rate === 0 ? ": what should not be trained is frozen with --freeze" : ""}.`,
  );
}

/** Each parameter's place among the blocks that have parameters; a tied one's is the first. */
function levelsOf({ blocks, name }: Model): { of: Map<Tensor, number>; most: number } {
  const of = new Map<Tensor, number>();
  const owning = blocks.filter(({ module }) => (module?.namedParameters().length ?? 0) > 0);
  owning.forEach(({ module }, i) => {
    for (const [, t] of module!.namedParameters()) if (!of.has(t)) of.set(t, i);
  });
  if (owning.length < 2) {
    throw new UserError(
      "usage",
      `--layer-decay needs a model of several blocks, and ${name} is one: set rates by names, with --lr-for.`,
    );
  }
  return { of, most: owning.length - 1 };
}

function frozenNote(frozen: readonly Named[], all: readonly Named[], until: number): string {
  const numbers = (named: readonly Named[]) => named.reduce((sum, [, t]) => sum + t.numel, 0);
  const shown = (count: number) => count.toLocaleString("en-US");
  const rest = until > 0 ? `Frozen for ${formatPlural(until, "epoch")}` : "Frozen";
  return `${rest}: ${shown(numbers(frozen))} of ${shown(numbers(all))} parameters, in ` +
    `${formatPlural(frozen.length, "tensor")} of ${all.length}`;
}

function rateNotes(factors: readonly number[], base: number): string[] {
  const different = new Set(factors);
  if (different.size === 1 && different.has(1)) return [];
  const rates = [...different].sort((a, b) => b - a).map((factor) => Number((factor * base).toPrecision(3)));
  const some = rates.length > 6 ? `${rates.slice(0, 3).join(", ")}, ... ${rates.at(-1)}` : rates.join(", ");
  return [`Learning rates by parameter: ${some}, before scaling and schedule`];
}
