// The options of a command that are no settings (--json, --verify, ...).
import { UserError } from "../errors.ts";
import { insteadOf } from "./elsewhere.ts";
import { didYouMean } from "./suggest.ts";

export interface OptionSpec {
  /** A bool takes no value; a text takes one. */
  readonly kind: "bool" | "text";
  readonly help: string;
  /** What the value is called in help, e.g. "FILE". */
  readonly value?: string;
}

/** A bool option that was not given is false, a text option undefined. */
export type Options<S extends Record<string, OptionSpec>> = {
  [K in keyof S]: S[K]["kind"] extends "bool" ? boolean : string | undefined;
};

/** Reads `--name`, `--no-name`, `--name value` and `--name=value`, in any order with positionals; all after `--` is positional. */
export function parseOptions<const S extends Record<string, OptionSpec>>(
  argv: readonly string[],
  spec: S,
  usage: string,
): { options: Options<S>; positionals: string[] } {
  const options: Record<string, boolean | string | undefined> = {};
  for (const name of Object.keys(spec)) options[name] = spec[name].kind === "bool" ? false : undefined;
  const positionals: string[] = [];
  const words = [...argv];
  while (words.length > 0) {
    const word = words.shift()!;
    if (word === "--") return { options: options as Options<S>, positionals: [...positionals, ...words] };
    if (!looksLikeFlag(word)) {
      positionals.push(word);
      continue;
    }
    const { name, value } = splitFlag(word);
    const negated = name.startsWith("no-") && spec[name.slice(3)]?.kind === "bool";
    const option = Object.hasOwn(spec, name) ? spec[name] : undefined;
    if (negated) options[name.slice(3)] = noValue(name, value, usage) && false;
    else if (!option || !word.startsWith("--")) throw unknownFlag(word, Object.keys(spec), usage);
    else if (option.kind === "bool") options[name] = noValue(name, value, usage);
    else options[name] = value ?? takeValue(name, words, `${option.value ?? "a value"}. Usage: ${usage}`);
  }
  return { options: options as Options<S>, positionals };
}

/** The words that are a command's own options, with their values; the rest are flags of settings. */
export function ownWords(
  argv: readonly string[],
  spec: Readonly<Record<string, OptionSpec>>,
): { own: string[]; rest: string[] } {
  const own: string[] = [], rest: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const { name, value } = splitFlag(argv[i]);
    const mine = argv[i].startsWith("--") && Object.hasOwn(spec, name);
    (mine ? own : rest).push(argv[i]);
    const takes = mine && spec[name].kind === "text" && value === undefined;
    if (takes && i + 1 < argv.length && !looksLikeFlag(argv[i + 1])) own.push(argv[++i]);
  }
  return { own, rest };
}

/** Anything that starts with a dash, but for "-" (standard input) and negative numbers. */
export function looksLikeFlag(word: string): boolean {
  return word.length > 1 && word.startsWith("-") && !/^-\.?\d/.test(word);
}

/** Underscores are dashes: torchrun's and Hugging Face's flags have them. */
export function splitFlag(word: string): { name: string; value: string | undefined } {
  const [, typed, value] = /^-{0,2}([^=]*)(?:=([^]*))?$/.exec(word)!;
  return { name: typed.replaceAll("_", "-"), value };
}

/** Takes the next word as the flag's value, and refuses where there is none. */
export function takeValue(name: string, words: string[], expected: string): string {
  if (words.length === 0 || looksLikeFlag(words[0])) {
    throw new UserError("usage", `--${name} needs ${expected.replace(/\.?$/, ".")}`);
  }
  return words.shift()!;
}

export function unknownFlag(word: string, known: readonly string[], usage: string): UserError {
  const name = splitFlag(word).name;
  const instead = insteadOf(name);
  const hint = instead ? ` ${instead}` : didYouMean(`--${name}`, known.map((flag) => `--${flag}`));
  return new UserError("usage", `Unknown flag ${word.split("=")[0]}.${hint} Usage: ${usage}`);
}

function noValue(name: string, value: string | undefined, usage: string): true {
  if (value === undefined) return true;
  throw new UserError("usage", `--${name} takes no value, but got "${value}". Usage: ${usage}`);
}
