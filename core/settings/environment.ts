// Reads settings from environment variables, and lists which of them a start uses or overrules.
import { UserError } from "../base/errors.ts";
import { type Assignment, fromText, type Mistakes, type Origin } from "./values.ts";
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { nearest } from "../base/suggest.ts";
import { ALL_SETTINGS, type Declared, readSetting } from "./settings.ts";
import type { Resolved } from "./resolve.ts";

export type Env = Readonly<Record<string, string | undefined>>;

const PREFIX = "HPCTRAIN_";
/**
 * These are ours, but no settings: a flag of the same name (--mpi) has its variable by the setting's path
 * alone.
 */
const OTHERS = [
  "PRESET",
  "CONFIG",
  "CACHE",
  "PYTHON",
  "EXE",
  "LIBTORCH_OLDEST",
  "LAUNCH",
  "RESTARTS",
  "ENDED",
  "JOB",
  "MPI",
  "TRACE_ERRORS",
  "WANDB_PYTHON",
  "WANDB_PYTHON_OLD",
].map((name) => PREFIX + name);

/** The order is: by path, by flag, then those without our prefix. The first that is set wins. */
export function variablesOf(declared: Declared): string[] {
  const { plain = [], env = [] } = declared.setting;
  return [...prefixedOf(declared), ...plain, ...env];
}

export function prefixedOf({ path, setting }: Declared): string[] {
  const names = [path, ...(setting.flag ? [setting.flag] : [])]
    .map((name) => PREFIX + name.replaceAll(/[.-]/g, "_").toUpperCase())
    .filter((name) => !OTHERS.includes(name));
  return [...new Set(names)];
}

/**
 * An empty variable counts as one that is not set, and one that a flag repeats (`typed`) as the flag: job scripts make flags of
 * variables, and a mistake in one is one mistake.
 */
export function readEnvironment(
  env: Env,
  mistakes: Mistakes,
  typed: ReadonlyMap<string, string> = new Map(),
): Assignment[] {
  refuseUnknown(env, mistakes);
  return ALL_SETTINGS.flatMap((declared) => {
    const [first, ...others] = variablesOf(declared).flatMap((name) => {
      const text = env[name];
      return text && typed.get(declared.path) !== text
        ? mistakes.try(() => fromText(declared, text, { kind: "environment", name })) ?? []
        : [];
    });
    for (const other of others) mistakes.try(() => refuseTwo(declared, first, other));
    return first ? [first] : [];
  });
}

/** The second variable would count for nothing, so one without our prefix is refused. */
function refuseTwo({ path, setting }: Declared, first: Assignment, other: Assignment): void {
  const [name, second] = [variableOf(first.origin)!, variableOf(other.origin)!];
  if (!setting.plain?.includes(second) || sameValue(first.value, other.value)) return;
  throw new UserError(
    "usage",
    `env ${name} and ${second}: both give ${path}, ${first.value} and ${other.value}. Unset one of them.`,
  );
}

export const variableOf = (origin: Origin): string | null =>
  origin.kind === "environment" ? origin.name : null;

export const sameValue = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Nobody would notice a variable that looks like a misspelt setting; other programs' variables pass. */
function refuseUnknown(env: Env, mistakes: Mistakes): void {
  const known = [...ALL_SETTINGS.flatMap(variablesOf), ...OTHERS];
  const sections = [
    ...new Set(ALL_SETTINGS.map(({ path }) => PREFIX + path.split(".")[0].toUpperCase() + "_")),
  ];
  for (const name of Object.keys(env)) {
    if (!name.startsWith(PREFIX) || !env[name] || known.includes(name)) continue;
    const bare = (variable: string) => variable.slice(PREFIX.length);
    const near = nearest(bare(name), known.map(bare));
    if (near === null && !sections.some((section) => name.startsWith(section))) continue;
    const hint = near ? `Did you mean ${PREFIX}${near}?` : 'Unset it; "hpctrain config" lists all settings.';
    mistakes.try(() => {
      throw new UserError("usage", `env ${name}: no setting has this variable. ${hint}`);
    });
  }
}

const shown = (value: unknown): string => String(valuesWithoutSecrets(value));

/** There are no lines where no variable without our prefix is set and no flag contradicts one. */
export function environmentLines({ config, overruled, origin, originText }: Resolved): string[] {
  const used = ALL_SETTINGS.flatMap(({ path, setting: { plain = [] } }) => {
    const name = variableOf(origin(path));
    return name !== null && plain.includes(name) ? [`${name}=${shown(readSetting(config, path))}`] : [];
  });
  const ours = overruled.filter(({ path, variable }) =>
    variable.startsWith(PREFIX) || ALL_SETTINGS.some((one) => one.path === path && one.setting.plain)
  );
  return [
    ...(used.length > 0 ? [`From the environment: ${used.join(", ")}.`] : []),
    ...ours.map(({ path, value, variable }) =>
      `${variable}=${shown(value)} of the environment gives way to ${originText(path)}: ${
        shown(readSetting(config, path))
      }.`
    ),
  ];
}
