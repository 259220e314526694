// Merges layers of settings into one configuration, each value with its origin.
import { UserError } from "../base/errors.ts";
import { type Env, readEnvironment, sameValue, variableOf } from "./environment.ts";
import { readSettings } from "./yaml.ts";
import { type CommandLine, readFlags } from "./flags.ts";
import { type Assignment, formatOrigin, fromData, isTyped, Mistakes, type Origin } from "./values.ts";
import { ADDED, loadSite, settingsOfSite, type Site } from "./sites.ts";
import { loadPreset, type Preset } from "./presets.ts";
import { loadRecipe } from "./recipes.ts";
import { COUNTS, readsFiles } from "./counts.ts";
import { OPTIMIZER_DEFAULTS } from "./sections/optimizer.ts";
import { ALL_SAMPLES } from "./sections/data.ts";
import { AUTO_BATCH } from "./sections/training.ts";
import {
  ALL_SETTINGS,
  type Config,
  type Declared,
  defaultConfig,
  findSetting,
  readSetting,
  writeSetting,
} from "./settings.ts";

export interface SettingsRequest {
  readonly argv: readonly string[];
  readonly env: Env;
  /** It is used when neither argv nor HPCTRAIN_PRESET names one. */
  readonly preset?: string;
  /** A program gives a whole configuration: what differs from its preset counts like flags. */
  readonly program?: { readonly config: Config; readonly preset: string | null };
  /** The checkpoint's configuration is above the preset, below files. */
  readonly checkpoint?: unknown;
  /** A preset for many GPUs sizes its batch by the ranks, where known. */
  readonly ranks?: number;
  readonly positionals?: number;
  readonly takes?: (path: string) => boolean;
  readonly usage?: string;
  /** Where a job is made, cluster.site brings settings: below all that was typed, above the preset. */
  readonly job?: { readonly command: string };
}

export interface Resolved {
  readonly config: Config;
  origin(path: string): Origin;
  /** It tells where a value that nobody typed follows from one that was typed. */
  originText(path: string): string;
  /** These gave way to a flag with another value. */
  readonly overruled: readonly {
    readonly path: string;
    readonly value: unknown;
    readonly variable: string;
  }[];
  readonly unitless: readonly Assignment[];
  readonly preset: string | null;
  readonly site: Site | null;
  readonly files: readonly string[];
  readonly positionals: readonly string[];
}

