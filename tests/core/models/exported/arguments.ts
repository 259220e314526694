// Programs of one operation each, with arguments that nobody would write: odd shapes, zero sizes, huge and negative numbers,
// types of all kinds, indices out of range and offsets that run backwards. Half are drawn from libtorch's schemas, half are
// honest nodes of exported programs with something changed. Run as a program of its own, a process for many cases:
//   arguments.ts FOLDER SEED FROM TO NOTE
// writes each case into NOTE before it is tried, and a line for each that ends in neither a result nor a sentence.
import { join } from "paths";
import { refusedName, refusedSchema } from "../../../../core/models/exported/admitted.ts";
import { checkOf } from "../../../../core/models/exported/arguments.ts";
import { SCALAR_TYPES } from "../../../../core/models/exported/graph.ts";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { forward } from "../../../../core/models/model.ts";
import { backward } from "../../../../ffi/autograd.ts";
import { setThreads } from "../../../../ffi/context.ts";
import { type DType, dtypeBytes, isFloating } from "../../../../ffi/dtype.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { operator } from "../../../../ffi/operators.ts";
import { randn, sum } from "../../../../ffi/ops.ts";
import type { Argument, Schema } from "../../../../ffi/schema.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { registered } from "../../../ffi/registry.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { dice, writeEntries } from "./fuzz.ts";
import { sourceOf } from "./storm.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
type Roll = (below: number) => number;

const LEAST = -(2n ** 63n);
const INTS = [
  -(2 ** 53) + 1,
  -(2 ** 31) - 1,
  -(2 ** 31),
  -1000,
  -7,
  -2,
  -1,
  0,
  1,
  2,
  3,
  7,
  8,
  33,
  1000,
  2 ** 31,
  2 ** 40,
  2 ** 53 - 1,
];
const FLOATS = [0, 1, -1, 0.5, -0.5, 2, 7, 1e-30, 1e30, 1e300, -1e300, "Infinity", "-Infinity", "NaN"];
const TEXTS = [
  "mean",
  "sum",
  "prod",
  "amax",
  "floor",
  "trunc",
  "tanh",
  "none",
  "ij",
  "ij,jk->ik",
  "ii->i",
  "constant",
  "reflect",
  "replicate",
  "circular",
  "bilinear",
  "left",
  "fro",
  "nuc",
  "",
];
const SIZES = [0, 1, 1, 2, 2, 3, 4, 5, 8];
const TYPES: readonly DType[] = [
  "f32",
  "f32",
  "f32",
  "f32",
  "i64",
  "i64",
  "i64",
  "i32",
  "bool",
  "f64",
  "f16",
  "bf16",
  "c64",
  "u8",
  "i8",
  "i16",
  "c128",
];

const MOST_VALUES = 200_000;

/** A tensor of the program, whose values are drawn with it. */
interface Drawn {
  readonly dtype: DType;
  readonly sizes: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** An honest node, and what is known of the tensors that it takes. */
interface Honest {
  readonly node: Any;
  readonly tensors: Readonly<Record<string, Any>>;
}

interface Op {
  readonly target: string;
  /** libtorch does not check all of its arguments. */
  readonly suspect: boolean;
  readonly schema: Schema;
}

class Case {
  readonly tensors: Drawn[] = [];
  readonly #base: number[];
  /** Indices are drawn below this. */
  readonly #limit: number;
  /** What is drawn from a schema has one type mostly: others are refused at the first look. */
  readonly #type: DType;
  readonly #wild: boolean;

  constructor(readonly roll: Roll) {
    this.#base = this.#sizes();
    this.#limit = 1 + roll(6);
    this.#type = this.pick(TYPES);
    this.#wild = roll(4) === 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.roll(list.length)];
  }

