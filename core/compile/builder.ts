// Builds a graph value by value: infers shapes, gives equal values one number, computes what is constant, and leaves
// out what changes nothing.
import {
  hasGradients,
  type Kind,
  nameOfCall,
  type Node,
  POINTWISE,
  type Pointwise,
  type Ref,
  type TensorOrigin,
} from "./graph.ts";
import { rowMajor } from "./access.ts";
import { fold } from "./fold.ts";
import { followsImage, IMAGES, lastStrides, liesLast, orderOf, viewed } from "./strides.ts";
import { turnedGelu } from "./turned_gelu.ts";

export type Shape = readonly number[];

export const numelOf = (shape: Shape): number => shape.reduce((product, size) => product * size, 1);

export const sameShape = (a: Shape, b: Shape): boolean =>
  a === b || a.length === b.length && a.every((size, i) => size === b[i]);

/** As NumPy does. */
export function broadcastShapes(shapes: readonly Shape[]): Shape {
  const first = shapes[0] ?? [];
  if (shapes.every((shape) => sameShape(shape, first))) return first;
  const rank = Math.max(0, ...shapes.map(({ length }) => length));
  return Array.from({ length: rank }, (_, i) => {
    const sizes = shapes.map((shape) => shape[i - rank + shape.length] ?? 1);
    const size = sizes.find((one) => one !== 1) ?? 1;
    if (sizes.some((one) => one !== 1 && one !== size)) {
      throw new Error(`internal: shapes [${shapes.join("], [")}] don't go together.`);
    }
    return size;
  });
}

