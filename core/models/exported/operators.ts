// Resolves the operators that a graph names, and turns a graph's values into their arguments.
import { Num, numberLike, type Operator, operator } from "../../../ffi/operators.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import { refusedName, refusedSchema } from "./admitted.ts";
import { checkOf } from "./arguments.ts";
import type { Argument } from "../../../ffi/schema.ts";
import { graphMarkOf, type GraphValue } from "./graph.ts";

type ResolvedOperator =
  | { readonly kind: "op"; readonly op: Operator; readonly name: string }
  /** It takes its inputs in their order: numbers, or one tensor and numbers. */
  | { readonly kind: "numbers"; readonly run: (...args: never[]) => number }
  | { readonly kind: "nothing" }
  | { readonly kind: "missing"; readonly why: string };

/** These repeat what was true when the graph was exported: there is nothing to do. */
const CHECKS = new Set([
  "aten._assert_scalar",
  "aten._assert_tensor_metadata",
  "aten._assert_async",
  "aten.sym_constrain_range",
  "aten.sym_constrain_range_for_size",
  "aten._functional_sym_constrain_range",
]);

const SIZES: Readonly<Record<string, (t: Tensor, dim?: number) => number>> = {
  "aten.sym_size": (t, dim = 0) => t.shape.at(dim)!,
  "aten.sym_stride": (t, dim = 0) => t.strides.at(dim)!,
  "aten.sym_numel": (t) => t.numel,
  "aten.item": (t) => t.item(),
  "aten._local_scalar_dense": (t) => t.item(),
};

/** inline.ts takes these apart before anything is planned. */
const PUT_INLINE = new Set(["higher_order.wrap_with_set_grad_enabled", "higher_order.wrap_with_autocast"]);

const CONTROL = new Set(["cond", "map", "map_impl", "while_loop", "scan", "associative_scan"]);

/** The target is "torch.ops.aten.add.Tensor"; null for anything else. */
function partsOf(target: string): { namespace: string; name: string; overload: string } | null {
  const found = /^torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?$/.exec(target);
  if (!found) return null;
  const [, namespace, name, overload = "default"] = found;
  return { namespace, name, overload: overload === "default" ? "" : overload };
}

/** Returns "" where a graph may hold this node, whatever libtorch is loaded. */
export function refusedTarget(target: string): string {
  if (numberFunction(target) || graphMarkOf(target)) return "";
  const parts = partsOf(target);
  if (!parts) return "this is no operation on tensors that is known here";
  const { namespace, name, overload } = parts;
  const short = `${namespace}.${name}`;
  if (CHECKS.has(short) || Object.hasOwn(SIZES, short) || PUT_INLINE.has(short)) return "";
  if (namespace !== "higher_order") return refusedName(namespace, name, overload);
  return CONTROL.has(name)
    ? "control flow inside the graph is not supported: write it with torch.where, or as a fixed loop"
    : "an operation on whole functions is not supported: leave it out of forward";
}

export function resolveOperator(target: string): ResolvedOperator {
  const python = numberFunction(target);
  if (python) return { kind: "numbers", run: python };
  const parts = partsOf(target);
  const short = parts ? `${parts.namespace}.${parts.name}` : "";
  if (CHECKS.has(short)) return { kind: "nothing" };
  if (Object.hasOwn(SIZES, short)) return { kind: "numbers", run: SIZES[short] };
  const found = parts?.namespace === "aten" ? operator(`aten::${parts.name}`, parts.overload) : null;
  if (parts?.namespace === "aten" && found === null) {
    return { kind: "missing", why: "this libtorch has no such operation: a newer one may have it" };
  }
  const why = refusedTarget(target) || (found ? refusedSchema(found.schema) || found.reason : UNKNOWN);
  return found && parts && why === ""
    ? { kind: "op", op: checked(found), name: parts.name }
    : { kind: "missing", why };
}

function checked(op: Operator): Operator {
  const check = checkOf(op.schema);
  if (check === null) return op;
  const behind = (call: Operator["call"]): Operator["call"] =>
    call && ((...args) => {
      const why = check(...args as never[]);
      if (why !== "") throw new UnfitOperator(why);
      return call(...args);
    });
  return { ...op, call: behind(op.call), numbers: behind(op.numbers) };
}

