// Reads the settings that groups of parameters have of their own: --param-group, --no-decay, --lr-for, --layer-decay. Each
// parameter's settings are the optimizer's, with what its groups change.
import type { Tensor } from "../../ffi/tensor.ts";
import { type Call, parseCall, type Value } from "../base/calls.ts";
import { UserError } from "../base/errors.ts";
import { checkPatterns, matcher } from "../base/patterns.ts";
import { didYouMean } from "../base/suggest.ts";
import type { Model } from "../models/model.ts";
import { OPTIMIZER_READS, settingsOf } from "../settings/sections/optimizer.ts";
import { type Config, findSetting } from "../settings/settings.ts";
import { fromData, setOrigin } from "../settings/values.ts";
import { type Fits, type Named, readPattern } from "./group_patterns.ts";
import { optimizersThat, traitsOf } from "./optimizers.ts";
import type { OptimizerSettings } from "./optimizers/optimizer.ts";

/** A parameter has these of its own. Parameters that have the same are a group. */
export interface OwnSettings {
  /** Its learning rate is the run's times this. */
  readonly factor: number;
  /** Those of training.optimizer that are other than the run's. */
  readonly optimizer: Partial<OptimizerSettings>;
  /** Longest gradient of its group; 0 leaves it alone. */
  readonly clipNorm: number;
}

/** Settings by their names, and who gave each. */
type Given = Map<string, { readonly value: number | boolean; readonly by: string }>;

interface Rule {
  readonly by: string;
  readonly fits: readonly Fits[];
  readonly settings: ReadonlyMap<string, number | boolean>;
}

/** One for each of `named`. */
export function ownSettings(model: Model, config: Config, named: readonly Named[]): OwnSettings[] {
  const { training } = config, { optimizer } = training;
  const groups = training.param_groups.map((text) => readGroup(text, model, config));
  const rules = [...groups, ...noDecayOf(model, config)], defaults = defaultNoDecay(model, config);
  const rates = ratesOf(model, config, named);
  refuseWhole(config, rules.length > 0);
  refuseIdle(groups, named);
  return named.map((parameter, i) => {
    const given: Given = new Map();
    for (const { by, fits, settings } of rules) {
      if (!fits.some((fit) => fit(parameter))) continue;
      for (const [name, value] of settings) give(given, name, { value, by }, parameter[0]);
    }
    const fixed = rates[i].rate;
    if (fixed) give(given, LR, { value: fixed.value, by: fixed.by }, parameter[0]);
    if (!given.has("weight_decay") && defaults.some((fit) => fit(parameter))) {
      given.set("weight_decay", { value: 0, by: "" });
    }
    const lr = given.get(LR)?.value as number | undefined;
    const own = [...given].filter(([name, { value }]) =>
      Object.hasOwn(optimizer, name) && name !== LR && optimizer[name as keyof OptimizerSettings] !== value
    );
    return {
      factor: (lr === undefined ? 1 : lr / optimizer.learning_rate) * (fixed ? 1 : rates[i].share),
      optimizer: Object.fromEntries(own.map(([name, { value }]) => [name, value])),
      clipNorm: (given.get("clip_norm")?.value ?? 0) as number,
    };
  });
}

const LR = "learning_rate";

function give(given: Given, name: string, one: { value: number | boolean; by: string }, parameter: string) {
  const before = given.get(name);
  if (before && before.value !== one.value) {
    throw new UserError(
      "usage",
      `${before.by} and ${one.by} give ${parameter} another ${
        written(name)
      } each, ${before.value} and ${one.value}: ` +
        "let one of the patterns leave it out.",
    );
  }
  given.set(name, one);
}

const written = (name: string): string => name === LR ? "lr" : name;

/** `norms, biases: lr=1e-4, weight_decay=0` */
function readGroup(text: string, model: Model, config: Config): Rule {
  const by = `--param-group '${text}'`, at = text.indexOf(":");
  const patterns = (at < 0 ? "" : text.slice(0, at)).split(/,(?![^\[]*\])/).map((one) => one.trim()).filter(
    Boolean,
  );
  const call = at < 0 ? null : parseCall(`group(${text.slice(at + 1)})`, "--param-group");
  if (call === null || patterns.length === 0 || call.values.length > 0 || call.named.size === 0) {
    throw new UserError(
      "usage",
      `--param-group takes PATTERN: SETTING=VALUE, such as 'norms, biases: weight_decay=0', but got "${text}".`,
    );
  }
  return {
    by,
    fits: patterns.map((pattern) => readPattern(pattern, "--param-group", model, config)),
    settings: settingsIn(call, config),
  };
}

function settingsIn({ named }: Call, { training: { optimizer } }: Config): Map<string, number | boolean> {
  const reads = settingsOf(optimizer.type);
  const known = ["lr", ...reads.some(isBeta) ? ["betas"] : [], ...reads, "clip_norm"];
  const settings = new Map<string, number | boolean>();
  for (const [name, value] of [...named].flatMap(([name, value]) => withoutTuples(name, value, reads))) {
    if (!known.includes(name)) throw unknownSetting(name, optimizer.type, known);
    const own = name === "lr" ? LR : name;
    settings.set(own, checked(own, name, value));
  }
  const rate = settings.get(LR);
  if (rate === 0) {
    throw new UserError("usage", "--param-group lr=0: what should not be trained is frozen with --freeze.");
  }
  if (rate !== undefined) needBase("--param-group lr", optimizer);
  return settings;
}