const TRUTHS: ReadonlySet<string> = new Set(["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"]);
/** Calls that work number by number. */
const EACH_BY_ITSELF = /^(gelu|silu|mish|hardswish|hardsigmoid|softplus)(_backward)?\(/;
/** There is one of each. */
const ONCE: ReadonlySet<string> = new Set(["tensor", "number", "result"]);
/** Images [n, c, h, w], which may lie otherwise. */
const IMAGE = 4;
const EITHER_WAY: ReadonlySet<string> = new Set(["add", "mul", "max", "min", "and", "or", "eq", "ne"]);

/**
 * `exact`: sums stay as they are, since another one has other bits. `faithful`: every op gives a value of its own, too, as
 * libtorch's ops do, since gradients of a value are added up in the order of its uses.
 */
type Way = "free" | "exact" | "faithful";

export class Builder {
  readonly nodes: Node[] = [];
  readonly #known = new Map<string, Ref>();
  /**
   * Views here, and copies in libtorch, in which the numbers lie side by side: what is stretched behind an op, cropped, or has a
   * shape that no view of it has.
   */
  readonly #stretched = new Set<Ref>();

  readonly #knownStrides: (readonly number[])[] = [];
  /** True for a value that a gradient may go back through. */
  readonly #learns: boolean[] = [];
  /** False where no gradient goes back through what is added from now on. */
  learning = true;

  /** `imagesLast`: as the input's images lie. */
  constructor(readonly way: Way = "free", public imagesLast = false) {}

  node(r: Ref): Node {
    return this.nodes[r];
  }
  shape(r: Ref): Shape {
    return this.nodes[r].shape;
  }
  kind(r: Ref): Kind {
    return this.nodes[r].kind;
  }
  /** The number that this value is everywhere, or null. */
  numberOf(r: Ref): number | null {
    const node = this.nodes[r];
    if (node.op === "number") return node.value;
    return node.op === "expand" ? this.numberOf(node.args[0]) : null;
  }

  /** x^2, whose gradient is one value, 2 x, where that of x x is two. */
  square(x: Ref): Ref {
    return this.pointwise("pow", x, this.number(2));
  }

  tensor(origin: TensorOrigin, shape: Shape, kind: Kind): Ref {
    return this.#add({ op: "tensor", origin, shape, kind });
  }

  number(value: number, kind: Kind = "f32"): Ref {
    const exact = kind === "f32" ? Math.fround(value) : kind === "bool" ? Number(value !== 0) : value;
    return this.#add({ op: "number", value: exact, shape: [], kind });
  }

  /** Stretched arguments are taken as they were before: the result is stretched in their place. */
  pointwise(op: Pointwise, ...args: readonly Ref[]): Ref {
    return this.laidOut(op, args, this.way === "faithful");
  }

  /** `inRows`: in row-major order, also where images that lie channels last are among the operands. */
  laidOut(op: Pointwise, args: readonly Ref[], inRows: boolean): Ref {
    const shape = broadcastShapes(args.map((a) => this.shape(a)));
    const plain = args.map((a) => this.#unstretched(a));
    const small = plain.every((a, i) => a === args[i])
      ? shape
      : broadcastShapes(plain.map((a) => this.shape(a)));
    const made = this.expand(
      this.#ordered(
        args,
        plain,
        small,
        (own, size) => this.#simplest(op, own, size, inRows),
      ),
      shape,
    );
    if (this.way === "faithful" && this.nodes[made].op === "expand") this.#stretched.add(made);
    return made;
  }

  /**
   * libtorch's ops that work number by number lay their result out as their operands lie: turned ones are taken as they lie,
   * and the result is turned. So sums and products find the strides that they find there.
   */
  #ordered(
    given: readonly Ref[],
    args: readonly Ref[],
    shape: Shape,
    make: (args: readonly Ref[], shape: Shape, order: readonly number[] | null) => Ref,
  ): Ref {
    if (this.way !== "faithful") return make(args, shape, null);
    const operands = given.filter((a) => this.numberOf(a) === null);
    const order = orderOf(shape, operands.map((a) => ({ shape: this.shape(a), strides: this.#strides(a) })));
    if (order === null) return make(args, shape, order);
    const back = order.map((_, d) => order.indexOf(d));
    const own = args.map((a) =>
      numelOf(this.shape(a)) === 1 ? a : this.permute(this.#ranked(a, shape.length), back)
    );
    return this.permute(make(own, back.map((d) => shape[d]), order), order);
  }

  /** libtorch's test of a matrix that lies column by column. */
  byColumns(r: Ref): boolean {
    const [rows] = this.shape(r), [down, right] = this.#strides(r);
    return this.shape(r).length === 2 && down === 1 && right === rows;
  }

  /** The tensor that libtorch has for this value has these; what is no view lies in rows, or channels last as an image does. */
  #strides(r: Ref): readonly number[] {
    return this.#knownStrides[r] ??= this.#stridesOf(r);
  }

  #stridesOf(r: Ref): readonly number[] {
    const node = this.nodes[r], { shape } = node;
    if (this.#stretched.has(r)) return rowMajor(shape);
    switch (node.op) {
      case "permute": {
        const strides = this.#strides(node.args[0]);
        return node.dims.map((d) => strides[d]);
      }
      case "tensor":
        return this.liesLast(r) ? lastStrides(shape) : rowMajor(shape);
      case "embed":
        return !node.inRows && this.liesLast(node.args[0]) ? lastStrides(shape) : rowMajor(shape);
      case "sum":
      case "amax":
      case "cat":
        return node.args.every((arg) => this.liesLast(arg)) ? lastStrides(shape) : rowMajor(shape);
      case "slice":
      case "stop":
        return this.#strides(node.args[0]);
      case "expand": {
        const from = this.shape(node.args[0]), strides = this.#strides(node.args[0]);
        const ahead = shape.length - from.length;
        return shape.map((size, d) => d < ahead || from[d - ahead] !== size ? 0 : strides[d - ahead]);
      }
      case "reshape":
        return viewed(this.shape(node.args[0]), this.#strides(node.args[0]), shape) ?? rowMajor(shape);
      case "call":
        return this.#isImage(node, 0, shape) ? lastStrides(shape) : rowMajor(shape);
      case "result":
        return this.#isImage(this.nodes[node.args[0]], node.index, shape)
          ? lastStrides(shape)
          : rowMajor(shape);
      default:
        return rowMajor(shape);
    }
  }

  /** A call's result that lies channels last, as the image does that it was given. */
  #isImage(call: Node, index: number, shape: Shape): boolean {
    if (call.op !== "call" || shape.length !== IMAGE) return false;
    const name = nameOfCall(call.schema), known = IMAGES[name], image = known && call.values[known.image];
    if (!isRef(image) || !known.results.includes(index) || !followsImage(name, shape)) return false;
    return this.liesLast(image.ref);
  }

  /** True of images whose channels lie side by side in libtorch's tensor. */
  liesLast(r: Ref): boolean {
    const node = this.nodes[r];
    if (node.op === "tensor") { // of one channel, too, of which strides say little
      return this.imagesLast && node.origin.from === "input" && node.shape.length === IMAGE;
    }
    return liesLast({ shape: this.shape(r), strides: this.#strides(r) });
  }

  /** A stretched value stays so where each of its places has a gradient of its own: libtorch adds those up at last. */
  #unstretched(r: Ref): Ref {
    const node = this.nodes[r];
    return node.op === "expand" && !this.#learns[r] ? this.#unstretched(node.args[0]) : r;
  }

  #isLearnt(node: Node): boolean {
    if (!this.learning || !hasGradients(node.kind) || node.op === "stop") return false;
    if (node.op === "tensor") return node.origin.from === "parameter" || node.origin.from === "input";
    return "args" in node && node.args.some((arg) => this.#learns[arg]);
  }

  #simplest(op: Pointwise, args: readonly Ref[], shape: Shape, inRows: boolean): Ref {
    const kind = TRUTHS.has(op) ? "bool" : op === "where" ? this.kind(args[1]) : "f32";
    const numbers = args.map((a) => this.nodes[a]).map((node) => node.op === "number" ? node.value : null);
    const known = numbers.every((n) => n !== null) ? fold(op, numbers as number[]) : null;
    if (known !== null) return this.number(known, kind);
    const simple = this.#without(op, args, numbers);
    if (simple !== null) return this.expand(simple, shape);
    return this.#add({ op, args, shape, kind, ...(inRows && shape.length === IMAGE ? { inRows } : {}) });
  }

  /** The same value without this op, or null. */
  #without(op: Pointwise, args: readonly Ref[], numbers: readonly (number | null)[]): Ref | null {
    const a = args[0], b = args[1], c = args[2], x = numbers[0], y = numbers[1];
    const first = this.nodes[a];
    switch (op) {
      case "neg":
        return first.op === "neg" ? first.args[0] : null;
      case "bf16":
      case "f16":
        return first.op === op ? a : null;
      case "float":
        return this.kind(a) === "f32" ? a : null;
      case "not":
        return first.op === "not" ? first.args[0] : null;
      case "add":
        if (x === 0) return b;
        if (y === 0) return a;
        return this.#joined(a, b);
      case "sub":
        return y === 0 ? a : x === 0 ? this.pointwise("neg", b) : null;
      case "mul":
        if (x === 1) return b;
        if (y === 1) return a;
        return x === -1 ? this.pointwise("neg", b) : y === -1 ? this.pointwise("neg", a) : null;
      case "div":
        return y === 1 ? a : null;
      case "pow":
        if (y === 1) return a;
        if (y === 2) return this.way === "faithful" ? null : this.pointwise("mul", a, a);
        if (y === 0.5) return this.pointwise("sqrt", a);
        return y === -1 ? this.pointwise("reciprocal", a) : null;
      case "where":
        return x === null ? (b === c ? b : null) : x !== 0 ? b : c;
      default:
        return null;
    }
  }

  /** Two parts beside each other, with zeros around: what backward of a split adds up. */
  #joined(a: Ref, b: Ref): Ref | null {
    const x = this.nodes[a], y = this.nodes[b];
    if (x.op !== "embed" || y.op !== "embed" || x.dim !== y.dim || !sameShape(x.shape, y.shape)) return null;
    const end = (node: typeof x) => node.start + this.shape(node.args[0])[node.dim];
    if (end(x) === y.start) {
      const both = this.cat([x.args[0], y.args[0]], x.dim);
      return this.embed(both, x.dim, x.start, x.shape[x.dim], x.inRows);
    }
    return end(y) === x.start ? this.#joined(b, a) : null;
  }

  /** Over these dimensions, which stay with size 1. */
  sum(x: Ref, dims: readonly number[]): Ref {
    const shape = this.shape(x), node = this.nodes[x];
    const over = dims.filter((d) => shape[d] !== 1).toSorted((a, b) => a - b);
    if (over.length === 0) return x;
    if (this.way !== "free") return this.#reduced("sum", x, over);
    if (node.op === "sum") return this.sum(node.args[0], [...new Set([...node.dims, ...over])]);
    if (node.op === "expand") {
      const source = this.#ranked(node.args[0], shape.length), from = this.shape(source);
      const copies = over.filter((d) => from[d] === 1);
      if (copies.length > 0) {
        const count = copies.reduce((product, d) => product * shape[d], 1);
        const rest = this.expand(source, shape.map((size, d) => copies.includes(d) ? 1 : size));
        const inner = this.sum(rest, over.filter((d) => !copies.includes(d)));
        return this.pointwise("mul", inner, this.number(count));
      }
    }
    return this.#reduced("sum", x, over);
  }

  amax(x: Ref, dims: readonly number[]): Ref {
    const over = dims.filter((d) => this.shape(x)[d] !== 1).toSorted((a, b) => a - b);
    return over.length === 0 ? x : this.#reduced("amax", x, over);
  }

  #reduced(op: "sum" | "amax", x: Ref, dims: readonly number[]): Ref {
    const shape = this.shape(x).map((size, d) => dims.includes(d) ? 1 : size);
    return this.#add({ op, args: [x], dims, shape, kind: "f32" });
  }

  /** The dimensions before the last two are alike. */
  gemm(a: Ref, b: Ref, transposeA = false, transposeB = false, chain?: number): Ref {
    const [x, y] = this.way === "faithful" ? [null, null] : [this.#turned(a), this.#turned(b)];
    if (x !== null) return this.gemm(x, b, !transposeA, transposeB, chain);
    if (y !== null) return this.gemm(a, y, transposeA, !transposeB, chain);
    const left = this.shape(a), right = this.shape(b);
    const [m, k] = transposeA ? [left.at(-1)!, left.at(-2)!] : [left.at(-2)!, left.at(-1)!];
    const [l, n] = transposeB ? [right.at(-1)!, right.at(-2)!] : [right.at(-2)!, right.at(-1)!];
    if (k !== l || !sameShape(left.slice(0, -2), right.slice(0, -2))) {
      throw new Error(`internal: [${left}] and [${right}] have no product.`);
    }
    const shape = [...left.slice(0, -2), m, n];
    const product = { op: "gemm", args: [a, b], transposeA, transposeB, shape, kind: "f32" } as const;
    return this.#add(chain === undefined ? product : { ...product, chain });
  }

  /** The value whose last two dimensions were swapped for this one, or null. */
  #turned(r: Ref): Ref | null {
    const node = this.nodes[r];
    if (node.op !== "permute") return null;
    const last = node.dims.length - 1;
    const swapped = node.dims.every((d, i) => d === (i === last ? last - 1 : i === last - 1 ? last : i));
    return swapped ? node.args[0] : null;
  }

  reshape(x: Ref, shape: Shape): Ref {
    const node = this.nodes[x];
    if (sameShape(node.shape, shape)) return x;
    if (numelOf(node.shape) !== numelOf(shape)) {
      throw new Error(`internal: [${node.shape}] can't become [${shape}].`);
    }
    if (node.op === "reshape" && this.way !== "faithful") return this.reshape(node.args[0], shape);
    if (node.op === "number") return this.expand(x, shape);
    if (node.op === "expand" && numelOf(this.shape(node.args[0])) === 1) {
      return this.expand(this.reshape(node.args[0], []), shape);
    }
    const made = this.#add({ op: "reshape", args: [x], shape, kind: node.kind });
    const copies = this.way === "faithful" && viewed(node.shape, this.#strides(x), shape) === null;
    if (copies) this.#stretched.add(made);
    return made;
  }

  expand(x: Ref, shape: Shape): Ref {
    const node = this.nodes[x];
    if (sameShape(node.shape, shape)) return x;
    if (node.op === "expand") return this.expand(node.args[0], shape);
    if (numelOf(node.shape) === numelOf(shape)) return this.#ranked(x, shape.length);
    if (!sameShape(broadcastShapes([node.shape, shape]), shape)) {
      throw new Error(`internal: [${node.shape}] can't be stretched to [${shape}].`);
    }
    return this.#add({ op: "expand", args: [x], shape, kind: node.kind });
  }

  /** With more dimensions of size 1 in front. */
  #ranked(x: Ref, rank: number): Ref {
    const shape = this.shape(x);
    if (shape.length === rank) return x;
    const ranked = [...new Array<number>(rank - shape.length).fill(1), ...shape];
    return this.nodes[x].op === "number"
      ? this.#add({ op: "expand", args: [x], shape: ranked, kind: this.kind(x) })
      : this.reshape(x, ranked);
  }

  permute(x: Ref, dims: readonly number[]): Ref {
    const node = this.nodes[x], shape = dims.map((d) => node.shape[d]);
    if (this.way === "faithful") return this.#add({ op: "permute", args: [x], dims, shape, kind: node.kind });
    if (dims.every((d, i) => d === i)) return x;
    if (node.op === "permute") return this.permute(node.args[0], dims.map((d) => node.dims[d]));
    const moved = dims.filter((d) => node.shape[d] !== 1);
    // How a row is turned into a column says which of libtorch's products it is.
    if (this.way === "free" && moved.every((d, i) => i === 0 || d > moved[i - 1])) {
      return this.reshape(x, shape);
    }
    if (node.op === "expand" && numelOf(this.shape(node.args[0])) === 1) {
      return this.expand(this.reshape(node.args[0], []), shape);
    }
    return this.#add({ op: "permute", args: [x], dims, shape, kind: node.kind });
  }

  slice(x: Ref, dim: number, start: number, end: number): Ref {
    const node = this.nodes[x];
    if (start === 0 && end === node.shape[dim]) return x;
    const shape = node.shape.with(dim, end - start);
    if (node.op === "slice" && node.dim === dim) {
      return this.slice(node.args[0], dim, node.start + start, node.start + end);
    }
    if (node.op === "cat" && node.dim === dim) {
      let from = 0;
      for (const part of node.args) {
        const to = from + this.shape(part)[dim];
        if (start >= from && end <= to) return this.slice(part, dim, start - from, end - from);
        from = to;
      }
    }
    if (node.op === "embed" && node.dim === dim) {
      const to = node.start + this.shape(node.args[0])[dim];
      if (start >= node.start && end <= to) {
        return this.slice(node.args[0], dim, start - node.start, end - node.start);
      }
    }
    if (node.op === "expand") {
      const source = this.#ranked(node.args[0], shape.length);
      return this.shape(source)[dim] === 1
        ? this.expand(source, shape)
        : this.expand(this.slice(source, dim, start, end), shape);
    }
    return this.#add({ op: "slice", args: [x], dim, start, end, shape, kind: node.kind });
  }

  /** Takes the zeros around a value away again; libtorch copies what is left. */
  cropped(x: Ref, dim: number, start: number, end: number): Ref {
    const made = this.slice(x, dim, start, end);
    if (this.way !== "faithful" || this.nodes[made].op !== "slice") return made;
    const given = { shape: this.shape(x), strides: this.#strides(x) };
    if (orderOf(given.shape, [given]) === null) this.#stretched.add(made); // a turned copy stays turned
    return made;
  }

  /** Zeros around x: `size` elements of `dim`, of which x is those from `start` on. */
  embed(x: Ref, dim: number, start: number, size: number, inRows = false): Ref {
    const node = this.nodes[x];
    if (node.shape[dim] === size) return x;
    return this.#add({
      op: "embed",
      args: [x],
      dim,
      start,
      shape: node.shape.with(dim, size),
      kind: node.kind,
      ...(inRows ? { inRows } : {}),
    });
  }

  cat(parts: readonly Ref[], dim: number): Ref {
    const args = parts.flatMap((part) => {
      const node = this.nodes[part];
      return node.op === "cat" && node.dim === dim ? node.args : [part];
    });
    if (args.length === 1) return args[0];
    const shape = this.shape(args[0]).with(dim, args.reduce((sum, part) => sum + this.shape(part)[dim], 0));
    return this.#add({ op: "cat", args, dim, shape, kind: this.kind(args[0]) });
  }

  /** Its first result. A Ref among `values` stands as { ref }, also in lists. */
  call(schema: string, values: readonly unknown[], shape: Shape, kind: Kind = "f32"): Ref {
    const given = this.way === "faithful" ? withRefs(values, (r) => this.#whole(r)) : values;
    const plain: Node = { op: "call", schema, values: given, args: refsIn(given), shape, kind };
    if (this.way === "faithful" && EACH_BY_ITSELF.test(schema) && !this.#isImage(plain, 0, shape)) {
      const own = refsIn(given);
      return this.#ordered(own, own, shape, (args, size, order) => {
        const laid = withRefs(given, (r) => args[own.indexOf(r)]);
        const call = order && turnedGelu(schema, laid, order) || { schema, values: laid };
        return this.#add({ op: "call", ...call, args: refsIn(laid), shape: size, kind });
      });
    }
    return this.#add(plain);
  }

  /** The gradient of a sum; of a mean libtorch stretches it before it divides. */
  spread(g: Ref, shape: Shape): Ref {
    const made = this.expand(g, shape);
    let from = g;
    while (["reshape", "permute"].includes(this.nodes[from].op)) {
      from = (this.nodes[from] as { args: readonly Ref[] }).args[0];
    }
    const node = this.nodes[from], count = numelOf(shape) / numelOf(this.shape(g));
    const ofMean = node.op === "div" && this.numberOf(node.args[1]) === count;
    if (ofMean && this.nodes[made].op === "expand") this.#stretched.add(made);
    return made;
  }

  /** The same value, where what libtorch has copied is a copy, and a view of it is a view of the copy. */
  #whole(r: Ref): Ref {
    if (this.#stretched.has(r)) return this.numberOf(r) === null ? this.copy(r) : r;
    const node = this.nodes[r];
    if (node.op !== "reshape" && node.op !== "permute") return r;
    const [source] = node.args, whole = this.#whole(source);
    if (whole === source) return r;
    return node.op === "reshape" ? this.reshape(whole, node.shape) : this.permute(whole, node.dims);
  }

  result(call: Ref, index: number, shape: Shape, kind: Kind = "f32"): Ref {
    return this.#add({ op: "result", args: [call], index, shape, kind });
  }

  /** A tensor of its own that holds the same: the gradients of its uses are added up before they go on. */
  alias(x: Ref): Ref {
    return this.permute(x, this.shape(x).map((_, d) => d));
  }

  /** The same value, in memory. */
  copy(x: Ref): Ref {
    const { shape, kind } = this.nodes[x];
    return this.#add({ op: "copy", args: [x], shape, kind });
  }

  /** The same value, which no gradient goes back through. */
  stop(x: Ref): Ref {
    const node = this.nodes[x];
    if (node.op === "stop" || node.op === "number") return x;
    return this.#add({ op: "stop", args: [x], shape: node.shape, kind: node.kind });
  }

  #add(node: Node): Ref {
    if (this.way === "faithful" && !ONCE.has(node.op)) return this.#push(node);
    const key = keyOf(node);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const made = this.#push(node);
    this.#known.set(key, made);
    return made;
  }

  #push(node: Node): Ref {
    if (this.way === "faithful") this.#learns.push(this.#isLearnt(node));
    return this.nodes.push(node) - 1;
  }
}

