// Compiles a schema to a typed function. Its source is written once per op, so that a call is straight-line
// code: no loop over arguments, no look-up, no allocation but the result.
import * as abi from "./abi.ts";
import { dtypeCode, dtypeName } from "./dtype.ts";
import { NativeError, UseAfterFree } from "./errors.ts";
import { type Argument, type Fn, type MemoryFormat, parseSchema, type Schema } from "./schema.ts";
import { DROPPING, dropping, tape } from "./tape.ts";
import { describe, type Device, Tensor } from "./tensor.ts";

/** Generated code uses these names. */
const runtime = {
  native: abi.native,
  version: { bits: 0n },
  stack: abi.callStack,
  f64: abi.stackF64,
  i64: abi.stackI64,
  i32: abi.stackI32,
  at: abi.slotPointers,
  out: abi.out,
  outAt: abi.outAt,
  box: abi.box,
  intList: abi.intList,
  floatList: abi.floatList,
  boolList: abi.boolList,
  newString: abi.newString,
  Tensor,
  tape,
  tensorList,
  gappedList,
  takeList,
  fail,
  misused,
  dtypeCode: (name: Parameters<typeof dtypeCode>[0]) => BigInt(dtypeCode(name)),
  deviceCode,
  formatCode: (name: MemoryFormat) => formats[name],
};

const formats: Record<MemoryFormat, bigint> = {
  contiguous: 0n,
  preserve: 1n,
  channels_last: 2n,
  channels_last_3d: 3n,
};

export function setAbiVersion(bits: bigint): void {
  runtime.version.bits = bits;
}

export function aten<const S extends string>(text: S): Fn<S> {
  return compile(parseSchema(text), "aten") as Fn<S>;
}

/** The schema is known only at run time. Throws where an argument or a result has no place on the stack. */
export function compile(schema: Schema, namespace: string): (...args: unknown[]) => unknown {
  const code = source(schema);
  const name = abi.constantString(`${namespace}::${schema.name}`);
  const overload = abi.constantString(schema.overload);
  const names = Object.keys(runtime);
  const make = new Function(...names, "name", "overload", "schema", code);
  const run = make(...Object.values(runtime), name.at, overload.at, schema);
  if (!DROPPING.has(schema.name)) return run;
  return (...args) => {
    const instead = dropping.instead?.get(schema.name);
    return instead ? instead(schema, run, args) : run(...args);
  };
}

function source(schema: Schema): string {
  const names = schema.args.map((a) => a.name);
  const params = schema.args.map((a) =>
    a.fallback === undefined ? a.name : `${a.name} = ${constant(a, a.fallback)}`
  );
  const tensors = schema.args.filter((a) => a.base === "Tensor" && !a.list);
  // A freed tensor has the handle 0n, and what is no tensor has none.
  const dead = tensors.map((a) => a.optional ? `${a.name} !== null && !${a.name}.h` : `!${a.name}?.h`);
  // Values that are encoded as they are need no check; V8 runs a call inside a try as fast as one without.
  const arguments_ = schema.args.map(encode).join("\n    ");
  const call = `native.call(name, overload, at[0], version.bits) !== 0`;
  return `return function aten_${schema.name}(${params.join(", ")}) {
    ${dead.length > 0 ? `if (${dead.join(" || ")}) misused(schema, [${names.join(", ")}]);` : ""}
    ${
    arguments_.length > 0
      ? `try { ${arguments_} } catch (error) { misused(schema, [${names.join(", ")}], error); }`
      : ""
  }
    if (${call}) fail(schema, [${names.join(", ")}]);
    ${result(schema)}
  };`;
}

