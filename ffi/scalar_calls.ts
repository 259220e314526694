// Calls the C++ functions at::_ops::NAME::call of ops with Scalar arguments, which the dispatcher's stack
// does not carry. Their exceptions must not cross into this program, so each call is guarded or its arguments
// are checked first.
import { type Argument, parseSchema, type Schema } from "./schema.ts";
import { errorText, native, out, outAt } from "./abi.ts";
import { fail, freed, tellingOf } from "./aten.ts";
import { type DType, dtypeBytes, dtypeCode, isFloating } from "./dtype.ts";
import { openedLibtorch } from "./library.ts";
import { callsThird, LOADED, loaderAddress } from "./arm_calls.ts";
import { Num } from "./scalar.ts";
import { REGISTERS, STACKED, stackerAddress } from "./stack_calls.ts";
import { tape } from "./tape.ts";
import { describe, Tensor } from "./tensor.ts";
import { NativeError } from "./errors.ts";
import { emptyLike } from "./ops.ts";

// The linker's name of an op's C++ function follows from its schema by the Itanium C++ ABI, in which a
// repeated name is a number.

/** "_ZN2at4_ops11mul_Scalar4call...", or null for an unknown type. */
export function callSymbol(schema: Schema): string | null {
  const struct = schema.overload === "" ? schema.name : `${schema.name}_${schema.overload}`;
  const names = new Names();
  const prefix = names.nested(["at", "_ops", struct]);
  const args = schema.args.map((a) => typeOf(a, names));
  if (args.includes(null)) return null;
  return `_ZN${prefix}4callE${args.join("") || "v"}`;
}

class Names {
  readonly #seen: string[] = [];

  once(key: string, spell: () => string): string {
    const at = this.#seen.indexOf(key);
    if (at >= 0) return at === 0 ? "S_" : `S${(at - 1).toString(36).toUpperCase()}_`;
    const text = spell();
    this.#seen.push(key);
    return text;
  }

  nested(scopes: readonly string[]): string {
    if (scopes.length === 0) return "";
    const last = scopes.at(-1)!;
    return this.once(scopes.join("::"), () => `${this.nested(scopes.slice(0, -1))}${last.length}${last}`);
  }

  class(scope: string, name: string, parameter?: () => string, of = ""): string {
    const whole = `${scope}::${name}${parameter ? `<${of}>` : ""}`;
    return this.once(whole, () => {
      if (!parameter) return `N${this.nested([scope])}${name.length}${name}E`;
      return `N${this.nested([scope, name])}I${parameter()}EE`;
    });
  }

  optional(of: string, inner: () => string): string {
    return this.once(`std::optional<${of}>`, () => {
      const template = this.once("std::optional", () => "St8optional");
      return `${template}I${inner()}E`;
    });
  }

  reference(of: string, inner: () => string, constant: boolean): string {
    const plain = () => constant ? this.once(`${of} const`, () => `K${inner()}`) : inner();
    return this.once(`${of}${constant ? " const" : ""}&`, () => `R${plain()}`);
  }

  text(): string {
    return this.once("std::string_view", () => {
      const template = this.once("std::basic_string_view", () => "St17basic_string_view");
      const traits = this.once("std::char_traits<char>", () => {
        return `${this.once("std::char_traits", () => "St11char_traits")}IcE`;
      });
      return `${template}Ic${traits}E`;
    });
  }
}

const PLAIN: Readonly<Record<string, string>> = { int: "l", float: "d", bool: "b" };
const OF_C10 = new Set(["ScalarType", "Layout", "Device", "MemoryFormat"]);

