// A .pt2 file: the archive that torch.export.save writes and torch.export.load reads, of a recorded model and its weights.
import { writeAtomically } from "../../base/atomic.ts";
import { toData } from "../../checkpoint/training_state.ts";
import { memoryStorage } from "../../checkpoint/value.ts";
import { zipWriter } from "../../checkpoint/zip_writer.ts";
import type { Model } from "../../models/model.ts";
import { openExported } from "../../models/exported/archive.ts";
import {
  Batches,
  type Op,
  ProgramValue,
  type RecordedArgument,
  type RecordedModel,
  type RecordedSize,
} from "../recorded.ts";
import type { Argument as Parameter } from "../../../ffi/schema.ts";
import type { DType } from "../../../ffi/dtype.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { MEMORY_FORMATS, SCALAR_TYPES } from "../../models/exported/graph.ts";

export function writePt2(path: string, model: Model, recorded: RecordedModel): void {
  const kept = [...weightsOf(model, recorded), ...constantsOf(recorded)];
  const entries = entriesOf(kept), program = programJson(recorded, kept);
  const needBytes = kept.reduce((sum, { tensor }) => sum + tensor.byteLength, 0);
  writeAtomically(path, (file) => {
    const zip = zipWriter(file);
    const text = (name: string, content: string) =>
      zip.add(`${ROOT}/${name}`, memoryStorage(new TextEncoder().encode(content)));
    for (const [place, tensor] of entries.tensors) zip.add(`${ROOT}/${place}`, toData(tensor).storage);
    text("data/weights/model_weights_config.json", JSON.stringify({ config: entries.weights }));
    text("data/constants/model_constants_config.json", JSON.stringify({ config: entries.constants }));
    text("models/model.json", JSON.stringify(program));
    text("data/sample_inputs/model.pt", "");
    text("archive_format", "pt2");
    text("archive_version", "0");
    text(".data/version", "6\n");
    text("byteorder", "little");
    zip.finish();
  }, { needBytes, check: (temporary) => openExported(temporary).close() });
}

const ROOT = "model";

/** The whole state dict: what forward does not use is there for load_state_dict. */
function weightsOf({ root }: Model, { ops }: RecordedModel): Kept[] {
  const used = new Map(
    valuesOf(ops).flatMap((value) => value.weight === null ? [] : [[value.weight, value]]),
  );
  const learnt = new Set(root.namedParameters().map(([, tensor]) => tensor));
  const kept = root.stateDict().map(([of, tensor]): Kept => {
    const kind = learnt.has(tensor) ? "parameter" : "buffer";
    return { name: `${kind[0]}_${of.replaceAll(".", "_")}`, of, kind, tensor, value: used.get(of) ?? null };
  });
  return [
    ...kept.filter(({ kind }) => kind === "parameter"),
    ...kept.filter(({ kind }) => kind === "buffer"),
  ];
}

function constantsOf({ ops }: RecordedModel): Kept[] {
  const constants = valuesOf(ops).filter(({ weight, tensor }) => weight === null && tensor !== null);
  return constants.map((value, i) => ({
    ...{ name: `c_constant_${i}`, of: `constant_${i}`, kind: "constant" },
    ...{ tensor: value.tensor!, value },
  }));
}

const valuesOf = (ops: RecordedModel["ops"]): ProgramValue[] => [
  ...new Set(ops.flatMap(({ args }) => args.flat(2).filter((arg) => arg instanceof ProgramValue))),
];

function entriesOf(kept: readonly Kept[]) {
  const tensors: [place: string, tensor: Tensor][] = [], places = new Map<Tensor, string>();
  const config = (all: readonly Kept[], folder: string, file: string): ProgramJson =>
    Object.fromEntries(all.map(({ of, kind, tensor }): [string, ProgramJson] => {
      let place = places.get(tensor); // tied weights share one
      if (place === undefined) {
        places.set(tensor, place = `${file}_${tensors.length}`);
        tensors.push([`data/${folder}/${place}`, tensor]);
      }
      const learns = kind === "parameter";
      return [of, {
        path_name: place,
        is_param: learns,
        use_pickle: false,
        tensor_meta: metaOf(tensor, learns),
      }];
    }));
  const weights = config(kept.filter(({ kind }) => kind !== "constant"), "weights", "weight");
  const constants = config(kept.filter(({ kind }) => kind === "constant"), "constants", "tensor");
  return { tensors, weights, constants };
}

// The graph of an exported program, as torch.export writes it in JSON: each recorded op is a node.