/** None -> null, [1, 1] stays, Mean -> its number. */
function constant(a: Argument, text: string): string {
  if (text === "None") return "null";
  if (text === "True" || text === "False") return text.toLowerCase();
  if (text === "Mean") return "1";
  if (a.base === "str") return JSON.stringify(text.replaceAll(/^['"]|['"]$/g, ""));
  if (a.list && !text.startsWith("[")) {
    return `[${new Array(a.length || 1).fill(text).join(", ")}]`;
  }
  if (a.base === "ScalarType") return JSON.stringify(dtypeName(Number(text)));
  if (a.base === "MemoryFormat") {
    return JSON.stringify(
      /^\d$/.test(text) ? Object.keys(formats)[Number(text)] : text.replace("_format", ""),
    );
  }
  if (text === "inf" || text === "-inf") return text.replace("inf", "Infinity");
  return text;
}

function encode(a: Argument, slot: number): string {
  const target = `stack[${slot}]`;
  if (!a.optional) return a.list ? `${target} = ${listOf(a)};` : encodePlain(a, slot);
  if (a.base === "Generator" || a.base === "Layout") return `${target} = 0n;`; // always libtorch's own choice
  if (a.list) return `${target} = ${a.name} === null ? 0n : box(${listOf(a)});`;
  return `if (${a.name} === null) ${target} = 0n; else { ${
    encodePlain(a, slot)
  } ${target} = box(stack[${slot}]); }`;
}

function encodePlain(a: Argument, slot: number): string {
  switch (a.base) {
    case "Tensor":
      return `native.newHandle(${a.name}.h, at[${slot}]);`;
    case "float":
      return `f64[${slot}] = ${a.name};`;
    case "bool":
      return `stack[${slot}] = ${a.name} ? 1n : 0n;`;
    case "int":
      return `if ((${a.name} | 0) === ${a.name}) { i32[${2 * slot}] = ${a.name}; i32[${
        2 * slot + 1
      }] = ${a.name} >> 31; } else i64[${slot}] = BigInt(${a.name});`;
    case "str":
      return `stack[${slot}] = newString(${a.name});`;
    case "ScalarType":
      return `stack[${slot}] = dtypeCode(${a.name});`;
    case "Device":
      return `stack[${slot}] = deviceCode(${a.name});`;
    case "MemoryFormat":
      return `stack[${slot}] = formatCode(${a.name});`;
  }
  throw new Error(`internal: no encoding for ${a.base} ${a.name}.`);
}

function listOf(a: Argument): string {
  if (a.base === "Tensor") return `${a.gaps ? "gappedList" : "tensorList"}(${a.name}, schema)`;
  if (a.base === "int" || a.base === "float" || a.base === "bool") return `${a.base}List(${a.name})`;
  throw new Error(`internal: no encoding for a list of ${a.base}.`);
}

/** An op that writes to an argument gives back the caller's own tensor. */
function result({ args, returns }: Schema): string {
  const given = (argument: number) => argument >= 0 && !args[argument].list;
  const take = returns.map(({ base, list, argument }, i) => {
    if (base === "Tensor" && given(argument)) return args[argument].name;
    if (base === "Tensor") return list ? `takeList(stack[${i}])` : `new Tensor(stack[${i}])`;
    if (base === "float") return `f64[${i}]`;
    if (base === "bool") return `(i32[${2 * i}] & 0xff) !== 0`;
    if (base === "int" || base === "SymInt") return `Number(i64[${i}])`;
    throw new Error(`internal: no decoding for a result of type ${base}.`);
  });
  const again = returns.map(({ argument }, i) => given(argument) ? `native.deleteTensor(stack[${i}]); ` : "");
  const made = take.length === 0 ? "undefined" : take.length === 1 ? take[0] : `[${take.join(", ")}]`;
  return `${again.join("")}const made = ${made};
    ${tellingOf(args)}
    return made;`;
}

/** Generated code tells of its op while a step is recorded. */
export const tellingOf = (args: readonly Argument[]): string =>
  `if (tape.recorder !== null) tape.recorder.op(schema, [${args.map(({ name }) => name).join(", ")}], made);`;

function tensorList(tensors: readonly Tensor[], schema: Schema): bigint {
  const { native, out, outAt } = abi;
  for (const t of tensors) if (t.h === 0n) freed(schema);
  native.newList(BigInt(tensors.length), outAt);
  const list = out[0];
  for (let i = 0; i < tensors.length; i++) {
    native.newHandle(tensors[i].h, outAt);
    native.pushList(list, out[0]);
  }
  return list;
}

function gappedList(tensors: readonly (Tensor | null)[], schema: Schema): bigint {
  const { native, out, outAt } = abi;
  for (const t of tensors) if (t?.h === 0n) freed(schema);
  native.newList(BigInt(tensors.length), outAt);
  const list = out[0];
  for (const t of tensors) {
    if (t === null) native.pushList(list, 0n);
    else {
      native.newHandle(t.h, outAt);
      native.pushList(list, abi.box(out[0]));
    }
  }
  return list;
}

function takeList(list: bigint): Tensor[] {
  const { native, out, outAt } = abi;
  native.listSize(list, outAt);
  const tensors = new Array<Tensor>(Number(out[0]));
  for (let i = 0; i < tensors.length; i++) {
    native.listItem(list, BigInt(i), outAt);
    tensors[i] = new Tensor(out[0]);
  }
  native.deleteList(list);
  return tensors;
}

/**
 * "cpu" -> type 0, index -1 (unspecified); "cuda:3" -> type 1, index 3. The low half is the index, the high
 * half the type.
 */
function deviceCode(device: Device): bigint {
  if (device === "cpu") return 0xffffffffn;
  return (1n << 32n) | BigInt(device.slice("cuda:".length));
}

export function freed(schema: Schema): never {
  throw new UseAfterFree(schema.name);
}

function misused(schema: Schema, values: readonly unknown[], error?: unknown): never {
  if (error instanceof UseAfterFree) throw error;
  for (const [i, { base, list, name, optional }] of schema.args.entries()) {
    const value = values[i];
    if (base !== "Tensor" || list || (optional && value === null)) continue;
    if (!(value instanceof Tensor)) wrongArgument(schema, name, value);
    if (value.h === 0n) freed(schema);
  }
  const given = schema.args.map((argument, i) => ({ argument, value: values[i] }));
  const wrong = given.find(({ argument, value }) => !fits(argument, value)) ??
    given.find(({ argument, value }) => WORDS.includes(argument.base) && value !== null);
  if (!wrong) throw error;
  wrongArgument(schema, wrong.argument.name, wrong.value);
}

/** Only encoding shows whether one of these words is known. */
const WORDS = ["ScalarType", "Device", "MemoryFormat"];
const KINDS: Readonly<Record<string, string>> = { int: "number", float: "number", bool: "boolean" };

function fits({ base, list, optional }: Argument, value: unknown): boolean {
  if (value === null) return optional;
  if (list) {
    return Array.isArray(value) && value.every((each) => fits({ base, optional: true } as Argument, each));
  }
  if (base === "Tensor") return value instanceof Tensor;
  if (base === "int") return Number.isSafeInteger(value);
  const kind = typeof value;
  return kind === (KINDS[base] ?? "string");
}

function wrongArgument(schema: Schema, argument: string, value: unknown): never {
  const given = value instanceof Tensor
    ? "a tensor"
    : value === undefined
    ? "left out"
    : JSON.stringify(value) ?? String(value);
  throw new NativeError(schema.name, "", `${argument} is ${given}; its arguments are ${schema.text}`);
}

export function fail(schema: Schema, values: unknown[]): never {
  const reason = abi.firstLine(abi.errorText.read());
  const shown = schema.args.map((a, i) => [a.name, show(values[i])]).filter(([, v]) => v !== "");
  throw new NativeError(schema.name, shown.map((pair) => pair.join(" ")).join(", "), reason);
}

function show(value: unknown): string {
  if (value instanceof Tensor) return value.h === 0n ? "(freed)" : describe(value);
  if (Array.isArray(value)) {
    return value[0] instanceof Tensor ? `${value.length} tensors` : `[${value.join(", ")}]`;
  }
  return value === null || value === undefined ? "" : String(value);
}
