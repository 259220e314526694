// Writes core/user/ops.ts, all operations under one name with their signatures and what they do, from ffi/ops.ts:
//   deno run --allow-all --no-lock scripts/user_ops.ts [OUT]
// May import ffi's schema, op_sentences, @std/path.
import { fromFileUrl } from "@std/path";
import { type Argument, parseSchema, type Schema } from "../ffi/schema.ts";
import { SENTENCES } from "./op_sentences.ts";

const at = (path: string) => fromFileUrl(new URL(`../${path}`, import.meta.url));
const VERBS = [
  "add",
  "constant",
  "fill_",
  "ones",
  "scalar",
  "scale",
  "sub",
  "tensor",
  "toDevice",
  "toNumbers",
  "uninitialised",
  "zero_",
  "zeros",
];
const HEAD =
  `// All operations under one name, as users' files and mod.ts have them: libtorch's, and the verbs that take numbers.
// Made by: deno run --allow-all --no-lock scripts/user_ops.ts. May import ffi.
// deno-fmt-ignore-file

/**
 * Operations on tensors, named as libtorch names them, in camel case: relu, crossEntropyLoss, scaledDotProductAttention.
 * Their arguments stand in the order of libtorch's own; null leaves an optional one to it.
 *
 * @module
 */
import type { DType } from "../../ffi/dtype.ts";
import * as own from "../../ffi/ops.ts";
import type { MemoryFormat } from "../../ffi/schema.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
export { ${VERBS.join(", ")} } from "../../ffi/make.ts";

`;
const TYPES: Readonly<Record<string, string>> = {
  Tensor: "Tensor",
  int: "number",
  float: "number",
  bool: "boolean",
  str: "string",
  ScalarType: "DType",
  Device: "Device",
  MemoryFormat: "MemoryFormat",
  Layout: "null", // libtorch's own choice, always
  Generator: "null",
};

const camel = (name: string) => name.replace(/(?<=.)_(\w)/g, (_, letter) => letter.toUpperCase());

function typeOf({ base, list, optional, gaps }: Argument): string {
  const one = TYPES[base];
  const whole = list ? `readonly ${gaps ? `(${one} | null)` : one}[]` : one;
  return optional && one !== "null" ? `${whole} | null` : whole;
}

function signature({ args, returns }: Schema): string {
  // What comes after an argument that may be left out may be left out, too, or TypeScript takes neither.
  const must = args.findLastIndex(({ fallback }) => fallback === undefined);
  const said = args.map((a, i) => {
    const type = typeOf(a);
    return a.fallback === undefined || i > must
      ? `${camel(a.name)}${i > must ? "?" : ""}: ${type}`
      : `${camel(a.name)}: ${type} | undefined`;
  });
  const given = returns.map(({ base, list }) => list ? `${TYPES[base]}[]` : TYPES[base]);
  const result = given[0] === undefined ? "void" : given.length === 1 ? given[0] : `[${given.join(", ")}]`;
  return `(${said.join(", ")}) => ${result}`;
}

/** A schema that gives nothing reads as one that gives "". */
const parsed = (text: string): Schema => {
  const schema = parseSchema(text);
  return text.endsWith("-> ()") ? { ...schema, returns: [] } : schema;
};

export function userOps(source: string): string {
  let made = HEAD;
  for (const [, name, , text] of source.matchAll(/export const (\w+) = aten\(\s*(["'])(.*?)\2,?\s*\);/gs)) {
    const sentence = SENTENCES[name];
    if (sentence === undefined) {
      throw new Error(`ffi/ops.ts has ${name}, and scripts/op_sentences.ts does not say what it does.`);
    }
    made += `/** ${sentence} */\nexport const ${name}: ${signature(parsed(text))} = own.${name};\n`;
  }
  return made;
}

if (import.meta.main) {
  const made = userOps(Deno.readTextFileSync(at("ffi/ops.ts")));
  Deno.writeTextFileSync(Deno.args[0] ?? at("core/user/ops.ts"), made);
}