type ProgramJson = null | boolean | number | string | readonly ProgramJson[] | {
  readonly [key: string]: ProgramJson;
};

/** A tensor that the program keeps beside its graph. */
interface Kept {
  /** In the graph. */
  readonly name: string;
  /** In the state dict; or of the constant. */
  readonly of: string;
  readonly kind: "parameter" | "buffer" | "constant";
  readonly tensor: Tensor;
  /** Null where the graph does not use it. */
  readonly value: ProgramValue | null;
}

const BATCH = "Symbol('s0', positive=True, integer=True)";
const STRIDED = 7;

const code = <K extends string>(table: Readonly<Record<number, K>>, wanted: string): number =>
  Number(Object.entries(table).find(([, name]) => name === wanted)![0]);

const sizeOf = (size: RecordedSize): ProgramJson =>
  typeof size === "number" ? { as_int: size } : {
    as_expr: {
      expr_str: size.times === 1 ? BATCH : `Mul(Integer(${size.times}), ${BATCH})`,
      hint: { as_int: 2 * size.times },
    },
  };

/** Elements from one place of a dimension to the next, row by row. */
function stridesOf(shape: readonly RecordedSize[]): RecordedSize[] {
  const strides: RecordedSize[] = [];
  let times = 1, follows = false;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = follows ? new Batches(times) : times;
    const size = shape[i];
    times *= size instanceof Batches ? size.times : size;
    follows ||= size instanceof Batches;
  }
  return strides;
}

const metaOf = (
  { dtype, shape }: { readonly dtype: DType; readonly shape: readonly RecordedSize[] },
  learns = false,
): ProgramJson => ({
  dtype: code(SCALAR_TYPES, dtype),
  sizes: shape.map(sizeOf),
  requires_grad: learns,
  device: { type: "cpu", index: null },
  strides: stridesOf(shape).map(sizeOf),
  storage_offset: { as_int: 0 },
  layout: STRIDED,
});

const tensorNamed = (name: string): ProgramJson => ({ as_tensor: { name } });

/** Writes nodes and remembers what they name. */
class GraphWriter {
  readonly nodes: ProgramJson[] = [];
  readonly tensors: Record<string, ProgramJson> = {};
  readonly symbols: Record<string, ProgramJson> = {};
  readonly #names = new Map<ProgramValue, string>();
  readonly #taken = new Map<string, number>();
  #batch: string | null = null;

  constructor(readonly input: ProgramValue) {
    this.give(input, "input");
  }

  give(value: ProgramValue, name: string, learns = false): void {
    this.#names.set(value, name);
    this.tensors[name] = metaOf(value, learns);
  }
  nameOf = (value: ProgramValue): string => this.#names.get(value)!;

