// The settings by path, by flag and by alias. May import the declarations only.
import { type Group, isSetting, type Setting } from "./kinds.ts";
import { didYouMean } from "./suggest.ts";
import { type Config, SECTION_ALIASES, SETTINGS } from "./settings.ts";

export interface Declared {
  readonly path: string;
  readonly setting: Setting;
}

/** What a flag does: takes a value for a setting, or gives it a fixed one. */
export interface Flag {
  readonly declared: Declared;
  readonly fixed?: unknown;
  /** True when another value may follow an equals sign. */
  readonly open?: boolean;
  /** True for other programs' spelling of the setting's own flag. */
  readonly spelling?: boolean;
}

/** Every setting, in the order of declaration. */
export const ALL: readonly Declared[] = flatten(SETTINGS, "");

const paths = new Map(ALL.map((declared) => [declared.path, declared]));
const aliases = new Map(
  ALL.flatMap((declared) => (declared.setting.aliases ?? []).map((alias) => [alias, declared])),
);
const groups = new Set(ALL.flatMap(({ path }) => parents(path)));

/** Every flag that stands for a setting, without its dashes. */
export const FLAGS: ReadonlyMap<string, Flag> = new Map(ALL.flatMap(flagsOf));

/** `train.lr` -> `training.lr`. */
export function canonical(path: string): string {
  const [section, ...rest] = path.split(".");
  return [Object.hasOwn(SECTION_ALIASES, section) ? SECTION_ALIASES[section] : section, ...rest].join(".");
}

/** The setting a path or an alias of it names. */
export function lookUp(path: string): Declared | undefined {
  const key = canonical(path);
  return paths.get(key) ?? aliases.get(key);
}

export function isGroup(path: string): boolean {
  return groups.has(canonical(path));
}

/** The names that may follow a group's path ("" for the top), aliases included. */
export function keysOf(group: string): string[] {
  const prefix = group === "" ? "" : canonical(group) + ".";
  const names = [...paths.keys(), ...aliases.keys(), ...(group === "" ? Object.keys(SECTION_ALIASES) : [])]
    .filter((path) => path.startsWith(prefix))
    .map((path) => path.slice(prefix.length).split(".")[0]);
  return [...new Set(names)];
}

export function allPaths(): string[] {
  return [...paths.keys(), ...aliases.keys()];
}

/** The sentence that helps who wrote a path that is no setting: on the command line, say. */
export function hintForPath(path: string): string {
  const last = path.split(".").at(-1)!;
  const same = allPaths().find((known) => known.split(".").at(-1) === last);
  if (same) return ` Did you mean "${same}"?`;
  const elsewhere = FLAGS.get(last.replaceAll("_", "-"))?.declared.path;
  if (elsewhere) return ` Did you mean "${elsewhere}"?`;
  return didYouMean(canonical(path), allPaths()) || ' "hpctrain config" lists all settings.';
}

export function defaults(): Config {
  const config = {};
  for (const { path, setting } of ALL) write(config, path, structuredClone(setting.default));
  return config as Config;
}

export function read(config: unknown, path: string): unknown {
  return path.split(".").reduce((node, key) => (node as Record<string, unknown> | undefined)?.[key], config);
}

export function write(config: object, path: string, value: unknown): void {
  const keys = path.split(".");
  const last = keys.pop()!;
  let node = config as Record<string, unknown>;
  for (const key of keys) node = (node[key] ??= {}) as Record<string, unknown>;
  node[last] = value;
}

function flatten(group: Group, prefix: string): Declared[] {
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
  for (const name of spellings) flags.push([name, { ...own, spelling: true }]);
  return flags;
}