const UNKNOWN = "an operation on whole functions is not supported: leave it out of forward";

export interface GraphFrame {
  readonly values: unknown[];
  device: Device;
  training: boolean;
  /** Forward runs once more for the same batch: buffers stay as they are. */
  again: boolean;
  /** Forward writes to copies of the buffers as the first pass found them. */
  copies: boolean;
  /** Evaluation draws for these samples, one behind the other in the batch; null draws on from anywhere. */
  judged: { readonly seed: number; readonly ids: Int32Array } | null;
}

type Getter = (frame: GraphFrame) => unknown;
export type ArgumentSource = { readonly fixed: unknown } | { readonly get: Getter; readonly slot?: number };

export class UnfitOperator extends Error {}

type SlotOf = (name: string) => number;

const fixed = (value: unknown): ArgumentSource => ({ fixed: value });
const fromSlot = (slot: number): ArgumentSource => ({ slot, get: (frame) => frame.values[slot] });

/** Evaluation turns these flags of schemas off. */
const FLAGS = new Set(["training", "train"]);

export function argumentSource(a: Argument, value: GraphValue | undefined, slotOf: SlotOf): ArgumentSource {
  if (value === undefined) {
    if (a.fallback === undefined) throw new UnfitOperator(`its argument ${a.name} is missing`);
    return fixed(undefined);
  }
  if (value.kind === "none") {
    if (!a.optional && a.base !== "Generator") {
      throw new UnfitOperator(`its argument ${a.name} can't be None`);
    }
    return fixed(null);
  }
  if (value.kind === "device") return { get: (frame) => frame.device };
  if (a.base === "Layout" || a.base === "Generator") {
    if (value.kind === "layout" && !value.strided) {
      throw new UnfitOperator("sparse layouts are not supported");
    }
    return fixed(null);
  }
  return a.list ? listSource(a, value, slotOf) : plainSource(a, value, slotOf);
}

function plainSource(a: Argument, value: GraphValue, slotOf: SlotOf): ArgumentSource {
  switch (a.base) {
    case "Tensor":
      if (value.kind === "tensor") return fromSlot(slotOf(value.name));
      return numberSource(value, slotOf);
    case "Scalar":
      return numberSource(value, slotOf);
    case "int":
    case "float":
      if (value.kind === "symbol") return fromSlot(slotOf(value.name));
      if (value.kind !== "number") break;
      return a.name === "dropout_p"
        ? { get: (frame) => frame.training ? value.value : 0 }
        : fixed(value.value);
    case "bool":
      if (value.kind !== "number") break;
      return FLAGS.has(a.name) && value.value !== 0
        ? { get: (frame) => frame.training }
        : fixed(value.value !== 0);
    case "str":
      if (value.kind === "text") return fixed(value.value);
      break;
    case "ScalarType":
      if (value.kind === "dtype" && value.value !== null) return fixed(value.value);
      throw new UnfitOperator("it makes tensors of a type that is not supported");
    case "MemoryFormat":
      if (value.kind === "format" && value.value !== null) return fixed(value.value);
  }
  throw new UnfitOperator(`its argument ${a.name} is ${describeArgument(value)}, and ${a.base} is expected`);
}

function numberSource(value: GraphValue, slotOf: SlotOf): ArgumentSource {
  if (value.kind === "number") return fixed(new Num(value.value, value.as, value.imaginary));
  if (value.kind !== "symbol") {
    throw new UnfitOperator(`${describeArgument(value)} stands where a number is expected`);
  }
  const slot = slotOf(value.name), { as } = value;
  return { get: (frame) => new Num(frame.values[slot] as number, as) };
}

