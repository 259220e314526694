// Ops with Scalar arguments, the one type that the dispatcher's stack does not carry, by their C++ functions
// at::_ops::NAME::call. What they throw must not cross into this program, which would end it: so they are called by the one
// verb of the C interface that calls a virtual function and catches what comes out of it. That verb hands its registers on
// as they are, which is read from its code before it is trusted.
import { errorText, native } from "./abi.ts";
import { fail, freed } from "./aten.ts";
import { dtypeCode } from "./dtype.ts";
import { openedLibtorch } from "./library.ts";
import { callSymbol } from "./mangle.ts";
import type { Argument, Schema } from "./schema.ts";
import { Num } from "./scalar_numbers.ts";
import { Tensor } from "./tensor.ts";

type Call = (...args: unknown[]) => unknown;

/** How such an op is called, or null where its arguments don't fit into registers or this machine has no way. */
export function guardedCall(schema: Schema): Call | null {
  if (!guards()) return null;
  const words = wordsOf(schema);
  if (!words) return null;
  const symbol = callSymbol(schema);
  const target = symbol === null ? 0n : addressOf(symbol);
  return target === 0n ? null : compile(schema, words, target);
}

// ---- which arguments go into which registers (System V, x86-64) ------------------------------------------------

/** The first integer register holds the place of the result. */
const INTEGERS = 5, FLOATS = 8;

interface Word {
  readonly argument: Argument;
  readonly integers: number;
  readonly float: boolean;
}

function wordsOf({ args, returns }: Schema): Word[] | null {
  if (returns.length === 0 || returns.some((r) => r.base !== "Tensor" || r.list || r.argument >= 0)) {
    return null;
  }
  const words: Word[] = [];
  for (const argument of args) {
    const { base, list, optional, gaps, memory } = argument;
    if (memory === "written" || (list && (base !== "int" || optional || gaps))) return null;
    if (optional && (base === "str" || base === "int" || base === "float")) return null;
    if (!KNOWN.has(base)) return null;
    words.push({
      argument,
      integers: base === "float" ? 0 : list || base === "str" ? 2 : 1,
      float: base === "float",
    });
  }
  const integers = words.reduce((sum, word) => sum + word.integers, 0);
  const floats = words.filter(({ float }) => float).length;
  return integers <= INTEGERS && floats <= FLOATS ? words : null;
}

const KNOWN = new Set(["Tensor", "Scalar", "int", "bool", "float", "ScalarType", "Generator"]);

// ---- the verb -----------------------------------------------------------------------------------------------

const VERB = "aoti_torch_proxy_executor_call_function";
/**
 * Pushes, maybe a frame pointer, room on the stack, "is it null?", then at once the call of the third virtual function: no
 * register that carries an argument is touched.
 */
const CODE = new RegExp(
  "^(f30f1efa)?(5[0-7]|415[0-7]|4889e5)*(4883ec..|4881ec.{8})4885ff(74..|0f84.{8})488b07ff5010",
);

/** Whether this, in hexadecimal digits, is how the verb begins. */
export const handsOn = (code: string): boolean => CODE.test(code);

let known: boolean | undefined;