  #sizes = (): number[] =>
    Array.from({ length: this.pick([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5]) }, () => this.#size());
  #size = (): number => this.roll(60) === 0 ? 2000 : this.pick(SIZES);

  /** Alike often enough to come past the first check. */
  #shape(): number[] {
    const base = [...this.#base];
    const at = this.roll(Math.max(base.length, 1));
    switch (this.roll(16)) {
      case 0:
        base[at] = this.#size();
        return base;
      case 1:
        return base.slice(at);
      case 2:
        return base.slice(0, at + 1);
      case 3:
        return base.slice(at, at + 1);
      case 4:
        return this.#sizes();
      case 5:
        return [...base].reverse();
      default:
        return base;
    }
  }

  /** Its name in the program. */
  tensor(dtype: DType, drawn: readonly number[]): string {
    const sizes = [...drawn];
    while (sizes.reduce((all, n) => all * n, 1) > MOST_VALUES) sizes.pop();
    this.tensors.push({ dtype, sizes, bytes: this.#values(dtype, sizes.reduce((all, n) => all * n, 1)) });
    return `t${this.tensors.length - 1}`;
  }

  any(name: string): string {
    const whole = /^(ind|offsets|target$|at$|index|boundaries|lengths)/.test(name) && this.roll(5) > 0;
    const dtype = whole
      ? this.pick(["i64", "i64", "i64", "i32"] as const)
      : this.roll(5) > 0
      ? this.#type
      : this.pick(TYPES);
    return this.tensor(dtype, this.#shape());
  }

  #values(dtype: DType, count: number): Uint8Array<ArrayBuffer> {
    if (count === 0) return new Uint8Array();
    const bytes = new Uint8Array(count * dtypeBytes(dtype));
    const wild = this.roll(this.#wild ? 2 : 10) === 0, order = this.roll(4);
    if (!/^[iu]/.test(dtype)) this.#numbers(dtype, bytes, wild);
    else {
      const width = dtypeBytes(dtype), view = new DataView(bytes.buffer);
      let values = Array.from({ length: count }, () => BigInt(this.roll(this.#limit)));
      // Offsets that run forwards and backwards, from 0 on.
      if (order < 2) values = values.sort((a, b) => Number(order ? b - a : a - b)).with(0, 0n);
      const odd = [
        -1n,
        BigInt(this.#limit),
        -2n,
        1000n,
        2n ** 31n,
        -(2n ** 31n),
        LEAST,
        -LEAST - 1n,
        100_000n,
        -5n,
      ];
      if (wild && this.roll(3) === 0) values.fill(this.pick([-1n, LEAST, this.pick(odd)]));
      else if (wild) values[this.roll(count)] = this.pick(odd);
      values.forEach((value, i) => {
        for (let b = 0; b < width; b++) view.setUint8(i * width + b, Number((value >> BigInt(8 * b)) & 255n));
      });
    }
    return bytes;
  }

  #numbers(dtype: DType, bytes: Uint8Array<ArrayBuffer>, wild: boolean): void {
    if (dtype === "bool") return bytes.forEach((_, i) => bytes[i] = this.roll(2));
    const odd = wild ? [NaN, Infinity, -Infinity, 1e30, -1e30, 0, 1e-40] : [];
    const draw = () => odd.length > 0 && this.roll(3) === 0 ? this.pick(odd) : (this.roll(2001) - 1000) / 400;
    if (dtype === "f16") { // the bits of halves, where all are numbers
      const view = new Uint16Array(bytes.buffer);
      view.forEach((_, i) => view[i] = wild ? this.roll(65536) : 0x3000 + this.roll(0x1000));
    } else if (dtype === "bf16") {
      const view = new Uint16Array(bytes.buffer);
      view.forEach((_, i) => view[i] = wild ? this.roll(65536) : 0x3f00 + this.roll(0x100));
    } else {
      const view = /64$|128$/.test(dtype) && dtype !== "c64"
        ? new Float64Array(bytes.buffer)
        : new Float32Array(bytes.buffer);
      view.forEach((_, i) => view[i] = draw());
    }
  }

  int = (name: string): number => {
    if (this.roll(5) === 0) return this.pick(INTS);
    return /dim|axis/.test(name) ? this.roll(7) - 3 : this.roll(5);
  };

  #many = <T>(make: () => T, like = this.pick([0, 1, 1, 2, 2, 3, 3, 4])): T[] =>
    Array.from({ length: like }, make);

  value(a: Argument): Any {
    if (a.optional && this.roll(2) === 0) return { as_none: true };
    if (this.roll(60) === 0) {
      return this.pick<Any>([{ as_float: 0.5 }, { as_int: -1 }, { as_ints: Array(70).fill(1) }, {
        as_tensors: [],
      }, { as_bool: true }]);
    }
    const tensor = () => ({ name: this.any(a.name) });
    switch (a.base) {
      case "Tensor":
        if (a.gaps) {
          return {
            as_optional_tensors: this.#many(() => this.roll(4) ? { as_tensor: tensor() } : { as_none: true }),
          };
        }
        if (a.list) return { as_tensors: this.#many(tensor) };
        return this.roll(20) === 0 ? { as_int: this.int(a.name) } : { as_tensor: tensor() };
      case "int":
        return a.list ? { as_ints: this.#ints(a) } : { as_int: this.int(a.name) };
      case "float":
        return a.list ? { as_floats: this.#many(() => this.pick(FLOATS)) } : { as_float: this.pick(FLOATS) };
      case "Scalar":
        return this.roll(2) ? { as_float: this.pick(FLOATS) } : { as_int: this.int(a.name) };
      case "bool":
        return a.list ? { as_bools: this.#many(() => this.roll(2) === 1) } : { as_bool: this.roll(2) === 1 };
      case "str":
        return { as_string: this.pick(TEXTS) };
      case "ScalarType":
        return { as_scalar_type: Number(this.pick(Object.keys(SCALAR_TYPES))) };
      case "MemoryFormat":
        return { as_memory_format: this.roll(5) };
      case "Device":
        return { as_device: { type: "cpu", index: null } };
    }
    return { as_none: true };
  }

  #ints(a: Argument): number[] {
    if (/size|shape/.test(a.name) && this.roll(2)) return [...this.#base];
    const length = a.length > 0 && this.roll(4) > 0 ? a.length : this.pick([0, 1, 2, 3, 4]);
    return this.#many(() => this.int(a.name), length);
  }

  /** All that is not given has a default. */
  drawn({ schema, target }: Op): Any {
    const inputs = schema.args.flatMap((a) =>
      a.fallback === undefined || this.roll(2) ? [{ name: a.name, kind: 1, arg: this.value(a) }] : []
    );
    return { target, inputs };
  }

  /** One to three things of an honest node are changed; its tensors are drawn with its shapes and types. */
  changed({ node, tensors }: Honest, schema: Schema): Any {
    const mine = new Map<string, string>();
    const size = (json: Any): number => json.as_int ?? json.as_expr?.hint?.as_int ?? 4;
    const known = (name: string): string => {
      const meta = tensors[name];
      let own = mine.get(name);
      if (own === undefined) {
        const sizes = meta.sizes.map(size);
        if (this.roll(8) === 0) this.#bend(sizes);
        const dtype = this.roll(20) === 0 ? this.pick(TYPES) : SCALAR_TYPES[meta.dtype] ?? "f32";
        mine.set(name, own = this.tensor(dtype, sizes));
      }
      return own;
    };
    const inputs = node.inputs.map((input: Any) => ({
      ...input,
      arg: ours(structuredClone(input.arg), known),
    }));
    for (let i = this.roll(3); i > 0; i--) {
      const a = this.pick(schema.args), at = inputs.findIndex(({ name }: Any) => name === a?.name);
      if (!a) continue;
      if (a.base === "Tensor" && this.roll(3) > 0) continue; // Its values are drawn in any case.
      const list = at < 0 ? undefined : inputs[at].arg.as_ints;
      if (list?.length > 0 && this.roll(3) > 0) list[this.roll(list.length)] = this.int(a.name);
      else if (at >= 0) inputs[at].arg = this.value(a);
      else inputs.push({ name: a.name, kind: 1, arg: this.value(a) });
    }
    return { target: node.target, inputs };
  }

  #bend(sizes: number[]): void {
    const at = this.roll(sizes.length + 1);
    if (at === sizes.length) sizes.push(this.#size());
    else if (this.roll(4) === 0) sizes.splice(at, 1);
    else sizes[at] = this.#size();
  }
}

/** The names of tensors in an argument become ours, and symbols become numbers. */
function ours(arg: Any, known: (name: string) => string): Any {
  const [kind, value] = Object.entries(arg)[0] as [string, Any];
  const number = (item: Any) => item.as_int ?? 4;
  switch (kind) {
    case "as_tensor":
      return { as_tensor: { name: known(value.name) } };
    case "as_tensors":
      return { as_tensors: value.map(({ name }: Any) => ({ name: known(name) })) };
    case "as_optional_tensors":
      return {
        as_optional_tensors: value.map((item: Any) =>
          item.as_tensor ? { as_tensor: { name: known(item.as_tensor.name) } } : item
        ),
      };
    case "as_sym_int":
      return { as_int: number(value) };
    case "as_sym_ints":
      return { as_ints: value.map(number) };
    case "as_sym_float":
      return { as_float: 0.5 };
    case "as_sym_bool":
      return { as_bool: true };
  }
  return arg;
}

const CODES = Object.fromEntries(Object.entries(SCALAR_TYPES).map(([code, type]) => [type, Number(code)]));

const metaOf = (dtype: DType, sizes: readonly number[], learns: boolean): Any => ({
  dtype: CODES[dtype],
  sizes: sizes.map((n) => ({ as_int: n })),
  strides: sizes.map((_, i) => ({ as_int: sizes.slice(i + 1).reduce((all, n) => all * Math.max(n, 1), 1) })),
  storage_offset: { as_int: 0 },
  requires_grad: learns,
  device: { type: "cpu", index: null },
  layout: 7,
});

/** A program of this node alone, whose first result is what forward gives. */
function programOf(node: Any, schema: Schema, tensors: readonly Drawn[]): Map<string, Uint8Array> {
  const named = (name: string) => ({ as_tensor: { name } });
  const made = schema.returns.map(({ base, list }, i) =>
    base !== "Tensor"
      ? { as_sym_int: { as_name: `r${i}` } }
      : list
      ? { as_tensors: [{ name: `r${i}` }, { name: `r${i}b` }] }
      : named(`r${i}`)
  );
  const first = schema.returns.findIndex(({ base }) => base === "Tensor");
  const answer = named(`r${Math.max(first, 0)}`);
  const written = schema.args[0]?.memory === "written";
  // What learns is a parameter, so that there is a backward; what is written to can't be one.
  const learns = ({ dtype }: Drawn, i: number) => dtype === "f32" && !(written && i === 0);
  const metas = Object.fromEntries([
    ...tensors.map((t, i) => [`t${i}`, metaOf(t.dtype, t.sizes, learns(t, i))]),
    ["x", metaOf("f32", [2, 3], false)],
    ...schema.returns.flatMap((
      _,
      i,
    ) => [[`r${i}`, metaOf("f32", [2, 3], false)], [`r${i}b`, metaOf("f32", [2, 3], false)]]),
  ]);
  const json = {
    graph_module: {
      graph: {
        inputs: [...tensors.map((_, i) => named(`t${i}`)), named("x")],
        outputs: [answer],
        nodes: [{ ...node, outputs: made, metadata: {} }],
        tensor_values: metas,
        sym_int_values: {},
        sym_bool_values: {},
      },
      signature: {
        input_specs: [
          ...tensors.map((t, i) =>
            learns(t, i)
              ? { parameter: { arg: { name: `t${i}` }, parameter_name: `t${i}` } }
              : { buffer: { arg: { name: `t${i}` }, buffer_name: `t${i}`, persistent: true } }
          ),
          { user_input: { arg: named("x") } },
        ],
        output_specs: [{ user_output: { arg: answer } }],
      },
      module_call_graph: [],
    },
    opset_version: { aten: 10 },
    range_constraints: {},
    schema_version: { major: 8, minor: 8 },
    torch_version: "2.15.0",
  };
  const config = Object.fromEntries(
    tensors.map((
      t,
      i,
    ) => [`t${i}`, {
      path_name: `w${i}`,
      is_param: learns(t, i),
      use_pickle: false,
      tensor_meta: metaOf(t.dtype, t.sizes, learns(t, i)),
    }]),
  );
  const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  return new Map([
    ...tensors.map((t, i): [string, Uint8Array] => [`model/data/weights/w${i}`, t.bytes]),
    ["model/data/weights/model_weights_config.json", text({ config })],
    ["model/data/constants/model_constants_config.json", text({ config: {} })],
    ["model/models/model.json", text(json)],
    ["model/archive_format", new TextEncoder().encode("pt2")],
  ]);
}

/** The seed alone says what the case is. */
class Drawer {
  readonly #honest: { honest: Honest; op: Op }[] = [];
  readonly #ops: Op[];

  constructor(folder: string) {
    const admitted = registered().flatMap(({ namespace, name, overload }): Op[] => {
      if (refusedName(namespace, name, overload) !== "") return [];
      const op = operator(`aten::${name}`, overload);
      return op && op.call && refusedSchema(op.schema) === ""
        ? [{
          target: `torch.ops.aten.${name}.${overload || "default"}`,
          suspect: checkOf(op.schema) !== null,
          schema: op.schema,
        }]
        : [];
    });
    this.#ops = admitted.sort((a, b) => a.target < b.target ? -1 : 1);
    const byTarget = new Map(this.#ops.map((op) => [op.target, op]));
    const seen = new Map<string, Honest[]>();
    for (const { name } of [...Deno.readDirSync(folder)].sort((a, b) => a.name < b.name ? -1 : 1)) {
      if (!name.endsWith(".pt2")) continue;
      const { graph } = sourceOf(join(folder, name)).json.graph_module;
      for (const node of graph.nodes) {
        seen.set(node.target, [...seen.get(node.target) ?? [], { node, tensors: graph.tensor_values }]);
      }
    }
    for (const [target, nodes] of [...seen].sort(([a], [b]) => a < b ? -1 : 1)) {
      const op = byTarget.get(target);
      // An operation counts once, however often it was exported.
      if (op) this.#honest.push({ op, honest: nodes[0] }, { op, honest: nodes.at(-1)! });
    }
  }

  draw(seed: number): { entries: Map<string, Uint8Array>; told: string } {
    const one = new Case(dice(Math.imul(seed, 0x9e3779b1)));
    let op: Op, node: Any;
    // What needed a check once is drawn as often as all the others: a check may have a hole.
    const suspects = one.roll(2) === 0;
    if (one.roll(2) === 0) {
      const found = one.pick(suspects ? this.#honest.filter(({ op }) => op.suspect) : this.#honest);
      op = found.op;
      node = one.changed(found.honest, op.schema);
    } else {
      op = one.pick(suspects ? this.#ops.filter((each) => each.suspect) : this.#ops);
      node = one.drawn(op);
    }
    const tensors = one.tensors.map(({ dtype, sizes }) => `${dtype}[${sizes}]`).join(" ");
    return {
      entries: programOf(node, op.schema, one.tensors),
      told: `${op.target} ${JSON.stringify(node.inputs.map(({ name, arg }: Any) => [name, arg]))} ${tensors}`,
    };
  }
}

function once(path: string): void {
  const model = exportedModel(path);
  try {
    for (const training of [true, false]) {
      model.root.train(training);
      scope(() => {
        const y = forward(model, randn([2, 3])) as Tensor;
        if (training && isFloating(y.dtype)) backward(sum(y));
      });
    }
  } finally {
    model.root.free();
  }
}

function storm(folder: string, seed: number, from: number, to: number, note: string) {
  const drawer = new Drawer(folder), path = join(folder, "drawn.program");
  let ran = 0, refused = 0;
  const odd: string[] = [];
  for (let i = from; i < to; i++) {
    const { entries, told } = drawer.draw(seed + i);
    writeEntries(path, entries);
    Deno.writeTextFileSync(note, `${i} ${ran} ${refused} ${told}`);
    try {
      once(path);
      ran++;
    } catch (error) {
      if (Deno.env.has("HPCTRAIN_STORM_SAYS")) console.error(`${told}\n  ${error}`);
      if (error instanceof UserError || error instanceof NativeError) refused++;
      else odd.push(`seed ${seed + i}: ${told}: ${error instanceof Error ? error.stack : error}`);
    }
  }
  Deno.removeSync(path);
  return { ran, refused, odd };
}

if (import.meta.main) {
  const [folder, seed, from, to, note] = Deno.args;
  useLibtorch();
  setThreads(1);
  console.log(JSON.stringify(storm(folder, Number(seed), Number(from), Number(to), note)));
}
