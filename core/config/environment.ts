// Variables of the environment -> assignments: HPCTRAIN_* for every setting, and a few without a prefix.
import { UserError } from "../errors.ts";
import type { Mistakes } from "./mistakes.ts";
import { nearest } from "./suggest.ts";
import { ALL, type Declared } from "./tree.ts";
import { type Assignment, fromText } from "./values.ts";

export type Env = Readonly<Record<string, string | undefined>>;

const PREFIX = "HPCTRAIN_";
/** Ours, but no settings: a flag of the same name (--mpi) has its variable by the setting's path alone. */
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
  "MPI",
  "TRACE_ERRORS",
  "WANDB_PYTHON",
  "WANDB_PYTHON_OLD",
].map((name) => PREFIX + name);

/** The variables that set a setting: by path, by flag, then those without our prefix. The first that is set wins. */
export function variablesOf(declared: Declared): string[] {
  const { plain = [], env = [] } = declared.setting;
  return [...prefixedOf(declared), ...plain, ...env];
}

/** HPCTRAIN_ and the setting's path or flag. */
export function prefixedOf({ path, setting }: Declared): string[] {
  const names = [path, ...(setting.flag ? [setting.flag] : [])]
    .map((name) => PREFIX + name.replaceAll(/[.-]/g, "_").toUpperCase())
    .filter((name) => !OTHERS.includes(name));
  return [...new Set(names)];
}

/** An empty variable counts as one that is not set. */
export function readEnvironment(env: Env, mistakes: Mistakes): Assignment[] {
  refuseUnknown(env, mistakes);
  return ALL.flatMap((declared) => {
    const set = variablesOf(declared).filter((variable) => env[variable]);
    const [first, ...others] = set.flatMap((variable) =>
      mistakes.try(() => ({ ...fromText(declared, env[variable]!, `env ${variable}`), variable })) ?? []
    );
    for (const other of others) mistakes.try(() => refuseTwo(declared, first, other));
    return first ? [first] : [];
  });
}

/** Of two that say different things one would count for nothing; without our prefix that is nobody's wish. */
function refuseTwo({ path, setting }: Declared, first: Assignment, other: Assignment): void {
  if (!setting.plain?.includes(other.variable!) || same(first.value, other.value)) return;
  throw new UserError(
    "usage",
    `env ${first.variable} and ${other.variable}: both give ${path}, ${first.value} and ${other.value}. Unset one of them.`,
  );
}

export const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** A variable that looks like a misspelt setting would be ignored in silence; one of a stranger is left alone. */
function refuseUnknown(env: Env, mistakes: Mistakes): void {
  const known = [...ALL.flatMap(variablesOf), ...OTHERS];
  const sections = [...new Set(ALL.map(({ path }) => PREFIX + path.split(".")[0].toUpperCase() + "_"))];
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