  /** view, view_1, view_2 */
  #fresh(name: string): string {
    const count = this.#taken.get(name) ?? 0;
    this.#taken.set(name, count + 1);
    return count === 0 ? name : `${name}_${count}`;
  }

  op({ schema, name, args, results }: Op): void {
    const inputs = schema.args.flatMap((parameter, i) => {
      const arg = this.#argument(parameter, args[i], results[0].dtype);
      return arg === null ? [] : [{ name: parameter.name, arg }];
    });
    const names = results.map((value) => {
      const own = this.#fresh(name);
      this.give(value, own);
      return own;
    });
    const list = schema.returns[0].list;
    this.#node(
      `torch.ops.aten.${name}.${schema.overload || "default"}`,
      inputs,
      list ? [{ as_tensors: names.map((name) => ({ name })) }] : names.map(tensorNamed),
      list ? this.#fresh(name) : names[0],
    );
  }

  #node(target: string, inputs: ProgramJson, outputs: ProgramJson, name: string): void {
    this.nodes.push({ target, inputs, outputs, metadata: {}, is_hop_single_tensor_return: null, name });
  }

  /** A number of samples, as a node's result. */
  #symbol({ times }: Batches): ProgramJson {
    this.#batch ??= this.#symbolNode("torch.ops.aten.sym_size.int", [
      { name: "self", arg: tensorNamed("input") },
      { name: "dim", arg: { as_int: 0 } },
    ], 1);
    if (times === 1) return { as_name: this.#batch };
    const inputs: ProgramJson = [{ name: "a", arg: { as_sym_int: { as_name: this.#batch } } }, {
      name: "b",
      arg: { as_int: times },
    }];
    return { as_name: this.#symbolNode("_operator.mul", inputs, times) };
  }
  #symbolNode(target: string, inputs: ProgramJson, times: number): string {
    const name = this.#fresh("samples");
    this.#node(target, inputs, [{ as_sym_int: { as_name: name } }], name);
    this.symbols[name] = sizeOf(new Batches(times));
    return name;
  }

  /** Null is left out, where the schema says what is meant by that. */
  #argument(
    { base, list, fallback }: Parameter,
    value: RecordedArgument | undefined,
    result: DType,
  ): ProgramJson {
    if (value === undefined || value === null) return fallback === undefined ? { as_none: true } : null;
    if (value instanceof ProgramValue) return tensorNamed(this.nameOf(value));
    if (value instanceof Batches) return { as_sym_int: this.#symbol(value) };
    if (list || Array.isArray(value)) {
      return this.#list(base, (Array.isArray(value) ? value : [value]) as RecordedArgument[]);
    }
    switch (base) {
      case "ScalarType":
        return { as_scalar_type: code(SCALAR_TYPES, String(value)) };
      case "MemoryFormat":
        return { as_memory_format: code(MEMORY_FORMATS, String(value)) };
      case "Device":
        return { as_device: { type: "cpu", index: null } };
      case "Layout":
        return { as_layout: STRIDED };
      case "str":
        return { as_string: String(value) };
      case "bool":
        return { as_bool: Boolean(value) };
      case "float":
        return { as_float: floatOf(value as number) };
      case "Scalar":
        return /^[fb]/.test(result) && result !== "bool"
          ? { as_float: floatOf(value as number) }
          : { as_int: value as number };
      default:
        return { as_int: value as number };
    }
  }

  #list(base: string, values: readonly RecordedArgument[]): ProgramJson {
    if (base === "Tensor") {
      return { as_tensors: values.map((value) => ({ name: this.nameOf(value as ProgramValue) })) };
    }
    if (base === "float") return { as_floats: values.map((value) => floatOf(value as number)) };
    if (base === "bool") return { as_bools: values.map(Boolean) };
    if (!values.some((value) => value instanceof Batches)) return { as_ints: values as readonly number[] };
    return {
      as_sym_ints: values.map((value) =>
        value instanceof Batches ? this.#symbol(value) : { as_int: value as number }
      ),
    };
  }
}

/** JSON has no infinities: torch.export writes them as texts. */
const floatOf = (value: number): ProgramJson =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";

/** All of models/model.json. */
function programJson({ ops, input, output }: RecordedModel, kept: readonly Kept[]): ProgramJson {
  const graph = new GraphWriter(input);
  for (const { name, value, kind, tensor } of kept) {
    if (value) graph.give(value, name, kind === "parameter");
    else graph.tensors[name] = metaOf(tensor, kind === "parameter");
  }
  for (const op of ops) graph.op(op);
  const answer = tensorNamed(graph.nameOf(output));
  return {
    graph_module: {
      graph: {
        inputs: [...kept.map(({ name }) => tensorNamed(name)), tensorNamed("input")],
        outputs: [answer],
        nodes: graph.nodes,
        tensor_values: graph.tensors,
        sym_int_values: graph.symbols,
        sym_bool_values: {},
        sym_float_values: {},
        custom_obj_values: {},
        is_single_tensor_return: false,
      },
      signature: {
        input_specs: [...kept.map(specOf), { user_input: { arg: tensorNamed("input") } }],
        output_specs: [{ user_output: { arg: answer } }],
      },
      module_call_graph: [{ fqn: "", signature: CALL }],
      metadata: {},
      treespec_namedtuple_fields: {},
    },
    opset_version: { aten: 10 },
    range_constraints: { s0: { min_val: 0, max_val: null } },
    schema_version: { major: 8, minor: 8 },
    verifiers: ["TRAINING"],
    torch_version: "2.10.0",
    guards_code: [],
  };
}

function specOf({ name, of, kind }: Kept): ProgramJson {
  const arg = { name };
  if (kind === "parameter") return { parameter: { arg, parameter_name: of } };
  if (kind === "buffer") return { buffer: { arg, buffer_name: of, persistent: true } };
  return { tensor_constant: { arg, tensor_constant_name: of } };
}

const LEAF = { type: null, context: null, children_spec: [] };
/** forward(input) gives one tensor. */
const CALL = {
  inputs: [],
  outputs: [],
  in_spec: JSON.stringify([1, {
    type: "builtins.tuple",
    context: "null",
    children_spec: [
      { type: "builtins.tuple", context: "null", children_spec: [LEAF] },
      { type: "builtins.dict", context: "[]", children_spec: [] },
    ],
  }]),
  out_spec: JSON.stringify([1, LEAF]),
  forward_arg_names: ["input"],
};
