// Programs of torch.export with something changed that a parser can't see: an operation, what it is given, which tensor
// is a parameter, how a weight lies in memory. Run as a program of its own, a process for many cases:
//   storm.ts FOLDER NAMES SEED FROM TO NOTE
// writes each case's number into NOTE before it is tried, and a line for each that ends in neither a result nor a sentence.
import { join } from "paths";
import { refusedName } from "../../../../core/models/exported/admitted.ts";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { forward } from "../../../../core/models/model.ts";
import { backward } from "../../../../ffi/autograd.ts";
import { operator } from "../../../../ffi/operators.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { randn, sum } from "../../../../ffi/ops.ts";
import type { Argument } from "../../../../ffi/schema.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { type Registered, registered } from "../../../ffi/registry.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { dice, entriesOf, writeEntries } from "./fuzz.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
type Roll = (below: number) => number;

const INTS = [
  -(2 ** 53) + 1,
  -(2 ** 31) - 1,
  -100,
  -2,
  -1,
  0,
  1,
  2,
  3,
  5,
  64,
  1000,
  2 ** 31,
  2 ** 40,
  2 ** 53 - 1,
];
const FLOATS = [0, 1, -1, 0.5, 1e-30, 1e30, 1e300, -1e300, "Infinity", "-Infinity", "NaN"];
/** Files that are there, and files that are not. */
const TEXTS = ["made.bin", "kept.bin", "/proc/self/mem", "floor", "sum", "ij,jk->ik", "reflect", ""];

/** All that a changed program is made with. */
interface Source {
  readonly entries: Map<string, Uint8Array>;
  readonly graphKey: string;
  readonly weightsKey: string;
  readonly json: Any;
  readonly weights: Any;
}

export function sourceOf(path: string): Source {
  const entries = entriesOf(path), keys = [...entries.keys()];
  const graphKey = keys.find((key) => /models\/[^/]+\.json$/.test(key))!;
  const weightsKey = keys.find((key) => /weights_config\.json$/.test(key))!;
  const parsed = (key: string) => JSON.parse(new TextDecoder().decode(entries.get(key)));
  return { entries, graphKey, weightsKey, json: parsed(graphKey), weights: parsed(weightsKey) };
}

export class Changer {
  constructor(
    readonly source: Source,
    readonly roll: Roll,
    readonly all: readonly Registered[],
    readonly admitted: readonly Registered[],
  ) {}

  /** One to three changes; the entries of the changed program, and what was done. */
  make(): { entries: Map<string, Uint8Array>; told: string } {
    const json = structuredClone(this.source.json), weights = structuredClone(this.source.weights);
    const ways = [
      () => this.#operation(json),
      () => this.#operation(json),
      () => this.#argument(json),
      () => this.#argument(json),
      () => this.#argument(json),
      () => this.#inserted(json),
      () => this.#inserted(json),
      () => this.#meta(json),
      () => this.#alias(json),
      () => this.#inPlace(json),
      () => this.#signature(json),
      () => this.#order(json),
      () => this.#weight(weights),
    ];
    const told = Array.from({ length: Math.max(1, this.roll(4)) }, () => this.#pick(ways)());
    const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
    const { entries, graphKey, weightsKey } = this.source;
    return {
      entries: new Map([...entries, [graphKey, text(json)], [weightsKey, text(weights)]]),
      told: told.join("; "),
    };
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.roll(list.length)];
  }

  /** Mostly one that a graph may hold: the others are refused before they could do anything. */
  #any = (): Registered => this.#pick(this.roll(6) > 0 ? this.admitted : this.all);

