// Declares every setting once, and finds them by path, alias and flag. Flags, YAML, environment, help, schema
// and docs are made from this table.
import { type ConfigOf, isSetting, type Setting, type SettingGroup } from "./setting.ts";
import { data } from "./sections/data.ts";
import { model } from "./sections/model.ts";
import { cluster } from "./sections/cluster.ts";
import { distributed, environment, output, wandb } from "./sections/run.ts";
import { training } from "./sections/training.ts";
import { didYouMean } from "../base/suggest.ts";
import { hasPart } from "../parts.ts";

export const SETTINGS = { model, data, training, output, distributed, wandb, cluster, environment };

/** @internal */
type AllSettings = typeof SETTINGS;

/** The effective configuration: plain JSON data, one value a setting. */
export type Config = ConfigOf<AllSettings>;

export const SECTION_ALIASES: Readonly<Record<string, string>> = { train: "training" };

export const SECTION_TITLES: Readonly<Record<string, string>> = {
  model: "Model",
  data: "Data",
  training: "Training",
  output: "Output",
  distributed: "Ranks and nodes",
  wandb: "Weights & Biases",
  cluster: "Cluster",
  environment: "Environment",
};

export interface Declared {
  readonly path: string;
  readonly setting: Setting;
}

export interface Flag {
  readonly declared: Declared;
  readonly fixed?: unknown;
  /** Another value may follow an equals sign. */
  readonly open?: boolean;
  /** Another program spells the setting's own flag like this. */
  readonly spelling?: boolean;
}

const DECLARED: readonly Declared[] = flatten(SETTINGS, "");

/** Nobody can set anything of a part that is not there. */
export const isHere = ({ part }: Setting): boolean => part === undefined || hasPart(part);

export const ALL_SETTINGS: readonly Declared[] = DECLARED.filter(({ setting }) => isHere(setting));

const paths = new Map(ALL_SETTINGS.map((declared) => [declared.path, declared]));
const aliases = new Map(
  ALL_SETTINGS.flatMap((declared) => (declared.setting.aliases ?? []).map((alias) => [alias, declared])),
);
const groups = new Set(ALL_SETTINGS.flatMap(({ path }) => parents(path)));

/** The flags have no dashes. */
export const FLAGS: ReadonlyMap<string, Flag> = new Map(ALL_SETTINGS.flatMap(flagsOf));

/** `train.lr` becomes `training.lr`. */
export function canonical(path: string): string {
  const [section, ...rest] = path.split(".");
  return [Object.hasOwn(SECTION_ALIASES, section) ? SECTION_ALIASES[section] : section, ...rest].join(".");
}

export function findSetting(path: string): Declared | undefined {
  const key = canonical(path);
  return paths.get(key) ?? aliases.get(key);
}

export function isSettingGroup(path: string): boolean {
  return groups.has(canonical(path));
}

/** The top group's path is "". Aliases are included. */
export function settingKeys(group: string): string[] {
  const prefix = group === "" ? "" : canonical(group) + ".";
  const names = [...paths.keys(), ...aliases.keys(), ...(group === "" ? Object.keys(SECTION_ALIASES) : [])]
    .filter((path) => path.startsWith(prefix))
    .map((path) => path.slice(prefix.length).split(".")[0]);
  return [...new Set(names)];
}

export function allPaths(): string[] {
  return [...paths.keys(), ...aliases.keys()];
}

export function hintForPath(path: string): string {
  const last = path.slice(path.lastIndexOf(".") + 1);
  const same = allPaths().find((known) => known.split(".").at(-1) === last);
  if (same) return ` Did you mean "${same}"?`;
  const elsewhere = FLAGS.get(last.replaceAll("_", "-"))?.declared.path;
  if (elsewhere) return ` Did you mean "${elsewhere}"?`;
  return didYouMean(canonical(path), allPaths()) || ' "hpctrain config" lists all settings.';
}

export function defaultConfig(): Config {
  const config = {};
  for (const { path, setting } of DECLARED) writeSetting(config, path, structuredClone(setting.default));
  return config as Config;
}

export function readSetting(config: unknown, path: string): unknown {
  return path.split(".").reduce((node, key) => (node as Record<string, unknown> | undefined)?.[key], config);
}

export function writeSetting(config: object, path: string, value: unknown): void {
  const keys = path.split(".");
  const last = keys.pop()!;
  let node = config as Record<string, unknown>;
  for (const key of keys) node = (node[key] ??= {}) as Record<string, unknown>;
  node[last] = value;
}

function flatten(group: SettingGroup, prefix: string): Declared[] {
  return Object.entries(group).flatMap(([key, node]) =>
    isSetting(node) ? [{ path: prefix + key, setting: node }] : flatten(node, `${prefix}${key}.`)
  );
}

function parents(path: string): string[] {
  const keys = path.split(".");
  return keys.slice(1).map((_, depth) => keys.slice(0, depth + 1).join("."));
}

function flagsOf(declared: Declared): [string, Flag][] {
  const { flag, spellings = [], kind, yes, no, bare, shortcuts } = declared.setting;
  const flags: [string, Flag][] = [];
  const alone = kind === "bool" ? true : bare ? yes : undefined;
  const own = alone === undefined ? { declared } : { declared, fixed: alone, open: true };
  if (flag) flags.push([flag, own]);
  if (flag && kind === "bool") flags.push([`no-${flag}`, { declared, fixed: false }]);
  if (flag && no !== undefined) flags.push([`no-${flag}`, { declared, fixed: no }]);
  for (const [name, value] of Object.entries(shortcuts ?? {})) flags.push([name, { declared, fixed: value }]);
  for (const name of spellings) {
    flags.push([name, { ...own, spelling: true }]);
    if (no !== undefined) flags.push([`no-${name}`, { declared, fixed: no, spelling: true }]);
  }
  return flags;
}