const isBeta = (name: string): boolean => /beta[12]$/.test(name);

/** torch.optim has betas=(0.9, 0.95). */
function withoutTuples(name: string, value: Value, reads: readonly string[]): [string, Value][] {
  const betas = reads.filter(isBeta);
  if (name !== "betas" || betas.length === 0) return [[name, value]];
  if (Array.isArray(value) && value.length === 2) return betas.map((beta, i) => [beta, value[i]]);
  throw new UserError("usage", "--param-group betas takes two numbers, such as betas=(0.9, 0.95).");
}

function checked(name: string, typed: string, value: Value): number | boolean {
  const path = name === "clip_norm" ? "training.clip_norm" : `training.optimizer.${name}`;
  const { value: read } = fromData(findSetting(path)!, value, { ...setOrigin(typed), name: "--param-group" });
  return read as number | boolean;
}

function unknownSetting(name: string, type: OptimizerSettings["type"], known: readonly string[]): UserError {
  const readers = Object.entries(OPTIMIZER_READS).flatMap(([other, reads]) =>
    (reads as readonly string[]).includes(name) ? [other] : []
  );
  const why = readers.length > 0
    ? `: --optimizer ${type} does not read it (${readers.join(", ")} ${readers.length > 1 ? "do" : "does"}).`
    : `, which is no setting of a group.${didYouMean(name, known)}`;
  return new UserError(
    "usage",
    `--param-group sets ${name}${why} With ${type} a group has ${known.join(", ")}.`,
  );
}

function needBase(what: string, { learning_rate }: OptimizerSettings): void {
  if (learning_rate > 0) return;
  throw new UserError("usage", `${what} needs a --lr above 0, whose schedule it follows.`);
}

// Decay.

const NONE = "none";

function noDecayOf(model: Model, config: Config): Rule[] {
  const { no_decay } = config.training;
  if (no_decay.length === 0 || no_decay.includes(NONE) && no_decay.length === 1) return [];
  const reads = settingsOf(config.training.optimizer.type);
  if (!reads.includes("weight_decay")) {
    throw new UserError(
      "usage",
      `--no-decay: --optimizer ${config.training.optimizer.type} has no weight decay, so leave it out.`,
    );
  }
  return [{
    by: `--no-decay ${no_decay.join(",")}`,
    fits: no_decay.map((pattern) => readPattern(pattern, "--no-decay", model, config)),
    settings: new Map([["weight_decay", 0]]),
  }];
}

/** A model's own choice is for optimizers that can have groups; others decay all their weights. */
function defaultNoDecay(model: Model, config: Config): Fits[] {
  const { no_decay, optimizer } = config.training, reads = settingsOf(optimizer.type);
  if (no_decay.length > 0 || !reads.includes("weight_decay") || !traitsOf(optimizer).perElement) return [];
  return (model.noDecay ?? []).map((pattern) => readPattern(pattern, "--no-decay", model, config));
}

// Rates.

interface Rate {
  /** --lr-for's, which is the highest rate whatever the depth. */
  readonly rate: { readonly value: number; readonly by: string } | null;
  /** The share of it at this depth. */
  readonly share: number;
}

function ratesOf(model: Model, { training }: Config, named: readonly Named[]): Rate[] {
  const { lr_for, layer_decay: decay, optimizer } = training;
  const rules = lr_for.map((rule) => {
    const [pattern, value] = ruleOf(rule);
    checkPatterns("--lr-for", [pattern], named.map(([name]) => name));
    needBase(`--lr-for ${rule}`, optimizer);
    return { fits: matcher([pattern]), rate: { value, by: `--lr-for ${rule}` } };
  });
  const levels = decay > 0 ? levelsOf(model) : null;
  return named.map(([name, t]) => ({
    rate: rules.find(({ fits }) => fits(name))?.rate ?? null,
    share: levels === null ? 1 : decay ** (levels.most - (levels.of.get(t) ?? levels.most)),
  }));
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

/** Its settings would be believed and change nothing. */
function refuseIdle(groups: readonly Rule[], named: readonly Named[]): void {
  const idle = groups.find(({ fits }) => !named.some((parameter) => fits.some((fit) => fit(parameter))));
  if (!idle) return;
  throw new UserError(
    "usage",
    `${idle.by} fits frozen parameters alone: leave it out, or let them learn (--freeze, --lora-rank).`,
  );
}

/** An optimizer that takes all weights together has the same settings for all. */
function refuseWhole({ training: { optimizer } }: Config, grouped: boolean): void {
  if (!grouped || traitsOf(optimizer).perElement) return;
  throw new UserError(
    "usage",
    `--optimizer ${optimizer.type} takes all weights together: --param-group and --no-decay need one of ` +
      `${optimizersThat(({ perElement }) => perElement).join(", ")}.`,
  );
}