  #node(json: Any): Any {
    return this.#pick(json.graph_module.graph.nodes);
  }

  #names(json: Any): string[] {
    return Object.keys(json.graph_module.graph.tensor_values);
  }

  /** Another operation with the arguments that are there, under the names it has for them. */
  #operation(json: Any): string {
    const node = this.#node(json), { namespace, name, overload } = this.#any();
    node.target = `torch.ops.${namespace}.${name}.${overload || "default"}`;
    const args = operator(`${namespace}::${name}`, overload)?.schema.args ?? [];
    node.inputs = node.inputs.slice(0, args.length).map((input: Any, i: number) => ({
      ...input,
      name: args[i].name,
    }));
    for (const a of args.slice(node.inputs.length)) {
      if (a.fallback === undefined) node.inputs.push(this.#given(a, json));
    }
    return node.target;
  }

  /** An operation somewhere with arguments of the kinds that it takes. */
  #inserted(json: Any): string {
    const { namespace, name, overload } = this.#any();
    const schema = operator(`${namespace}::${name}`, overload)?.schema;
    const target = `torch.ops.${namespace}.${name}.${overload || "default"}`;
    const { nodes, tensor_values: values } = json.graph_module.graph;
    const inputs = (schema?.args ?? []).flatMap((a) =>
      a.fallback === undefined || this.roll(2) ? [this.#given(a, json)] : []
    );
    const made = `inserted_${this.roll(1000)}`;
    values[made] = this.#pick(Object.values(values));
    const at = this.roll(nodes.length + 1);
    nodes.splice(at, 0, { target, inputs, outputs: [{ as_tensor: { name: made } }], metadata: {} });
    // What is made is used: in place of an argument behind it.
    const behind = nodes.slice(at + 1).flatMap((node: Any) => node.inputs).filter((i: Any) =>
      i.arg.as_tensor
    );
    if (behind.length > 0) this.#pick<Any>(behind).arg = { as_tensor: { name: made } };
    return `${target} put in`;
  }

  #given(a: Argument, json: Any): Any {
    return { name: a.name, kind: 1, arg: this.#value(a, json) };
  }

  #value(a: Argument, json: Any): Any {
    const tensor = () => ({ name: this.#pick(this.#names(json)) });
    const many = <T>(make: () => T): T[] => Array.from({ length: this.roll(4) }, make);
    if (a.optional && this.roll(3) === 0) return { as_none: true };
    switch (a.base) {
      case "Tensor":
        if (a.gaps) return { as_optional_tensors: many(() => ({ as_tensor: tensor() })) };
        return a.list ? { as_tensors: many(tensor) } : { as_tensor: tensor() };
      case "int":
        return a.list ? { as_ints: many(() => this.#int()) } : { as_int: this.#int() };
      case "float":
        return a.list ? { as_floats: many(() => this.#pick(FLOATS)) } : { as_float: this.#pick(FLOATS) };
      case "Scalar":
        return this.roll(2) ? { as_float: this.#pick(FLOATS) } : { as_int: this.#int() };
      case "bool":
        return a.list ? { as_bools: many(() => this.roll(2) === 1) } : { as_bool: this.roll(2) === 1 };
      case "str":
        return { as_string: this.#pick(TEXTS) };
      case "ScalarType":
        return { as_scalar_type: this.roll(16) };
      case "MemoryFormat":
        return { as_memory_format: this.roll(5) };
      case "Device":
        return { as_device: { type: this.#pick(["cpu", "cuda", "meta"]), index: this.roll(9) } };
    }
    return { as_int: this.#int() };
  }

  #int = (): number => this.roll(3) === 0 ? this.#pick(INTS) : this.roll(5);

  #argument(json: Any): string {
    const node = this.#node(json);
    if (node.inputs.length === 0) return "nothing";
    const input = this.#pick<Any>(node.inputs);
    const [kind, value] = Object.entries(input.arg)[0] as [string, Any];
    if (kind === "as_tensor" && this.roll(8) > 0) {
      input.arg = { as_tensor: { name: this.#pick(this.#names(json)) } };
    } else if (kind === "as_int") input.arg = { as_int: this.#int() };
    else if (kind === "as_ints" && this.roll(3) > 0 && value.length > 0) {
      value[this.roll(value.length)] = this.#int();
    } else if (kind === "as_ints") input.arg = { as_ints: [...value, this.#int()] };
    else if (kind === "as_float") input.arg = { as_float: this.#pick(FLOATS) };
    else if (kind === "as_bool") input.arg = { as_bool: !value };
    else if (kind === "as_scalar_type") input.arg = { as_scalar_type: this.roll(36) };
    else if (kind === "as_tensors") input.arg = { as_tensors: value.slice(this.roll(value.length + 1)) };
    else {
      input.arg = this.#pick<Any>([
        { as_none: true },
        { as_int: this.#int() },
        { as_float: this.#pick(FLOATS) },
        { as_string: this.#pick(TEXTS) },
        { as_tensors: [] },
        { as_ints: [] },
        { as_device: { type: "cpu" } },
        { as_sym_int: { as_name: "nowhere" } },
        { as_custom_obj: { name: "x", class_fqn: "y" } },
      ]);
    }
    return `${input.name} of ${node.target}`;
  }

  #meta(json: Any): string {
    const values = json.graph_module.graph.tensor_values, name = this.#pick(Object.keys(values));
    const meta = values[name] = structuredClone(values[name]);
    const list = this.#pick<Any[]>([meta.sizes, meta.strides]);
    const way = this.roll(4);
    if (way === 0) meta.dtype = this.roll(36);
    else if (way === 1) meta.requires_grad = !meta.requires_grad;
    else if (list.length > 0 && this.roll(3) > 0) list[this.roll(list.length)] = { as_int: this.#int() };
    else list.push({ as_int: this.#int() });
    return `what is said of ${name}`;
  }

  /** A result under the name of something that is there. */
  #alias(json: Any): string {
    const node = this.#node(json), output = node.outputs[0];
    if (!output?.as_tensor) return "nothing";
    output.as_tensor = { name: this.#pick(this.#names(json)) };
    return `${node.target} gives ${output.as_tensor.name}`;
  }

  /** An operation that writes to what it is given, which may be a parameter, an input, a view of either. */
  #inPlace(json: Any): string {
    const nodes = json.graph_module.graph.nodes.filter(({ target }: Any) => {
      const found = /^torch\.ops\.aten\.(\w+)\.(\w+)$/.exec(target);
      return found && operator(`aten::${found[1]}_`, found[2] === "default" ? "" : found[2]) !== null;
    });
    if (nodes.length === 0) return "nothing";
    const node = this.#pick<Any>(nodes);
    node.target = node.target.replace(/^(torch\.ops\.aten\.\w+)\./, "$1_.");
    if (this.roll(2) && node.inputs[0]?.arg.as_tensor) {
      node.inputs[0].arg.as_tensor = { name: this.#pick(this.#names(json)) };
    }
    return node.target;
  }

  #signature(json: Any): string {
    const { input_specs: inputs, output_specs: outputs } = json.graph_module.signature;
    const list = this.#pick<Any[]>([inputs, inputs, outputs]);
    const at = this.roll(list.length), other = this.roll(list.length);
    switch (this.roll(4)) {
      case 0:
        list.splice(at, 1);
        break;
      case 1:
        [list[at], list[other]] = [list[other], list[at]];
        break;
      case 2:
        list.push(structuredClone(list[at]));
        break;
      default: {
        const [, spec] = Object.entries(inputs[this.roll(inputs.length)])[0] as [string, Any];
        const { arg } = spec, of = spec.parameter_name ?? spec.buffer_name ?? "seen";
        list[at] = list === outputs ? { buffer_mutation: { arg, buffer_name: of } } : this.#pick<Any>([
          { buffer: { arg, buffer_name: of, persistent: true } },
          { parameter: { arg, parameter_name: of } },
          { user_input: { arg: { as_tensor: arg } } },
          { tensor_constant: { arg, tensor_constant_name: of } },
        ]);
      }
    }
    return "the signature";
  }

  #order(json: Any): string {
    const { nodes } = json.graph_module.graph, at = this.roll(nodes.length), other = this.roll(nodes.length);
    if (this.roll(3) === 0) nodes.splice(at, 1);
    else if (this.roll(2)) nodes.splice(other, 0, structuredClone(nodes[at]));
    else [nodes[at], nodes[other]] = [nodes[other], nodes[at]];
    return "the order";
  }

  /** How a weight lies in its file: larger than that, outside of it, over itself. */
  #weight({ config }: Any): string {
    const names = Object.keys(config);
    if (names.length === 0) return "nothing";
    const name = this.#pick(names), meta = config[name].tensor_meta;
    const list = this.#pick<Any[]>([meta.sizes, meta.strides]);
    const way = this.roll(5);
    if (way === 0) meta.storage_offset = { as_int: this.#int() };
    else if (way === 1) meta.dtype = this.roll(16);
    else if (way === 2) config[name].path_name = config[this.#pick(names)].path_name;
    else if (list.length > 0) list[this.roll(list.length)] = { as_int: this.#int() };
    else list.push({ as_int: this.#int() });
    return `the weight ${name}`;
  }
}

interface Outcome {
  readonly ran: number;
  readonly refused: number;
  readonly odd: readonly string[];
}

/** Cases from..to: each is run forward and backward twice, in training and in evaluation, as far as it comes. */
function storm(
  folder: string,
  names: readonly string[],
  seed: number,
  from: number,
  to: number,
  note: string,
) {
  const all = registered(),
    sources = new Map(names.map((name) => [name, sourceOf(join(folder, `${name}.pt2`))]));
  const admitted = all.filter(({ namespace, name, overload }) =>
    refusedName(namespace, name, overload) === ""
  );
  const path = join(folder, `changed_${seed}.pt2`);
  const shapes: Record<string, number[][]> = JSON.parse(Deno.readTextFileSync(join(folder, "shapes.json")));
  let ran = 0, refused = 0;
  const odd: string[] = [];
  for (let i = from; i < to; i++) {
    const name = names[i % names.length];
    const { entries, told } = new Changer(
      sources.get(name)!,
      dice(Math.imul(seed * 1_000_003 + i, 0x9e3779b1)),
      all,
      admitted,
    ).make();
    writeEntries(path, entries);
    Deno.writeTextFileSync(note, `${i} ${name}: ${told}`);
    try {
      once(path, shapes[name]);
      ran++;
    } catch (error) {
      // Backward's faults are told by the trainer, as those of any model.
      if (error instanceof UserError || error instanceof NativeError) refused++;
      else odd.push(`case ${i}, ${name}: ${told}: ${error instanceof Error ? error.stack : error}`);
    }
  }
  Deno.removeSync(path);
  return { ran, refused, odd } satisfies Outcome;
}

function once(path: string, shapes: readonly number[][]): void {
  const model = exportedModel(path);
  try {
    for (const training of [true, false]) {
      model.root.train(training);
      scope(() => {
        const inputs = shapes.slice(0, model.inputs.length).map((shape) => randn(shape));
        const y = forward(model, inputs.length === 1 ? inputs[0] : inputs) as Tensor;
        const result = model.loss && shapes.length > 1 ? model.loss.apply(y, randn(shapes[1])) : y;
        if (training) backward(sum(result));
      });
    }
  } finally {
    model.root.free();
  }
}

if (import.meta.main) {
  const [folder, names, seed, from, to, note] = Deno.args;
  useLibtorch();
  const outcome = storm(folder, names.split(","), Number(seed), Number(from), Number(to), note);
  console.log(JSON.stringify(outcome));
}
