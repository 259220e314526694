// The parameters that a run trains, from when on, and with what settings: --freeze, --freeze-until, --unfreeze, groups, LoRA.
import { requireGrad } from "../../ffi/autograd.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { formatPlural, formatWhole } from "../base/format.ts";
import { checkPatterns, matcher } from "../base/patterns.ts";
import { isAdapter } from "../checkpoint/adapters.ts";
import { headOf } from "../models/heads.ts";
import type { Model } from "../models/model.ts";
import { BatchNorm } from "../models/nn/norms.ts";
import type { Config } from "../settings/settings.ts";
import type { Arena } from "./arena.ts";
import type { Pass } from "./blocks.ts";
import type { Named } from "./group_patterns.ts";
import { type OwnSettings, ownSettings } from "./group_settings.ts";
import type { Optimizer } from "./optimizers/optimizer.ts";

export interface TrainedParameters {
  /** They lie in the arena, group by group. */
  readonly named: readonly Named[];
  /** Their numbers in the model's own order. */
  readonly order: readonly number[];
  /** They stay as they are for the whole run. */
  readonly frozen: readonly Tensor[];
  /** Indices of `named` that begin with an epoch of their own, and that epoch. */
  readonly waiting: ReadonlyMap<number, number>;
  /** Null where all parameters are alike. */
  readonly grouping: Grouping | null;
  readonly notes: readonly string[];
}

/** Parameters that have the same settings and begin with the same epoch. */
export interface Group extends OwnSettings {
  readonly begins: number;
  /** The turn of the model's losses that trains it; absent where one loss trains all. */
  readonly turn?: number;
}

export interface Grouping {
  readonly groups: readonly Group[];
  /** The group of each parameter. */
  readonly of: readonly number[];
}

/** Nothing is frozen where a model only answers. */
export const allParameters = (model: Model): TrainedParameters => {
  const named = model.root.namedParameters();
  return { named, order: [...named.keys()], frozen: [], waiting: new Map(), grouping: null, notes: [] };
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
  const until = training.freeze_until, stages = training.unfreeze.length > 0;
  if (until > 0 || stages) refuseUntil(config);
  const stayingFrozen = all.filter(stays), begins = beginsOf(stayingFrozen, training);
  const frozen = stayingFrozen.filter((one) => !begins.has(one)).map(([, t]) => t);
  if (stayingFrozen.length === all.length && (until === 0 || stages)) {
    throw new UserError(
      "usage",
      `--freeze ${training.freeze.join(",")} leaves nothing to train: leave a part of the model out of it` +
        `${training.new_head === "" ? ", or give it a new head (--new-head)" : ""}.`,
    );
  }
  for (const t of frozen) requireGrad(t, false);
  holdNorms(model, new Set(stayingFrozen.map(([, t]) => t)), true);
  const gone = new Set(frozen), learning = all.filter(([, t]) => !gone.has(t));
  const own = ownSettings(model, config, learning);
  const { named, grouping } = grouped(
    learning,
    learning.map((one, i) => ({ ...own[i], begins: begins.get(one) ?? 0, turn: turnOf(model, one) })),
  );
  return {
    named,
    order: learning.map((one) => named.indexOf(one)),
    frozen,
    waiting: new Map(named.flatMap((one, i) => begins.has(one) ? [[i, begins.get(one)!]] : [])),
    grouping,
    notes: [
      ...(stayingFrozen.length > 0 ? [frozenNote(stayingFrozen, all, begins)] : []),
      ...groupNotes(named, grouping, training),
    ],
  };
}

/**
 * A group's parameters lie side by side, so that it is one piece of memory. Small groups come first: backward comes from the
 * arena's end, and what lies at its beginning is reduced last in any case.
 */
function grouped(
  all: readonly Named[],
  settings: readonly Group[],
): Pick<TrainedParameters, "named" | "grouping"> {
  const keys = settings.map((own) => JSON.stringify(own)), distinct = [...new Set(keys)];
  const groups = distinct.map((key) => settings[keys.indexOf(key)]);
  const [{ factor, optimizer, clipNorm, begins, turn }] = groups;
  const plain = turn === undefined && factor === 1 && clipNorm === 0 && begins === 0 &&
    Object.keys(optimizer).length === 0;
  if (groups.length === 1 && plain) return { named: all, grouping: null };
  const sizes = groups.map(() => 0), of = keys.map((key) => distinct.indexOf(key));
  all.forEach(([, t], i) => sizes[of[i]] += t.numel);
  const order = [...all.keys()].sort((a, b) => sizes[of[a]] - sizes[of[b]] || of[a] - of[b] || a - b);
  return { named: order.map((i) => all[i]), grouping: { groups, of: order.map((i) => of[i]) } };
}

function turnOf({ turns, name: model }: Model, [name]: Named): number | undefined {
  if (!turns) return undefined;
  const turn = turns.of(name);
  if (turn >= 0) return turn;
  throw new UserError(
    "usage",
    `${model}: its losses train ${
      turns.names.join("; ")
    }, and none of them the parameter ${name}: name it in a loss, or ` +
      `leave it as it is with --freeze.`,
  );
}