/** False on other machines than x86-64, and where the verb's code is not what is known. */
function guards(): boolean {
  if (known !== undefined) return known;
  const at = Deno.build.arch === "x86_64" ? Deno.UnsafePointer.create(addressOf(VERB)) : null;
  const code = at ? new Uint8Array(new Deno.UnsafePointerView(at).getArrayBuffer(64)) : [];
  return known = handsOn([...code].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
}

type Verb = (...args: (bigint | number)[]) => number;

let verbs: Map<string, Verb> | undefined;

/** The verb with these registers behind the object's: w for a word, d for a double. */
function bound(pattern: string): Verb {
  verbs ??= bind(Array.from({ length: INTEGERS }, (_, i) => "w".repeat(i + 1)));
  if (!verbs.has(pattern)) verbs.set(pattern, bind([pattern]).get(pattern)!);
  return verbs.get(pattern)!;
}

function bind(patterns: readonly string[]): Map<string, Verb> {
  const kinds = { w: "u64", d: "f64" } as const;
  const wanted = patterns.map((pattern) => {
    const registers = [...pattern].map((letter) => kinds[letter as "w" | "d"]);
    return [pattern, { name: VERB, parameters: ["u64" as const, ...registers], result: "i32" as const }];
  });
  const { symbols } = Deno.dlopen(libraryPath(), Object.fromEntries(wanted));
  return new Map(patterns.map((pattern) => [pattern, errorText.around(symbols[pattern] as Verb)]));
}

const libraryPath = () => `${openedLibtorch().dir}/libtorch_cpu.so`;

let look: ((name: string) => bigint) | undefined;

function addressOf(symbol: string): bigint {
  look ??= finder();
  return look(symbol);
}

const RTLD_LAZY = 1;

function finder(): (name: string) => bigint {
  const { symbols: loader } = Deno.dlopen("libdl.so.2", {
    dlopen: { parameters: ["buffer", "i32"], result: "u64" },
    dlsym: { parameters: ["u64", "buffer"], result: "u64" },
  });
  const encode = (text: string) => new TextEncoder().encode(text + "\0");
  const library = loader.dlopen(encode(libraryPath()), RTLD_LAZY);
  return (name) => loader.dlsym(library, encode(name));
}

// ---- memory that calls share, since one runs at a time: outside of the heap, which moves ---------------------------------------------------------

/** An object of that class, as far as it is looked at: the address of its functions. The result is put in its place. */
const object = new BigUint64Array(new ArrayBuffer(32));
const objectAt = Deno.UnsafePointer.of(object);
const objectAddress = Deno.UnsafePointer.value(objectAt);

/** c10::Scalar: a tag, and the value 16 bytes on. As an optional: a flag behind it. */
const SCALAR_WORDS = 6;
const scalars = new BigInt64Array(new ArrayBuffer(8 * SCALAR_WORDS * INTEGERS));
const tags = new Int32Array(scalars.buffer), doubles = new Float64Array(scalars.buffer);
const scalarsAddress = Deno.UnsafePointer.value(Deno.UnsafePointer.of(scalars));
const DOUBLE = 0, INTEGER = 1, COMPLEX = 3, BOOL = 4;

function putScalar(slot: number, n: Num | null): bigint {
  const at = slot * SCALAR_WORDS;
  scalars[at + 4] = n === null ? 0n : 1n;
  if (n !== null) {
    const { value, kind, imaginary } = n;
    if (imaginary !== undefined) {
      tags[2 * at] = COMPLEX;
      doubles[at + 2] = value;
      doubles[at + 3] = imaginary;
    } else if (kind === "float") {
      tags[2 * at] = DOUBLE;
      doubles[at + 2] = value;
    } else {
      tags[2 * at] = kind === "int" ? INTEGER : BOOL;
      scalars[at + 2] = BigInt(value);
    }
  }
  return scalarsAddress + BigInt(8 * at);
}

/** An optional tensor, a symbolic number, a list: two words each. */
const cells = new BigInt64Array(new ArrayBuffer(16 * INTEGERS));
const cellsAddress = Deno.UnsafePointer.value(Deno.UnsafePointer.of(cells));
const word = new BigUint64Array(new ArrayBuffer(8)), wordAt = Deno.UnsafePointer.of(word);

function putTensor(slot: number, t: Tensor | null): bigint {
  if (t !== null) native.copyIn(wordAt, t.h, 8n); // a tensor is one pointer
  cells[2 * slot] = t === null ? 0n : BigInt.asIntN(64, word[0]);
  cells[2 * slot + 1] = t === null ? 0n : 1n;
  return cellsAddress + BigInt(16 * slot);
}

function putNumber(slot: number, value: number): bigint {
  cells[2 * slot] = BigInt(value);
  return cellsAddress + BigInt(16 * slot);
}

const MOST_SIZES = 64;
const sizes = Array.from({ length: INTEGERS }, () => new BigInt64Array(new ArrayBuffer(8 * MOST_SIZES)));
const sizesAddresses = sizes.map((list) => Deno.UnsafePointer.value(Deno.UnsafePointer.of(list)));

function putSizes(slot: number, values: readonly number[]): bigint {
  if (values.length > MOST_SIZES) throw new RangeError("internal: a list of sizes is too long.");
  for (let i = 0; i < values.length; i++) sizes[slot][i] = BigInt(values[i]);
  return sizesAddresses[slot];
}

/** The place of the k-th result as a tensor of its own. */
function take(k: number): Tensor {
  const handle = native.operatorNew(8n);
  word[0] = object[k];
  native.copyOut(handle, wordAt, 8n);
  return new Tensor(handle);
}

// ---- the source of one op ---------------------------------------------------------------------------------------

const runtime = {
  object,
  objectAddress,
  putScalar,
  putTensor,
  putNumber,
  putSizes,
  take,
  fail,
  freed,
  Num,
  dtypeCode: (name: Parameters<typeof dtypeCode>[0]) => BigInt(dtypeCode(name)),
};

function compile(schema: Schema, words: readonly Word[], target: bigint): Call {
  // The class's functions, of which the third is called.
  const functions = new BigUint64Array(new ArrayBuffer(24));
  functions[2] = target;
  tables.push(functions);
  const table = Deno.UnsafePointer.value(Deno.UnsafePointer.of(functions));
  const call = bound(words.map(({ integers, float }) => float ? "d" : "w".repeat(integers)).join(""));
  const names = Object.keys(runtime);
  const make = new Function(...names, "call", "table", "schema", source(schema, words));
  return make(...Object.values(runtime), call, table, schema);
}

/** Only addresses of them are used, and they must live. */
const tables: BigUint64Array[] = [];

function source(schema: Schema, words: readonly Word[]): string {
  const { args, returns } = schema;
  const params = args.map((a) => a.fallback === undefined ? a.name : `${a.name} = ${fallback(a)}`);
  const dead = args.filter((a) => a.base === "Tensor").map((a) =>
    a.optional ? `${a.name} !== null && ${a.name}.h === 0n` : `${a.name}.h === 0n`
  );
  const given = words.map(({ argument }, i) => passed(argument, i, slotOfScalar(words, i)));
  const results = returns.map((_, k) => `take(${k})`);
  return `return function guarded_${schema.name}(${params.join(", ")}) {
    ${dead.length > 0 ? `if (${dead.join(" || ")}) freed(schema);` : ""}
    object[0] = table;
    if (call(objectAddress, ${given.join(", ")}) !== 0) fail(schema, [${args.map((a) => a.name).join(", ")}]);
    return ${results.length === 1 ? results[0] : `[${results.join(", ")}]`};
  };`;
}

const slotOfScalar = (words: readonly Word[], at: number): number =>
  words.slice(0, at).filter(({ argument }) => argument.base === "Scalar").length;

function passed({ name, base, list, optional, symbolic }: Argument, at: number, scalar: number): string {
  if (list) return `putSizes(${at}, ${name}), BigInt(${name}.length)`;
  switch (base) {
    case "Tensor":
      return optional ? `putTensor(${at}, ${name})` : `${name}.h`;
    case "Scalar":
      return `putScalar(${scalar}, ${name})`;
    case "float":
      return name;
    case "bool":
      return optional ? `${name} === null ? 0n : ${name} ? 257n : 256n` : `${name} ? 1n : 0n`;
    case "int":
      return symbolic ? `putNumber(${at}, ${name})` : `BigInt.asUintN(64, BigInt(${name}))`;
    case "ScalarType": // an optional byte: itself, and a flag behind it
      return optional ? `${name} === null ? 0n : dtypeCode(${name}) | 256n` : `dtypeCode(${name})`;
    default: // a generator: libtorch's own
      return `putTensor(${at}, null)`;
  }
}

/** A default of the schema as TypeScript. */
function fallback({ base, list, fallback }: Argument): string {
  const text = fallback!;
  if (text === "None") return "null";
  if (base === "Scalar") {
    const kind = /^(True|False)$/.test(text) ? "bool" : /[.e]|inf/.test(text) ? "float" : "int";
    const value = kind === "bool" ? Number(text === "True") : text.replace("inf", "Infinity");
    return `new Num(${value}, "${kind}")`;
  }
  if (base === "bool") return text.toLowerCase();
  if (list && !text.startsWith("[")) return `[${text}]`;
  return text;
}