function listSource(a: Argument, value: GraphValue, slotOf: SlotOf): ArgumentSource {
  if (a.base === "Tensor" && value.kind === "tensors") {
    const slots = value.names.map((name) => name === null ? -1 : slotOf(name));
    return { get: ({ values }) => slots.map((slot) => slot < 0 ? null : values[slot]) };
  }
  if (value.kind === "number" && a.base !== "Tensor") {
    const one = a.base === "bool" ? value.value !== 0 : value.value;
    return fixed(new Array(a.length || 1).fill(one));
  }
  if (value.kind !== "numbers") {
    throw new UnfitOperator(`its argument ${a.name} is ${describeArgument(value)}, and a list is expected`);
  }
  const numbers = value.values;
  if (numbers.every((n) => typeof n === "number")) {
    return fixed(a.base === "bool" ? numbers.map((n) => n !== 0) : numbers);
  }
  const parts = numbers.map((n) => typeof n === "string" ? { slot: slotOf(n), n: 0 } : { slot: -1, n });
  return { get: ({ values }) => parts.map(({ slot, n }) => slot < 0 ? n : values[slot]) };
}

/**
 * Some ops take no number in place of a tensor: a 0-dim tensor stands for it, like the one in slot `first`.
 */
export function asTensor(source: ArgumentSource, first: number): ArgumentSource {
  if (!("fixed" in source) || !(source.fixed instanceof Num)) return source;
  const n = source.fixed;
  if (first < 0) throw new UnfitOperator("it has only numbers where tensors are expected");
  return {
    get: ({ values }) => {
      const like = values[first] as Tensor;
      return numberLike(n, like, like.device);
    },
  };
}

function describeArgument(value: GraphValue): string {
  switch (value.kind) {
    case "none":
      return "None";
    case "number":
    case "symbol":
      return "a number";
    case "numbers":
      return "a list of numbers";
    case "graph":
      return "a graph of its own";
    case "other":
      return value.what;
    case "text":
      return "a text";
    default:
      return `a ${value.kind}`;
  }
}

type Numbers = (...args: number[]) => number;

const floorDiv: Numbers = (a, b) => Math.floor(a / b);
const mod: Numbers = (a, b) => a - b * Math.floor(a / b);

const FUNCTIONS: Readonly<Record<string, Numbers>> = {
  "_operator.add": (a, b) => a + b,
  "_operator.sub": (a, b) => a - b,
  "_operator.mul": (a, b) => a * b,
  "_operator.floordiv": floorDiv,
  "_operator.truediv": (a, b) => a / b,
  "_operator.mod": mod,
  "_operator.pow": (a, b) => a ** b,
  "_operator.neg": (a) => -a,
  "_operator.pos": (a) => a,
  "_operator.eq": (a, b) => Number(a === b),
  "_operator.ne": (a, b) => Number(a !== b),
  "_operator.le": (a, b) => Number(a <= b),
  "_operator.ge": (a, b) => Number(a >= b),
  "_operator.lt": (a, b) => Number(a < b),
  "_operator.gt": (a, b) => Number(a > b),
  "_operator.and_": (a, b) => a & b,
  "_operator.or_": (a, b) => a | b,
  "_operator.lshift": (a, b) => a * 2 ** b,
  "_operator.rshift": (a, b) => Math.floor(a / 2 ** b),
  "math.trunc": Math.trunc,
  "math.ceil": Math.ceil,
  "math.floor": Math.floor,
  "torch.sym_int": Math.trunc,
  "torch.sym_float": (a) => a,
  "torch.sym_max": Math.max,
  "torch.sym_min": Math.min,
  "torch.sym_sqrt": Math.sqrt,
  "torch._sym_sqrt": Math.sqrt,
  "torch.sym_not": (a) => Number(!a),
  "torch.sym_ite": (c, a, b) => c ? a : b,
};

export function numberFunction(target: string): Numbers | null {
  const name = target.replace(/^operator\./, "_operator.");
  return Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : null;
}

/**
 * The expression is "2*s77", or in later versions "Mul(Integer(2), Symbol('s77', positive=True,
 * integer=True))". Null means that it has to be computed.
 */
export function symbolIn(expression: string): { symbol: string; times: number } | null {
  const plain = expression.replaceAll(/Symbol\('(\w+)'[^()]*\)/g, "$1")
    .replace(/^Mul\(Integer\((\d+)\), (\w+)\)$/, "$1*$2");
  const found = /^(?:(\d+)\*)?([a-z_]\w*)$/i.exec(plain);
  return found && { symbol: found[2], times: Number(found[1] ?? 1) };
}