/** The epochs from which on frozen parameters learn; those that stay frozen have none. */
function beginsOf(
  stayingFrozen: readonly Named[],
  { freeze_until: until, unfreeze }: Config["training"],
): Map<Named, number> {
  const stages = unfreeze.map((stage) => {
    const [, pattern, epoch] = /^(.+?)\s*:\s*(\d+)$/.exec(stage) ?? [];
    if (pattern === undefined || Number(epoch) === 0) {
      throw new UserError(
        "usage",
        `--unfreeze takes PATTERN: EPOCH with an epoch above 0, such as 'layer4: 2, layer3: 4', but got "${stage}".`,
      );
    }
    checkPatterns("--unfreeze", [pattern], stayingFrozen.map(([name]) => name));
    return { fits: matcher([pattern]), epoch: Number(epoch) };
  });
  const epochOf = ([name]: Named) => stages.find(({ fits }) => fits(name))?.epoch ?? until;
  return new Map(stayingFrozen.map((one) => [one, epochOf(one)] as const).filter(([, epoch]) => epoch > 0));
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
      `${
        training.unfreeze.length > 0
          ? `--unfreeze ${training.unfreeze.join(",")}`
          : `--freeze-until ${training.freeze_until}`
      } does not go together with ${other}.`,
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

/** The first blocks of the model that learn nothing in this epoch: backward ends behind them. */
export function restingBlocks(
  { blocks }: Pick<Model, "blocks">,
  { named, waiting }: Pick<TrainedParameters, "named" | "waiting">,
  epoch: number,
): number {
  const learns = new Set(named.flatMap(([, t], i) => (waiting.get(i) ?? 0) > epoch ? [] : [t]));
  const first = blocks.findIndex(({ module }) => module?.namedParameters().some(([, t]) => learns.has(t)));
  return Math.max(0, first);
}

/** The flag by which parameters wait for an epoch of their own. */
export const thawing = ({ unfreeze }: Pick<Config["training"], "unfreeze">): string =>
  unfreeze.length > 0 ? "--unfreeze" : "--freeze-until";

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
): Thaw | null {
  if (trained.waiting.size === 0) return null;
  const waiting = [...trained.waiting],
    parametersOf = (among: (begins: number) => boolean) =>
      waiting.filter(([, begins]) => among(begins)).map(([i]) => arena.parameters[i]);
  let last = 0;
  return (epoch) => {
    const before = last;
    last = epoch;
    const changed = parametersOf((begins) => begins > before !== begins > epoch);
    if (changed.length === 0) return false;
    const learns = epoch > before;
    for (const t of changed) requireGrad(t, learns);
    holdNorms(model, new Set(changed), !learns);
    pass.atRest = restingBlocks(model, trained, epoch);
    optimizer.groups!.begin(epoch);
    return learns;
  };
}

function frozenNote(
  frozen: readonly Named[],
  all: readonly Named[],
  begins: ReadonlyMap<Named, number>,
): string {
  const numbers = (named: readonly Named[]) => named.reduce((sum, [, t]) => sum + t.numel, 0);
  const epochs = [...new Set(frozen.map((one) => begins.get(one) ?? 0))].sort((a, b) => a - b);
  const texts = epochs.map((epoch) => epoch === 0 ? "for good" : `for ${formatPlural(epoch, "epoch")}`);
  const rest = epochs.length === 1 && epochs[0] === 0 ? "" : ` ${texts.join(", ")}`;
  return `Frozen${rest}: ${formatWhole(numbers(frozen))} of ${formatWhole(numbers(all))} parameters, in ` +
    `${formatPlural(frozen.length, "tensor")} of ${all.length}`;
}

/** These lines tell how the groups differ. */
function groupNotes(
  named: readonly Named[],
  grouping: Grouping | null,
  { optimizer, no_decay }: Config["training"],
): string[] {
  if (grouping === null) return [];
  const { groups, of } = grouping;
  return [
    ...rateNotes(groups.map(({ factor }) => factor), optimizer.learning_rate),
    ...decayNotes(),
    ...others(),
  ];

  /** nanoGPT and others print these counts. */
  function decayNotes(): string[] {
    const decays = groups.map(({ optimizer: own }) => own.weight_decay ?? optimizer.weight_decay);
    if (new Set(decays).size === 1) return [];
    const some = [...new Set(decays)].sort((a, b) => b - a).map((decay) => {
      const members = named.filter((_, i) => decays[of[i]] === decay);
      const count = formatWhole(members.reduce((sum, [, t]) => sum + t.numel, 0));
      return `${decay} for ${count} numbers in ${formatPlural(members.length, "tensor")}`;
    });
    return [
      `Weight decay: ${some.join(", ")}${
        no_decay.length === 0 ? " (--no-decay none: the same for all)" : ""
      }`,
    ];
  }

  function others(): string[] {
    return groups.flatMap(({ optimizer: { weight_decay: _, ...own }, clipNorm }, g) => {
      const all = Object.entries({ ...own, ...(clipNorm > 0 && { clip_norm: clipNorm }) });
      if (all.length === 0) return [];
      const tensors = formatPlural(of.filter((group) => group === g).length, "tensor");
      return [`A group of ${tensors} has ${all.map(([name, value]) => `${name} ${value}`).join(", ")}`];
    });
  }
}

function rateNotes(factors: readonly number[], base: number): string[] {
  const different = new Set(factors);
  if (different.size === 1 && different.has(1)) return [];
  const rates = [...different].sort((a, b) => b - a).map((factor) => Number((factor * base).toPrecision(3)));
  const some = rates.length > 6 ? `${rates.slice(0, 3).join(", ")}, ... ${rates.at(-1)}` : rates.join(", ");
  return [`Learning rates by parameter: ${some}, before scaling and schedule`];
}