function typeOf(a: Argument, names: Names): string | null {
  const { base, list, optional, symbolic, gaps } = a;
  const tensor = () => names.class("at", "Tensor");
  const scalar = () => names.class("c10", "Scalar");
  if (list) {
    if (optional || gaps || base !== "int") return null;
    const item = symbolic ? () => names.class("c10", "SymInt") : () => "l";
    return names.class("c10", "ArrayRef", item, symbolic ? "SymInt" : "l");
  }
  if (base === "Tensor") {
    if (optional) return names.reference("Tensor?", () => names.optional("Tensor", tensor), true);
    return names.reference("Tensor", tensor, a.memory !== "written");
  }
  if (base === "Scalar") {
    if (optional) return names.reference("Scalar?", () => names.optional("Scalar", scalar), true);
    return names.reference("Scalar", scalar, true);
  }
  const inner = base === "int" && symbolic
    ? () => names.class("c10", "SymInt")
    : Object.hasOwn(PLAIN, base)
    ? () => PLAIN[base]
    : OF_C10.has(base)
    ? () => names.class("c10", base)
    : base === "Generator"
    ? () => names.class("at", "Generator")
    : base === "str"
    ? () => names.text()
    : null;
  if (inner === null) return null;
  return optional ? names.optional(`${base}${symbolic}`, inner) : inner();
}

// One verb of the C interface calls a virtual function and catches its exceptions, so the ops are called
// through it. Its machine code is checked before it is trusted: on x86-64 it must hand its registers on as they
// are, on aarch64 call what loads them from the object (arm_calls.ts).

type Call = (...args: unknown[]) => unknown;

/** Null where the arguments don't fit into registers or this machine has no way. */
export function guardedCall(schema: Schema): Call | null {
  if (!guards()) return null;
  const words = wordsOf(schema);
  if (!words) return null;
  const symbol = callSymbol(schema);
  const target = symbol === null ? 0n : addressOf(symbol);
  return target === 0n ? null : compile(schema, words, target);
}

/** One argument more than registers hold lies on the stack. */
const INTEGERS = REGISTERS + 1, FLOATS = 8;

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
  const last = words.findLast((word) => word.integers > 0);
  if (integers > REGISTERS && last?.integers !== 1) return null; // no register has one half of a list, and the stack the other
  return integers <= INTEGERS && floats <= FLOATS ? words : null;
}

const KNOWN = new Set(["Tensor", "Scalar", "int", "bool", "float", "ScalarType", "Generator"]);

const VERB = "aoti_torch_proxy_executor_call_function";
/**
 * Pushes, maybe a frame pointer, room on the stack, "is it null?", then at once the call of the third virtual
 * function: no register that carries an argument is touched.
 */
const CODE = new RegExp(
  "^(f30f1efa)?(5[0-7]|415[0-7]|4889e5)*(4883ec..|4881ec.{8})4885ff(74..|0f84.{8})488b07ff5010",
);

export const handsOn = (code: string): boolean => CODE.test(code);

let known: boolean | undefined;

const LOADS = Deno.build.arch === "aarch64";
let loader: bigint | null = null;

/** False where the verb's code is unknown, or there is no memory for what loads registers. */
function guards(): boolean {
  if (known !== undefined) return known;
  const at = Deno.UnsafePointer.create(addressOf(VERB));
  const code = at ? new Deno.UnsafePointerView(at).getArrayBuffer(64) : new ArrayBuffer(0);
  if (!LOADS) return known = handsOn(new Uint8Array(code).toHex());
  if (callsThird(new Uint32Array(code))) loader = loaderAddress();
  return known = loader !== null;
}

type Verb = (...args: (bigint | number)[]) => number;

/** Puts the arguments where the loader finds them. */
function loaded(pattern: string, target: bigint): Verb {
  const call = bound("");
  let integers = LOADED.integers, floats = LOADED.floats;
  const places = [...pattern].map((letter) => letter === "w" ? integers++ : floats++);
  return (at, ...words) => {
    object[LOADED.target] = target;
    for (let i = 0; i < words.length; i++) {
      if (places[i] < LOADED.floats) object[places[i]] = words[i] as bigint;
      else objectFloats[places[i]] = words[i] as number;
    }
    return call(at);
  };
}

