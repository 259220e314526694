// Patterns over the names of parameters: layer[1-3]*, fc, *.bias. A whole leading part of a name stands for all below it.
import { UserError } from "./errors.ts";
import { nearest } from "./suggest.ts";

/** Tells of a name whether one of the patterns fits it. */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map(regexOf);
  return (name) => all.some((regex) => regex.test(name));
}

/** `*` and `?` stand for any characters, `[1-3]` for one of a range, `[!0]` for one that is not in it. */
function regexOf(pattern: string): RegExp {
  const parts = pattern.match(/\[!?[^\]]+\]|./gs) ?? [];
  const body = parts.map((part) => {
    if (part === "*") return ".*";
    if (part === "?") return ".";
    if (part.length > 1) return part.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
    return part.replace(/[.+^$(){}|\\\[\]/]/, "\\$&");
  }).join("");
  try {
    return new RegExp(`^(?:${body})(?:\\..*)?$`, "s");
  } catch {
    throw new UserError(
      "usage",
      `${pattern}: brackets take single characters or rising ranges, such as layer[1-3]*.`,
    );
  }
}

/** Refuses a pattern without any name, and says which names come near. `setting` is its flag. */
export function checkPatterns(
  setting: string,
  patterns: readonly string[],
  names: readonly string[],
  /** Other words that could have been meant. */
  words: readonly string[] = [],
): void {
  for (const pattern of patterns) {
    if (names.some(matcher([pattern]))) continue;
    const parts = [...new Set(names.flatMap(leadingParts)), ...words];
    const near = nearest(pattern.replaceAll(/[*?]/g, ""), parts);
    const first = [...new Set(names.map((name) => name.split(".")[0]))];
    const some = first.length > 12 ? [...first.slice(0, 12), "..."] : first;
    throw new UserError(
      "usage",
      `${setting} ${pattern} fits no parameter.${near === null ? "" : ` Did you mean "${near}"?`} ` +
        `The names begin with ${some.join(", ")}.`,
    );
  }
}

/** layer1.0.weight -> layer1, layer1.0, layer1.0.weight. */
function leadingParts(name: string): string[] {
  const words = name.split(".");
  return words.map((_, i) => words.slice(0, i + 1).join("."));
}