/** defaults < preset < site < checkpoint < recipes < files < environment < flags. */
export function resolveSettings(request: SettingsRequest): Resolved {
  const {
    argv,
    env,
    takes = () => true,
    usage = "hpctrain [train] [FLAGS]. `hpctrain train --help` lists them.",
  } = request;
  const mistakes = new Mistakes();
  const line = readFlags(argv, usage, mistakes);
  for (const { path, origin } of line.assignments) {
    const bySet = origin.kind === "flag" && origin.key !== undefined;
    if (!takes(path) && !bySet) mistakes.try(() => refuseUseless(origin, usage));
  }
  mistakes.try(() => refuseExtra(line.positionals, request.positionals ?? 0, usage));
  const { program } = request;
  const preset = program
    ? program.preset === null ? null : loadPreset(program.preset)
    : mistakes.try(() => choosePreset(line, request)) ?? null;
  const files = line.files.length > 0 ? line.files : env.HPCTRAIN_CONFIG ? [env.HPCTRAIN_CONFIG] : [];

  const config = defaultConfig();
  const given = new Map<string, Assignment>();
  const apply = (assignments: readonly Assignment[]) => {
    for (const assignment of assignments) {
      given.set(assignment.path, assignment);
      if (assignment.path === BATCH) {
        const fit = assignment.value === AUTO_BATCH;
        writeSetting(config, FIT, fit);
        given.set(FIT, { ...assignment, path: FIT, value: fit });
        if (fit) continue; // the number that stood there is what a step goes by
      }
      writeSetting(config, assignment.path, assignment.value);
    }
  };
  if (preset) apply(forRanks(preset, request.ranks));
  const ofProgram = program ? changesTo(config, program.config, mistakes) : [];
  if (request.checkpoint) apply(fromCheckpoint(request.checkpoint));
  for (const name of line.recipes) apply(mistakes.try(() => loadRecipe(name))?.assignments ?? []);
  for (const file of files) {
    apply(mistakes.try(() => readSettings(file, mistakes))?.assignments ?? []);
  }
  const variables = readEnvironment(env, mistakes, line.typed);
  mistakes.refuse();
  apply([...variables, ...line.assignments, ...ofProgram]);
  if (request.checkpoint) apply(chosenBefore(request.checkpoint, config));
  const origin = (path: string): Origin => given.get(path)?.origin ?? DEFAULT;
  const site = request.job && config.cluster.site !== ""
    ? loadSite(config.cluster.site, origin("cluster.site"))
    : null;
  if (site) {
    for (
      const own of settingsOfSite(site, { config, origin, preset: preset?.name ?? null, ...request.job! })
    ) {
      const { path } = own, typed = isTyped(origin(path));
      if (!typed) apply([own]);
      else if (ADDED.includes(path)) {
        const both = [...own.value as string[], ...readSetting(config, path) as string[]];
        apply([{ ...given.get(path)!, value: both }]);
      }
    }
  }
  if (!program) {
    for (const path of defaultsOfOptimizer(config, origin)) given.delete(path);
  }
  const rate = origin(RATE);
  if (isTyped(rate) && !isTyped(origin(SCALING)) && config.training.lr_scaling !== "none") {
    apply([{ path: SCALING, value: "none", origin: rate, implied: true }]);
  }
  apply(namedByWandb(config, origin));
  for (const path of COUNTS) {
    const count = sampleCountOf(origin(path), config.data, request.checkpoint);
    if (count === "given") continue;
    const below = count === "made" && preset?.assignments.find((own) => own.path === path);
    writeSetting(config, path, count === "all" ? ALL_SAMPLES : findSetting(path)!.setting.default);
    given.delete(path);
    if (below) apply([below]);
  }
  return {
    config,
    origin,
    originText: (path) => formatOrigin(origin(path)) + (given.get(path)?.implied ? ", used as typed" : ""),
    overruled: variables.flatMap(({ path, value, origin: from }) => {
      const variable = variableOf(from), flagged = origin(path).kind === "flag";
      return variable && flagged && !sameValue(readSetting(config, path), value)
        ? [{ path, value, variable }]
        : [];
    }),
    unitless: [...given.values()].filter(({ origin, unitless }) => unitless && isTyped(origin)),
    preset: preset?.name ?? null,
    site,
    files,
    positionals: line.positionals,
  };
}

/** A typed rate is the rate that is used: a preset's scaling is for its own. */
const RATE = "training.optimizer.learning_rate", SCALING = "training.lr_scaling";

const OPTIMIZER = "training.optimizer.type";

/** The optimizer's own defaults stand where nobody gave another value; a preset's are for the preset's optimizer. */
function defaultsOfOptimizer(config: Config, origin: (path: string) => Origin): string[] {
  const { optimizer } = config.training, chosen = origin(OPTIMIZER).kind !== "preset";
  return Object.entries(OPTIMIZER_DEFAULTS[optimizer.type] ?? {}).flatMap(([name, value]) => {
    const path = `training.optimizer.${name}`, { kind } = origin(path);
    if (kind !== "default" && !(kind === "preset" && chosen)) return [];
    writeSetting(config, path, value);
    return [path];
  });
}

const RUN_NAME = "output.run_name", DISPLAY_NAME = "wandb.run_name";

/**
 * A name that somebody gave to the run of today is its files' name, too; a shell's WANDB_NAME is of many runs, and a run that
 * goes on from a file has its name.
 */