/** The last integer goes through the object, and the others with the floats through registers. */
function stacked(pattern: string, target: bigint): Verb {
  const at = pattern.lastIndexOf("w"), call = bound(pattern.slice(0, at) + pattern.slice(at + 1));
  return (first, ...words) => {
    object[LOADED.target] = target;
    object[STACKED] = words[at] as bigint;
    return call(first, ...words.toSpliced(at, 1));
  };
}

let verbs: Map<string, Verb> | undefined;

function bound(pattern: string): Verb {
  verbs ??= bind(Array.from({ length: REGISTERS + 1 }, (_, i) => "w".repeat(i)));
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

let lookUp: ((name: string) => bigint) | undefined;

function addressOf(symbol: string): bigint {
  lookUp ??= finder();
  return lookUp(symbol);
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

// Calls share this memory, since one runs at a time. It is outside of the heap, which moves.

/**
 * The verb looks only at the object's first word, the address of its functions. On x86-64 the result is put in
 * the object's own place.
 */
const object = new BigUint64Array(new ArrayBuffer(8 * LOADED.words));
const objectFloats = new Float64Array(object.buffer);
const resultWord = LOADS ? LOADED.result : 0;
const objectAt = Deno.UnsafePointer.of(object);
const objectAddress = Deno.UnsafePointer.value(objectAt);

/** c10::Scalar is a tag, and the value 16 bytes on. An optional has a flag behind it. */
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

function take(k: number): Tensor {
  const handle = native.operatorNew(8n);
  word[0] = object[resultWord + k];
  native.copyOut(handle, wordAt, 8n);
  return new Tensor(handle);
}

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
  tape,
  Num,
  dtypeCode: (name: Parameters<typeof dtypeCode>[0]) => BigInt(dtypeCode(name)),
};

function compile(schema: Schema, words: readonly Word[], target: bigint): Call | null {
  const pattern = words.map(({ integers, float }) => float ? "d" : "w".repeat(integers)).join("");
  const full = !LOADS && pattern.replaceAll("d", "").length > REGISTERS;
  const through = full ? stackerAddress() : loader ?? target;
  if (through === null) return null;
  // The verb calls the third of the class's functions.
  const functions = new BigUint64Array(new ArrayBuffer(24));
  functions[2] = through;
  tables.push(functions);
  const table = Deno.UnsafePointer.value(Deno.UnsafePointer.of(functions));
  const call = LOADS ? loaded(pattern, target) : full ? stacked(pattern, target) : bound(pattern);
  const names = Object.keys(runtime);
  const make = new Function(...names, "call", "table", "schema", source(schema, words));
  return make(...Object.values(runtime), call, table, schema);
}

/** Native code has only their addresses, so they must live. */
const tables: BigUint64Array[] = [];

function source(schema: Schema, words: readonly Word[]): string {
  const { args, returns } = schema;
  const params = args.map((a) =>
    a.fallback === undefined ? a.name : `${a.name} = ${fallback(a, a.fallback)}`
  );
  const dead = args.filter((a) => a.base === "Tensor").map((a) =>
    a.optional ? `${a.name} !== null && ${a.name}.h === 0n` : `${a.name}.h === 0n`
  );
  const given = words.map(({ argument }, i) => passed(argument, i, slotOfScalar(words, i)));
  const results = returns.map((_, k) => `take(${k})`);
  return `return function guarded_${schema.name}(${params.join(", ")}) {
    ${dead.length > 0 ? `if (${dead.join(" || ")}) freed(schema);` : ""}
    object[0] = table;
    if (call(objectAddress, ${given.join(", ")}) !== 0) fail(schema, [${args.map((a) => a.name).join(", ")}]);
    const made = ${results.length === 1 ? results[0] : `[${results.join(", ")}]`};
    ${tellingOf(args)}
    return made;
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

function fallback({ base, list }: Argument, text: string): string {
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

// C++ functions of ops in place whose numbers have no other exact way. No exception may cross such a call,
// because it would end the process: so only plain types and fitting shapes on a CPU are let through, and
// memory is asked for first, in a call that may fail.

/** Seen in 2.10.0 and 2.15.0; each with the defaults of its numbers. */
const functions = {
  "add_.Tensor": { symbol: "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE", numbers: [1] },
  leaky_relu_: { symbol: "_ZN2at4_ops11leaky_relu_4callERNS_6TensorERKN3c106ScalarE", numbers: [0.01] },
  elu_: { symbol: "_ZN2at4_ops4elu_4callERNS_6TensorERKN3c106ScalarES7_S7_", numbers: [1, 1, 1] },
  hardtanh_: { symbol: "_ZN2at4_ops9hardtanh_4callERNS_6TensorERKN3c106ScalarES7_", numbers: [-1, 1] },
  threshold_: { symbol: "_ZN2at4_ops10threshold_4callERNS_6TensorERKN3c106ScalarES7_", numbers: [NaN, NaN] },
} as const;

const ADD = "add_.Tensor";

/** As they tell of themselves. */
const SCHEMAS: Readonly<Record<Key, Schema>> = {
  "add_.Tensor": parseSchema(
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
  ),
  leaky_relu_: parseSchema(
    "leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) -> Tensor(a!)",
  ),
  elu_: parseSchema(
    "elu_(Tensor(a!) self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor(a!)",
  ),
  hardtanh_: parseSchema("hardtanh_(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1) -> Tensor(a!)"),
  threshold_: parseSchema("threshold_(Tensor(a!) self, Scalar threshold, Scalar value) -> Tensor(a!)"),
};

type Key = keyof typeof functions;
type Native = (...args: (bigint | Deno.PointerValue)[]) => unknown;

let boundInPlace: Readonly<Record<string, Native | null>> | undefined;

function bindInPlace(key: Key): Native | null {
  return (boundInPlace ??= openAll())[key];
}

function openAll(): Readonly<Record<string, Native | null>> {
  const all = Object.fromEntries(
    Object.entries(functions).map(([key, { symbol, numbers }]) => {
      const handles = key === ADD ? ["u64", "u64"] as const : ["u64"] as const;
      const parameters = [...handles, ...numbers.map(() => "pointer" as const)];
      return [key, { name: symbol, parameters, result: "pointer" as const, optional: true as const }];
    }),
  );
  const { symbols } = Deno.dlopen(`${openedLibtorch().dir}/libtorch_cpu.so`, all);
  return symbols as Readonly<Record<string, Native | null>>;
}

// c10::Scalar: a tag (0 for a double, 1 for an integer) and, aligned to 16 bytes, the value.
const scalarsInPlace = Array.from({ length: 3 }, () => {
  const memory = new ArrayBuffer(32);
  return {
    tag: new Int32Array(memory),
    int: new BigInt64Array(memory),
    float: new Float64Array(memory),
    at: Deno.UnsafePointer.of(new Uint8Array(memory)),
  };
});

function scalarAt(slot: number, n: Num | undefined | null, otherwise: number): Deno.PointerValue {
  const s = scalarsInPlace[slot], value = n?.value ?? otherwise;
  const whole = n ? n.kind !== "float" : Number.isInteger(otherwise);
  s.tag[0] = whole ? 1 : 0;
  if (whole) s.int[2] = BigInt(value);
  else s.float[2] = value;
  return s.at;
}

/** An exception refuses a finite number beyond its type's largest. */
const LARGEST: Readonly<Record<string, number>> = {
  ...{ u8: 255, i8: 127, i16: 32767, i32: 2 ** 31 - 1, i64: Number.MAX_SAFE_INTEGER },
  ...{ f16: 65504, bf16: 3.3895e38, f32: 3.4028e38, f64: Infinity },
};

function holds(dtype: DType, n: Num | undefined | null, otherwise: number): boolean {
  const value = n?.value ?? otherwise;
  if (n?.imaginary !== undefined) return false;
  if (n && n.kind !== "float") return Number.isSafeInteger(value) && Math.abs(value) <= LARGEST[dtype];
  return !(Number.isFinite(value) && Math.abs(value) > LARGEST[dtype]);
}

const MANY = 1 << 18;
const plainTypes = new Set(["u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "bf16"]);

export function broadcastShape(a: readonly number[], b: readonly number[]): number[] | null {
  const length = Math.max(a.length, b.length), shape = new Array<number>(length);
  for (let i = 1; i <= length; i++) {
    const x = a[a.length - i] ?? 1, y = b[b.length - i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return null;
    shape[length - i] = x === 1 ? y : x;
  }
  return shape;
}

function elementwise(tensors: readonly Tensor[]): readonly number[] | null {
  const [first] = tensors, dtype = first.dtype;
  if (!plainTypes.has(dtype)) return null;
  let shape: readonly number[] | null = first.shape;
  for (let i = 1; i < tensors.length; i++) {
    const t = tensors[i], type = t.dtype;
    if (type !== dtype && !(plainTypes.has(type) && t.shape.length === 0)) return null;
    if (t.device !== first.device && t.shape.length > 0) return null;
    const other = t.shape;
    if (same(shape, other)) continue;
    shape = broadcastShape(shape, other);
    if (shape === null) return null;
  }
  return shape;
}

function same(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Several elements share one place of memory. */
const repeats = (t: Tensor): boolean =>
  !t.contiguous && t.strides.some((stride, i) => stride === 0 && t.shape[i] > 1);

function overlap(a: Tensor, b: Tensor): boolean {
  const [from, to] = extent(a), [first, last] = extent(b);
  if (to <= first || last <= from) return false;
  return from !== first || !same(a.shape, b.shape) || !same(a.strides, b.strides);
}

function extent(t: Tensor): [bigint, bigint] {
  native.dataPointer(t.h, outAt);
  const from = out[0];
  if (t.contiguous) return [from, from + BigInt(t.byteLength)];
  const { shape, strides } = t;
  const last = shape.reduce((sum, size, i) => sum + (size - 1) * strides[i], 0);
  return [from, from + BigInt((last + 1) * dtypeBytes(t.dtype))];
}

/** a += alpha * b; null where another way must be taken. `a` is no leaf that requires a gradient. */
export function addInto(a: Tensor, b: Tensor, alpha?: Num): Tensor | null {
  const fn = bindInPlace(ADD);
  if (!fn || a.h === 0n || b.h === 0n || a.device !== "cpu") return null;
  const shape = elementwise([a, b]);
  if (shape === null || !same(shape, a.shape) || repeats(a) || overlap(a, b)) return null;
  if (!isFloating(a.dtype) && (isFloating(b.dtype) || alpha?.kind === "float")) return null;
  if (alpha && !holds(a.dtype, alpha, 1)) return null;
  if (a.numel > MANY) emptyLike(a).free(); // autograd may keep a copy
  fn(a.h, b.h, scalarAt(0, alpha, 1));
  tape.recorder?.op(SCHEMAS[ADD], [a, b, alpha?.value ?? 1], a);
  return a;
}

/** Gives another op of the table, which falls back to `otherwise`; null where there is none. */
export function unboxedInto(key: string, otherwise: Into | null): Into | null {
  if (!Object.hasOwn(functions, key)) return null;
  const { numbers } = functions[key as Key], fn = bindInPlace(key as Key);
  if (!fn || key === ADD) return null; // that one is called by addInto
  return ((target, ...given) => {
    const { dtype } = target;
    const plain = isFloating(dtype) && !repeats(target) && target.device === "cpu" &&
      numbers.every((n, i) => holds(dtype, given[i] as Num | undefined, n));
    if (!plain && otherwise) return otherwise(target, ...given);
    if (!plain) throw new NativeError(key, describe(target), "it can't be written to with these numbers");
    if (target.numel > MANY) emptyLike(target).free();
    fn(target.h, ...numbers.map((n, i) => scalarAt(i, given[i] as Num | undefined, n)));
    tape.recorder?.op(
      SCHEMAS[key as Key],
      [target, ...numbers.map((n, i) => (given[i] as Num | undefined)?.value ?? n)],
      target,
    );
    return target;
  });
}

export type Into = (target: Tensor, ...rest: unknown[]) => Tensor;
