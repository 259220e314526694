// Layers of settings -> one configuration, each value with its origin. May import the other config files.
import { UserError } from "../errors.ts";
import { type Env, readEnvironment } from "./environment.ts";
import { readSettings } from "./files.ts";
import { readFlags } from "./flags.ts";
import { batchForRanks, loadPreset, type Preset } from "./presets.ts";
import type { Config } from "./settings.ts";
import { ALL, defaults, read, write } from "./tree.ts";
import { type Assignment, fromData } from "./values.ts";

export interface Request {
  readonly argv: readonly string[];
  readonly env: Env;
  /** Used when neither argv nor HPCTRAIN_PRESET names one. */
  readonly preset?: string;
  /** The configuration in a checkpoint to evaluate or go on from: above the preset, below files. */
  readonly checkpoint?: unknown;
  /** Ranks of this world where known; a preset for many GPUs sizes its batch by it. */
  readonly ranks?: number;
  /** How many positionals the command takes; none unless told. */
  readonly positionals?: number;
  /** For sentences about flags. */
  readonly usage?: string;
}

export interface Resolved {
  readonly config: Config;
  /** "default", "preset cpu", "run.yaml:12:5", "env HPCTRAIN_LR", "--lr". */
  origin(path: string): string;
  /** The name of the preset in use. */
  readonly preset: string | null;
  readonly files: readonly string[];
  readonly positionals: readonly string[];
}

/** defaults < preset < checkpoint < files < environment < flags. */
export function resolve(request: Request): Resolved {
  const { argv, env, usage = "hpctrain [train] [FLAGS]. `hpctrain train --help` lists them." } = request;
  const line = readFlags(argv, usage);
  refuseExtra(line.positionals, request.positionals ?? 0, usage);
  const preset = choosePreset(line.presets, request);
  const files = line.files.length > 0 ? line.files : env.HPCTRAIN_CONFIG ? [env.HPCTRAIN_CONFIG] : [];

  const config = defaults();
  const origins = new Map<string, string>();
  const apply = (assignments: readonly Assignment[]) => {
    for (const { path, value, origin } of assignments) {
      write(config, path, value);
      origins.set(path, origin);
    }
  };
  if (preset) apply(forRanks(preset, request.ranks));
  if (request.checkpoint) apply(fromCheckpoint(request.checkpoint));
  for (const file of files) apply(readSettings(file).assignments);
  apply(readEnvironment(env));
  apply(line.assignments);
  return {
    config,
    origin: (path) => origins.get(path) ?? "default",
    preset: preset?.name ?? null,
    files,
    positionals: line.positionals,
  };
}

/** Of each setting that is no default, by its path. */
export function originsOf({ origin }: Pick<Resolved, "origin">): Record<string, string> {
  const said = ALL.map(({ path }) => [path, origin(path)] as const);
  return Object.fromEntries(said.filter(([, from]) => from !== "default"));
}

function choosePreset(given: readonly string[], { env, preset }: Request): Preset | null {
  const named = given.at(-1);
  if (named !== undefined) return loadPreset(named);
  if (env.HPCTRAIN_PRESET) return loadPreset(env.HPCTRAIN_PRESET, "env HPCTRAIN_PRESET");
  return preset === undefined ? null : loadPreset(preset);
}

function forRanks(preset: Preset, ranks: number | undefined): readonly Assignment[] {
  if (!ranks || preset.layout.device !== "cuda") return preset.assignments;
  const path = "training.batch_size";
  return [...preset.assignments, { path, value: batchForRanks(ranks), origin: `preset ${preset.name}` }];
}

/** What belongs to the machine or to the other run, not to what was trained. */
const NOT_CARRIED = [
  "data.num_workers",
  "data.stage",
  "training.device",
  "training.threads",
  "training.resume",
  "training.init_from",
  "training.force",
];

/** Settings that this version does not have are passed over; a wrong value is the file's fault, not the user's. */
function fromCheckpoint(config: unknown): Assignment[] {
  return ALL.flatMap((declared) => {
    if (!/^(model|data|training)\./.test(declared.path) || NOT_CARRIED.includes(declared.path)) return [];
    const value = read(config, declared.path);
    if (value === undefined) return [];
    try {
      return [fromData(declared, value, "checkpoint")];
    } catch (error) {
      throw error instanceof UserError ? new UserError("checkpoint", error.message, { cause: error }) : error;
    }
  });
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