function namedByWandb(
  { wandb, training: { resume } }: Config,
  origin: (path: string) => Origin,
): Assignment[] {
  const from = origin(DISPLAY_NAME), given = from.kind === "flag" || from.kind === "file";
  if (!given || isTyped(origin(RUN_NAME)) || (resume !== "" && resume !== "auto")) return [];
  const value = nameForFiles(wandb.run_name);
  return value === "" ? [] : [{ path: RUN_NAME, value, origin: from }];
}

const BATCH = "training.batch_size", FIT = "training.fit_batch";

const DEFAULT: Origin = { kind: "default" };

/** The keys are paths. Defaults have none. */
export function originsOf({ origin, originText }: Resolved): Record<string, string> {
  const given = ALL_SETTINGS.filter(({ path }) => origin(path).kind !== "default");
  return Object.fromEntries(given.map(({ path }) => [path, originText(path)]));
}

function choosePreset({ presets, debug }: CommandLine, { env, preset }: SettingsRequest): Preset | null {
  const given = presets.at(-1);
  if (debug && given !== undefined && given !== "debug") {
    throw new UserError(
      "usage",
      `--debug is short for --preset debug, and --preset ${given} is given too: leave one of them out. ` +
        "--trace-errors says where an error came from.",
    );
  }
  const named = debug ? "debug" : given;
  if (named !== undefined) return loadPreset(named);
  if (env.HPCTRAIN_PRESET) return loadPreset(env.HPCTRAIN_PRESET, "env HPCTRAIN_PRESET");
  return preset === undefined ? null : loadPreset(preset);
}

function forRanks(preset: Preset, ranks: number | undefined): readonly Assignment[] {
  if (!ranks || preset.layout.device !== "cuda") return preset.assignments;
  const origin: Origin = { kind: "preset", name: preset.name };
  return [...preset.assignments, { path: BATCH, value: batchForRanks(ranks), origin }];
}

function changesTo(before: Config, now: Config, mistakes: Mistakes): Assignment[] {
  return ALL_SETTINGS.flatMap((declared) => {
    const value = readSetting(now, declared.path);
    if (value === undefined || sameValue(value, readSetting(before, declared.path))) return [];
    return mistakes.try(() => fromData(declared, value, { kind: "flag", name: "train(config)" })) ?? [];
  });
}

/** These belong to the machine or to the other run, not to the model that was trained. */
const NOT_CARRIED = [
  "data.num_workers",
  "data.stage",
  "training.device",
  "training.threads",
  "training.resume",
  "training.init_from",
  "training.force",
];

/** A run that goes on writes on to the same files. */
const CARRIED_TOO = ["output.track", "output.prometheus_dir"];

const isCarried = (path: string): boolean =>
  /^(model|data|training)\./.test(path) ? !NOT_CARRIED.includes(path) : CARRIED_TOO.includes(path);

/** A checkpoint's value, which older versions may have spelled otherwise; undefined where it has none. */
export function savedValue({ path, setting: { once = {} } }: Declared, config: unknown): unknown {
  const saved = readSetting(config, path);
  return Object.hasOwn(once, String(saved)) ? once[String(saved)] : saved;
}

/**
 * Settings that this version does not have are ignored; a wrong value is the file's fault, not the user's.
 */
function fromCheckpoint(config: unknown): Assignment[] {
  return ALL_SETTINGS.flatMap((declared) => {
    if (!isCarried(declared.path)) return [];
    const value = savedValue(declared, config) ?? declared.setting.before;
    if (value === undefined) return [];
    try {
      return [fromData(declared, value, { kind: "checkpoint" })];
    } catch (error) {
      throw error instanceof UserError ? new UserError("checkpoint", error.message, { cause: error }) : error;
    }
  });
}

/** A checkpoint has what `auto` came to, and typed again it is that. */
const DECIDED = ["data.normalise", "data.normalise_targets"];

