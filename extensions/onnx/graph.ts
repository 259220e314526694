// An ONNX graph while it is written: nodes, constants, and the names of what flows between them.
import { readBytes } from "../../ffi/make.ts";
import type { DType } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import {
  Batches,
  ProgramValue,
  type RecordedArgument,
  type RecordedModel,
  type RecordedSize,
} from "../../core/export/recorded.ts";

/** TensorProto.DataType. */
export const TENSOR_TYPES: Partial<Record<DType, number>> = {
  f32: 1,
  u8: 2,
  i8: 3,
  i16: 5,
  i32: 6,
  i64: 7,
  bool: 9,
  f16: 10,
  f64: 11,
  bf16: 16,
};

export type Attribute = number | string | readonly number[] | { readonly float: number };

export interface OnnxNode {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

export interface Constant {
  readonly name: string;
  readonly type: number;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

const INPUT = "input", OUTPUT = "output";

export class OnnxGraph {
  readonly nodes: OnnxNode[] = [];
  readonly constants: Constant[] = [];
  readonly #names = new Map<ProgramValue, string>();
  readonly #numbers = new Map<string, string>();
  #made = 0;
  #batch: string | null = null;

  constructor(readonly recorded: RecordedModel) {
    this.#names.set(recorded.input, INPUT);
  }

  /** A node with one result, whose name comes back. */
  node(type: string, inputs: readonly string[], attributes: Record<string, Attribute> = {}): string {
    return this.nodeOf(type, inputs, 1, attributes)[0];
  }
  nodeOf(
    type: string,
    inputs: readonly string[],
    results: number,
    attributes: Record<string, Attribute> = {},
  ): string[] {
    const outputs = Array.from({ length: results }, () => `v${++this.#made}`);
    this.nodes.push({ type, inputs, outputs, attributes });
    return outputs;
  }

  name(value: RecordedArgument | undefined): string {
    if (!(value instanceof ProgramValue)) throw new Error("internal: a tensor was expected.");
    let name = this.#names.get(value);
    if (name === undefined) this.#names.set(value, name = this.#constantOf(value));
    return name;
  }
  /** "" is an input that is left out. */
  optional = (value: RecordedArgument | undefined): string =>
    value instanceof ProgramValue ? this.name(value) : "";
  set(value: ProgramValue, name: string): void {
    this.#names.set(value, name);
  }

  #constantOf(value: ProgramValue): string {
    const { dtype, tensor, number, weight, shape } = value;
    if (number !== null) return dtype === "i64" ? this.int(number) : this.float(number);
    if (tensor === null) throw new Error("internal: a value is used before it is made.");
    const name = weight ?? `c${++this.#made}`, type = TENSOR_TYPES[dtype];
    if (type === undefined) throw unknownOp(`a constant of ${dtype}`);
    this.constants.push({ name, type, shape: shape as number[], bytes: readBytes(tensor) });
    return name;
  }

  /** A number without dimensions. */
  float = (value: number): string => this.#number(`f${value}`, 1, [], new Float32Array([value]));
  int = (value: number): string => this.#number(`i${value}`, 7, [], BigInt64Array.of(BigInt(value)));
  ints = (values: readonly number[]): string =>
    this.#number(
      `l${values.join()}`,
      7,
      [values.length],
      BigInt64Array.from(values, (value) => BigInt(value)),
    );
  #number(key: string, type: number, shape: readonly number[], data: Float32Array | BigInt64Array): string {
    let name = this.#numbers.get(key);
    if (name === undefined) {
      this.#numbers.set(key, name = `c${++this.#made}`);
      this.constants.push({ name, type, shape, bytes: new Uint8Array(data.buffer as ArrayBuffer) });
    }
    return name;
  }

  /** A list of sizes: a constant, or computed from the number of samples. */
  sizes(sizes: readonly RecordedSize[]): string {
    if (sizes.every((size) => typeof size === "number")) return this.ints(sizes);
    this.#batch ??= this.node("Shape", [INPUT], { start: 0, end: 1 });
    const batch = this.#batch;
    const parts = sizes.map((size) => {
      if (!(size instanceof Batches)) return this.ints([size]);
      return size.times === 1 ? batch : this.node("Mul", [batch, this.ints([size.times])]);
    });
    return parts.length === 1 ? parts[0] : this.node("Concat", parts, { axis: 0 });
  }

  /** Names the answer. */
  finish(): void {
    this.nodes.push({
      type: "Identity",
      inputs: [this.name(this.recorded.output)],
      outputs: [OUTPUT],
      attributes: {},
    });
  }
}

export const unknownOp = (op: string): UserError =>
  new UserError(
    "usage",
    `This model can't be written as ONNX: ${op} has no form there that is known here. Write OUT.pt2, which torch.export.load ` +
      "reads, or the weights to OUT.pt.",
  );