function keyOf(node: Node): string {
  const { op } = node;
  if (op === "number") return `number ${Object.is(node.value, -0) ? "-0" : node.value} ${node.kind}`;
  if (EITHER_WAY.has(op)) {
    const { args, inRows } = node as { args: readonly Ref[]; inRows?: true };
    return `${op} ${Math.min(args[0], args[1])},${Math.max(args[0], args[1])}${inRows ? " in rows" : ""}`;
  }
  // A key leaves out what the arguments say.
  if (op in POINTWISE) {
    const { args, inRows } = node as { args: readonly Ref[]; inRows?: true };
    return `${op} ${args}${inRows ? " in rows" : ""}`;
  }
  switch (op) {
    case "reshape":
    case "expand":
      return `${op} ${node.args} ${node.shape}`;
    case "sum":
    case "amax":
    case "permute":
      return `${op} ${node.args} ${node.dims}`;
    default:
      return nodeText(node);
  }
}

/** The text of a node or a graph; other values have another one. JSON has one word for some numbers, and takes longer. */
export function nodeText(value: unknown): string {
  if (typeof value === "string") return `"${value}"`;
  if (typeof value !== "object" || value === null) return String(value);
  let text = "";
  if (Array.isArray(value)) {
    for (const one of value) text += `${nodeText(one)},`;
    return `[${text}]`;
  }
  for (const name of Object.keys(value)) {
    const one = (value as Readonly<Record<string, unknown>>)[name];
    if (one !== undefined) text += `${name}:${nodeText(one)},`;
  }
  return `{${text}}`;
}

export const isRef = (value: unknown): value is { readonly ref: Ref } =>
  typeof value === "object" && value !== null && "ref" in value;

/** The values that a call takes. */
export const refsIn = (values: readonly unknown[]): Ref[] =>
  values.flatMap((value) => Array.isArray(value) ? refsIn(value) : isRef(value) ? [value.ref] : []);

/** The same arguments with other values in their places. */
export const withRefs = (values: readonly unknown[], to: (r: Ref) => Ref): unknown[] =>
  values.map((value) =>
    Array.isArray(value) ? withRefs(value, to) : isRef(value) ? { ref: to(value.ref) } : value
  );