const chosenBefore = (checkpoint: unknown, config: Config): Assignment[] =>
  fromCheckpoint(checkpoint).filter(({ path }) =>
    DECIDED.includes(path) && readSetting(config, path) === "auto"
  );

function refuseUseless(flag: Origin, usage: string): never {
  throw new UserError(
    "usage",
    `${formatOrigin(flag)} is nothing that this command looks at: leave it out. Usage: ${usage}`,
  );
}

function refuseExtra(positionals: readonly string[], allowed: number, usage: string): void {
  const extra = positionals[allowed];
  if (extra === undefined) return;
  const hint = /^(true|false|yes|no|on|off)$/i.test(extra)
    ? " A switch takes its value with an equals sign: --compile=false, or --no-compile."
    : extra === "world"
    ? " Here it takes an equals sign: --deterministic=world."
    : /\.ya?ml$/i.test(extra)
    ? ` To read settings from it: --config ${extra}.`
    : "";
  throw new UserError("usage", `Unexpected argument "${extra}".${hint} Usage: ${usage}`);
}

/** A configuration remembers its preset: all that differs from it is the program's own. */
const presets = new WeakMap<Config, string>();

export const presetOf = (config: Config): string | null => presets.get(config) ?? null;

function fromPreset(preset: string, ranks?: number): Config {
  const { config } = resolveSettings({ argv: [], env: {}, preset, ranks });
  presets.set(config, preset);
  return config;
}

/** A few seconds on any machine. */
export function getDebugConfig(): Config {
  return fromPreset("debug");
}

/** One GPU, with a preset's batch and precision. */
export function getSingleGpuConfig(): Config {
  return fromPreset("single-gpu");
}

/** One node; the batch of a rank shrinks as GPUs are added, so that 256 samples make a step. */
export function getMultiGpuConfig({ numGpus }: { numGpus: number }): Config {
  const config = fromPreset("multi-gpu", atLeast("numGpus", numGpus, 1));
  config.distributed.gpus_per_node = numGpus;
  return config;
}

/** As many GPUs on each of several nodes. */
export function getMultiNodeConfig(
  { numNodes, gpusPerNode }: { numNodes: number; gpusPerNode: number },
): Config {
  const ranks = atLeast("numNodes", numNodes, 1) * atLeast("gpusPerNode", gpusPerNode, 1);
  const config = fromPreset("multi-node", ranks);
  config.distributed.nodes = numNodes;
  config.distributed.gpus_per_node = gpusPerNode;
  return config;
}

function atLeast(name: string, count: number, least: number): number {
  if (Number.isSafeInteger(count) && count >= least) return count;
  throw new UserError("usage", `${name} must be a whole number from ${least}, but got ${count}.`);
}

/** "given" stands; "all" is of files, "made" the number for data that is made. */
type Count = "given" | "all" | "made";

/** `saved` are the settings of the checkpoint that the run goes on from. */
function sampleCountOf(from: Origin, data: Config["data"], saved: unknown): Count {
  const files = readsFiles(data);
  if (isTyped(from)) return "given";
  if (from.kind !== "checkpoint") return files ? "all" : "given";
  const { code = "", data_path = "" } = (saved as Partial<Config> | null)?.data ?? {};
  // A run's count is of the kind of data that it had: it goes on with it.
  return readsFiles({ code, data_path }) === files ? "given" : files ? "all" : "made";
}

/** A rank alone takes 128 samples at once; more ranks share 256, but take no fewer than 32 each. */
export function batchForRanks(ranks: number): number {
  return ranks <= 1 ? 128 : Math.min(128, Math.max(32, 2 ** Math.floor(Math.log2(256 / ranks))));
}

/** A name for files from a text of any letters; empty where nothing of it fits. */
const nameForFiles = (text: string): string =>
  text.normalize("NFKD").replace(/\p{M}/gu, "").replace(/[^\w.+-]+/g, "-").replace(/^\W+/, "").slice(0, 128)
    .replace(/[-.]+$/, "");
