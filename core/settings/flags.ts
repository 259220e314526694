// The command line becomes assignments, presets, files and positionals.
import { UserError } from "../base/errors.ts";
import { type Assignment, expected, flagOrigin, fromText, type Mistakes, setOrigin } from "./values.ts";
import { looksLikeFlag, splitFlag, takeValue, unknownFlag } from "./options.ts";
import { findSetting, type Flag, FLAGS, hintForPath } from "./settings.ts";

export interface CommandLine {
  /** The last of two for one setting wins. */
  readonly assignments: Assignment[];
  /** The text of each flag by its setting, good or not. */
  readonly typed: Map<string, string>;
  readonly presets: string[];
  readonly recipes: string[];
  debug: boolean;
  readonly files: string[];
  readonly positionals: string[];
}

/** These flags are no settings themselves but bring some. */
export const SOURCE_FLAGS: Readonly<Record<string, { readonly value?: string; readonly help: string }>> = {
  preset: { value: "NAME", help: "start from a preset; `hpctrain presets` lists them" },
  debug: { help: "short for --preset debug: a small run of seconds" },
  recipe: { value: "NAME", help: "train as a known script does; `hpctrain presets` lists recipes, too" },
  config: { value: "FILE", help: "read settings from a YAML file; may be given again, later files win" },
  set: { value: "KEY=VALUE", help: "give any setting by its path, such as training.optimizer.beta2=0.95" },
};

export const takesValue = (name: string): boolean => {
  const flag = FLAGS.get(name);
  return flag ? flag.fixed === undefined : SOURCE_FLAGS[name]?.value !== undefined;
};

export function readFlags(argv: readonly string[], usage: string, mistakes: Mistakes): CommandLine {
  const line: CommandLine = {
    assignments: [],
    typed: new Map(),
    presets: [],
    recipes: [],
    debug: false,
    files: [],
    positionals: [],
  };
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--") {
      line.positionals.push(...words.splice(0));
    } else if (looksLikeFlag(word)) {
      mistakes.try(() => readFlag(word, words, line, usage));
    } else {
      line.positionals.push(word);
    }
  }
  return line;
}

function readFlag(word: string, words: string[], line: CommandLine, usage: string): void {
  const { name, value } = splitFlag(word);
  const flag = FLAGS.get(name);
  const source = Object.hasOwn(SOURCE_FLAGS, name);
  if (!word.startsWith("--") || (!flag && !source)) {
    if (value === undefined && words.length > 0 && !looksLikeFlag(words[0])) words.shift(); // The word is its value, most likely.
    throw unknownFlag(word, [...FLAGS.keys(), ...Object.keys(SOURCE_FLAGS)], usage);
  }
  if (flag) {
    const { path } = flag.declared, text = value ?? words[0];
    if (flag.fixed === undefined && text !== undefined) line.typed.set(path, text);
    const given = assign(name, flag, value, words);
    const before = flag.declared.setting.separator && line.assignments.findLast((own) => own.path === path);
    line.assignments.push(
      before ? { ...given, value: [...before.value as [], ...given.value as []] } : given,
    );
    return;
  }
  if (name === "debug") {
    if (value !== undefined) throw noValue(name, value);
    line.debug = true;
    return;
  }
  const given = nonEmpty(name, value ?? takeValue(name, words, SOURCE_FLAGS[name].value!));
  if (name === "preset") line.presets.push(given);
  else if (name === "recipe") line.recipes.push(given);
  else if (name === "config") line.files.push(given);
  else line.assignments.push(readSet(given));
}

function assign(name: string, flag: Flag, value: string | undefined, words: string[]): Assignment {
  const { declared, fixed, open } = flag;
  const { path, setting } = declared;
  if (fixed === undefined) {
    const alone = value === undefined && looksLikeFlag(words[0] ?? "--");
    if (alone && setting.yes !== undefined) return { path, value: setting.yes, origin: flagOrigin(name) };
    const given = value ?? takeValue(name, words, expected(setting));
    return fromText(declared, textOnly(setting.kind) ? given : nonEmpty(name, given), flagOrigin(name));
  }
  if (value === undefined) return { path, value: fixed, origin: flagOrigin(name) };
  if (open) return fromText(declared, nonEmpty(name, value), flagOrigin(name));
  throw noValue(name, value);
}

const noValue = (name: string, value: string): UserError =>
  new UserError("usage", `--${name} takes no value, but got "${value}".`);

/** `--run-name=` takes a name back; `--epochs=` is a script with an empty variable. */
function textOnly(kind: string): boolean {
  return kind === "text" || kind === "path" || kind === "list";
}

function nonEmpty(name: string, value: string): string {
  if (value !== "") return value;
  throw new UserError("usage", `--${name}= has no value after the equals sign. Expected --${name} VALUE.`);
}

function readSet(pair: string): Assignment {
  const equals = pair.indexOf("=");
  if (equals < 1) {
    throw new UserError("usage", `--set needs KEY=VALUE, such as training.epochs=10, but got "${pair}".`);
  }
  const path = pair.slice(0, equals).trim();
  const declared = findSetting(path);
  if (!declared) throw new UserError("usage", `--set: unknown setting "${path}".${hintForPath(path)}`);
  return fromText(declared, pair.slice(equals + 1), setOrigin(path));
}
