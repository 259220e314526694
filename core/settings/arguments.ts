// Arguments of what a setting names, such as huber(delta=0.5): what each may be, and sentences about one that it may not.
import { type Call, isCall, type Value } from "../base/calls.ts";

/** An argument's values; `numbers` are one number or several in brackets. */
export type Argument =
  | { readonly kind: "number"; readonly min?: number; readonly max?: number; readonly above?: true }
  | { readonly kind: "numbers" }
  | { readonly kind: "flag" }
  | { readonly kind: "whole"; readonly min: number }
  | { readonly kind: "choice"; readonly of: readonly (number | string)[] };

/** In their order; a value without a name is the first's. */
export type Arguments = Readonly<Record<string, Argument>>;

/** The checked values of a call. `elsewhere` says what to do in place of an argument that there is not. */
export function argumentsOf(
  call: Call,
  takes: Arguments,
  fail: (why: string) => never,
  elsewhere: (name: string) => string = () => "",
): Map<string, Value> {
  const names = Object.keys(takes), values = new Map<string, Value>(call.named);
  const has = names.length === 0 ? "takes no arguments" : `takes ${names.join(", ")}`;
  if (call.values.length > names.length) fail(`${call.name} ${has}, and not so many values.`);
  call.values.forEach((value, i) => {
    if (values.has(names[i])) fail(`${call.name} has ${names[i]} twice.`);
    values.set(names[i], value);
  });
  for (const [name, value] of values) {
    if (!Object.hasOwn(takes, name)) {
      fail(`${call.name} has no argument ${name}: it ${has}.${elsewhere(name)}`);
    }
    const wrong = wrongOf(takes[name], value);
    if (wrong !== null) fail(`${name} of ${call.name} is ${wrong}, but got ${shown(value)}.`);
  }
  return values;
}

const shown = (value: Value): string =>
  Array.isArray(value)
    ? `(${value.map(shown).join(", ")})`
    : typeof value === "object" && value !== null && isCall(value)
    ? value.text
    : String(value);

function wrongOf(argument: Argument, value: Value): string | null {
  switch (argument.kind) {
    case "flag":
      return typeof value === "boolean" ? null : "true or false";
    case "choice":
      return argument.of.includes(value as number) ? null : argument.of.join(" or ");
    case "whole":
      return Number.isInteger(value) && Number(value) >= argument.min
        ? null
        : `a whole number from ${argument.min} on`;
    case "numbers":
      return numbersIn(value).every(Number.isFinite) ? null : "a number, or several in brackets: (1, 5, 0.5)";
    case "number": {
      const { min = -Infinity, max = Infinity, above } = argument;
      const fits = typeof value === "number" && (above ? value > min : value >= min) && value <= max;
      const range = max < Infinity
        ? `from ${min} to ${max}`
        : min === -Infinity
        ? ""
        : above
        ? "above 0"
        : "0 or more";
      return fits ? null : `a number${range && ` ${range}`}`;
    }
  }
}

/** NaN stands for what is no number. */
export const numbersIn = (value: Value): number[] =>
  (Array.isArray(value) ? value : [value]).map((one) => typeof one === "number" ? one : NaN);
