// Writes core/models/user/ops.ts, all operations under one name with their signatures and what they do, from ffi/ops.ts:
//   deno run --allow-all --no-lock scripts/user_ops.ts [OUT]
import { fromFileUrl } from "paths";
import { type Argument, parseSchema, type Schema } from "../ffi/schema.ts";
import { SENTENCES } from "./op_sentences.ts";

const at = (path: string) => fromFileUrl(new URL(`../${path}`, import.meta.url));
const VERBS = [
  "constant",
  "fill_",
  "ones",
  "scalar",
  "scale",
  "tensor",
  "toDevice",
  "toNumbers",
  "uninitialised",
  "zero_",
  "zeros",
];
const HEAD =
  `// All operations under one name, as users' files and mod.ts have them: libtorch's, and the verbs that take numbers.
// Made by: deno run --allow-all --no-lock scripts/user_ops.ts.
// deno-fmt-ignore-file

/**
 * Operations on tensors, named as libtorch names them, in camel case: relu, crossEntropyLoss, scaledDotProductAttention.
 * Their arguments stand in the order of libtorch's own; null leaves an optional one to it.
 *
 * @module
 */
import type { DType } from "../../../ffi/dtype.ts";
import * as own from "../../../ffi/ops.ts";
import type { Options } from "../../../ffi/make.ts";
import type { MemoryFormat } from "../../../ffi/schema.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import { operand } from "../../../ffi/scalar.ts";
export { add, op, sub } from "./op.ts";
export { ${VERBS.join(", ")} } from "../../../ffi/make.ts";

`;
/** Users have shorter ones (zeros, ones), or no use for them. */
const LEFT_OUT = ["zerosOp", "onesOp", "indexSelectOut"];
/** The arguments that stand for the device and type of what an op makes. */
const PLACE = ["dtype", "layout", "device", "pin_memory"];
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

/** True of element-wise ops whose second tensor may be a number, as in PyTorch: x * 2. */
const takesNumber = ({ name, args }: Schema) =>
  name !== "matmul" && args.length >= 2 && /^(other|exponent)$/.test(args[1].name) &&
  args[1].base === "Tensor" &&
  args.slice(0, 2).every(({ base, list, memory }) => base === "Tensor" && !list && memory !== "written");

/** The index at which the arguments for the result's type and device begin; -1 without them. */
function placeOf({ args }: Schema): number {
  const at = args.findIndex(({ name }) => name === PLACE[0]);
  return PLACE.every((name, i) => args[at + i]?.name === name) ? at : -1;
}

/** The wrapper that is exported, where it is not the op as it is. */
function wrapped(name: string, schema: Schema): { type: string; value: string } | null {
  const names = schema.args.map((a) => camel(a.name));
  if (takesNumber(schema)) {
    const type = signature(schema).replace(`${names[1]}: Tensor`, `${names[1]}: Tensor | number`);
    const rest = names.slice(2).map((each) => `, ${each}`).join("");
    return {
      type,
      value: `(${names[0]}, ${names[1]}${rest}) =>\n  own.${name}(${names[0]}, operand(${names[1]}, ${
        names[0]
      })${rest})`,
    };
  }
  const at = placeOf(schema);
  if (at < 0) return null;
  const before = { ...schema, args: schema.args.slice(0, at) };
  const given = names.slice(0, at).join(", ");
  const type = signature(before).replace(") =>", `, options?: Options) =>`);
  const places = "o.dtype ?? null, null, o.device ?? null, o.pinned ?? null";
  // Without these the schema's own default holds, such as i64 of randint.
  const dtype = schema.args[at].fallback === "None" ? places : places.replace("?? null", "?? undefined");
  return {
    type,
    value: `(${given}, o = {}) => own.${name}(${given}, ${dtype})`,
  };
}

function signature({ args, returns }: Schema): string {
  // TypeScript lets an argument be left out only where all that follow it may be left out, too.
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

/** One list of what a file exports, in lines of a page's width. */
export const exportList = (names: readonly string[]): string =>
  `export {\n${names.join(", ").replace(/(.{1,100})(?: |$)/g, "  $1\n")}};\n`;

export function userOps(source: string): string {
  const names: string[] = [];
  let made = HEAD;
  for (const [, name, , text] of source.matchAll(/export const (\w+) = aten\(\s*(["'])(.*?)\2,?\s*\);/gs)) {
    const sentence = SENTENCES[name];
    if (sentence === undefined) {
      throw new Error(`ffi/ops.ts has ${name}, and scripts/op_sentences.ts does not say what it does.`);
    }
    if (LEFT_OUT.includes(name)) continue;
    const schema = parsed(text);
    const { type, value } = wrapped(name, schema) ?? { type: signature(schema), value: `own.${name}` };
    made += `/** ${sentence} */\nconst ${name}: ${type} = ${value};\n`;
    names.push(name);
  }
  return `${made}\n${exportList(names)}`;
}

if (import.meta.main) {
  const made = userOps(Deno.readTextFileSync(at("ffi/ops.ts")));
  Deno.writeTextFileSync(Deno.args[0] ?? at("core/models/user/ops.ts"), made);
}
