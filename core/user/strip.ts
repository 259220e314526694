// TypeScript -> JavaScript with the same lines and columns: types become spaces. May import errors and the type stripper.
import { UserError } from "../errors.ts";

interface Refusal {
  readonly message: string;
  readonly startLine: number;
  readonly startColumn: number;
}

/** What to write instead of what can't be erased, because it is more than a type. */
const INSTEAD: readonly (readonly [RegExp, string])[] = [
  [/enum/, "Write a plain object instead: const Kind = { a: 0, b: 1 }."],
  [/parameter propert/i, "Declare the field, and give it its value in the constructor."],
  [/namespace|module/, "Put it into a file of its own, or a plain object."],
];

/** The stripper is loaded when the first file needs it. */
export async function stripTypes(source: string, path: string): Promise<string> {
  const { transformSync } = await import("../../deps/amaro.ts");
  try {
    return transformSync(source, { mode: "strip-only", filename: path }).code;
  } catch (cause) {
    const { message, startLine, startColumn } = cause as Refusal;
    if (typeof startLine !== "number") throw cause;
    const instead = INSTEAD.find(([pattern]) => pattern.test(message))?.[1];
    throw new UserError(
      "usage",
      `${path}:${startLine}:${startColumn + 1}: ${message.replace(/\.$/, "")}.${
        instead ? ` ${instead}` : ""
      }`,
      { cause },
    );
  }
}
