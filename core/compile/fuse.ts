// From a graph to kernels in order. Values that somebody needs in memory are sinks; sinks over the same loops join into
// one group, which computes what lies between them in registers. Products stand alone, and calls of libtorch's ops
// cut the plan into segments.
import { count, locate, type Located, loopsOver, rowMajor } from "./access.ts";
import { biasOf, type Blas, blasOf } from "./blas.ts";
import { withEpilogues } from "./epilogue.ts";
import { buildGroup, type Built, isReduction, type Memory, Missing, spaceOf, Unfit } from "./group.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import {
  type GemmKernel,
  type GroupKernel,
  VECTOR_FUNCTIONS,
  type VectorKernel,
  type Walk,
} from "./kernel.ts";
import { type Buffer, buffersRead, type CallTensor, type Home, type Part, type Program } from "./program.ts";
import { copyKernel, fillKernel } from "./copies.ts";
import { simplify } from "./simplify.ts";
import { columnSums, hasOrder, isPlain, wholeSum } from "./sums.ts";
import { argsOf, liveIn, usesIn } from "./uses.ts";

export interface FuseOptions {
  /** libtorch's bits: its products, and its order of sums. */
  readonly exact: boolean;
  /** Gradients are added to what is there; else they are written. */
  readonly adds: boolean;
  /** libtorch computes with so many threads, among which it divides large sums. */
  readonly threads?: number;
}

/** So many instructions again cost as much as a value's way to memory and back. */
const CHEAP = 12;
const COSTS: Readonly<Record<string, number>> = {
  ...{ exp: 9, expm1: 9, log: 9, log1p: 9, tanh: 11, sigmoid: 10, erf: 11, sin: 11, cos: 11, pow: 20 },
  ...{ div: 3, sqrt: 3, rsqrt: 4, reciprocal: 3 },
};
const MOST_ROUNDS = 400;
/** More products of a batch are one call of libtorch's: they are one loop in code, but each is looked at here. */
const MOST_PRODUCTS = 1024;

export function fuse(graph: Graph, options: FuseOptions): Program {
  const simple = simplify(graph, options.exact);
  const kept = new Set<Ref>();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const fusion = new Fusion(simple, kept, options);
    const program = fusion.run();
    const twice = fusion.computedTwice();
    if (twice.length === 0) return program;
    for (const ref of twice) kept.add(ref);
  }
  throw new Error("internal: a plan that does not settle.");
}

const SUM =
  "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
const BMM = "bmm(Tensor self, Tensor mat2) -> Tensor";

/** A group that may grow. */
interface Growing {
  readonly at: number;
  readonly space: string;
  readonly sinks: Ref[];
  built: Built;
}

class Fusion {
  readonly #buffers: Buffer[] = [];
  readonly #bufferOf = new Map<Ref, number>();
  /** The part that makes a value in memory; -1 for tensors. */
  readonly #at = new Map<Ref, number>();
  readonly #parts: (Growing | Part)[] = [];
  readonly #homes = new Map<Ref, Home>();
  readonly #copies: { readonly ref: Ref; readonly home: Home; readonly adds: boolean }[] = [];
  readonly #addsTo = new Set<Ref>();
  readonly #live: ReadonlySet<Ref>;
  /** In exact plans: a product that a bias is put under first. */
  readonly #biased = new Map<Ref, { readonly gemm: Ref; readonly bias: Ref }>();
  #calls = 0;
  /** Values that are read as they are; a call's other results are values of their own. */
  readonly #uses = new Set<Ref>();

  constructor(readonly graph: Graph, readonly kept: Set<Ref>, readonly options: FuseOptions) {
    this.#live = liveIn(graph);
    graph.nodes.forEach((node, ref) => {
      if (this.#live.has(ref) && node.op !== "result") {
        for (const arg of argsOf(node)) this.#uses.add(arg);
      }
    });
    for (const ref of [graph.output, graph.loss, ...graph.gradients]) if (ref !== null) this.#uses.add(ref);
    if (options.exact) this.#findBiases();
    this.#settleMemory();
  }

  run(): Program {
    this.graph.nodes.forEach((_, ref) => this.#live.has(ref) && this.#made(ref));
    for (const { ref, home, adds } of this.#copies) this.#withMissing(() => this.#copy(ref, home, adds));
    this.graph.gradients.forEach((ref, index) => {
      if (ref === null && !this.options.adds) this.#clear(index);
    });
    const parts = this.#finished();
    return {
      parts: this.options.exact ? parts : withEpilogues(parts, this.#buffers),
      buffers: this.#buffers,
    };
  }

  /** These values cost much and are computed in more than one group. */
  computedTwice(): Ref[] {
    const seen = new Map<Ref, number>();
    for (const part of this.#parts) {
      if (!("built" in part)) continue;
      for (const ref of part.built.inner) seen.set(ref, (seen.get(ref) ?? 0) + 1);
    }
    const often = [...seen].filter(([ref, times]) => times > 1 && this.#cost(ref) > CHEAP).map(([ref]) =>
      ref
    );
    // Keeping the last of a chain may make the others needless.
    const needed = new Set(often.flatMap((ref) => [...this.#below(ref)]));
    const tops = often.filter((ref) => !needed.has(ref));
    return tops.filter((ref) => this.graph.nodes[ref].kind === "f32");
  }

  #below(ref: Ref): Set<Ref> {
    const below = new Set<Ref>(), todo = [...argsOf(this.graph.nodes[ref])];
    while (todo.length > 0) {
      const next = todo.pop()!;
      if (below.has(next) || this.#inMemory(next)) continue;
      below.add(next);
      todo.push(...argsOf(this.graph.nodes[next]));
    }
    return below;
  }

  #cost(ref: Ref): number {
    let cost = 0;
    for (const one of [ref, ...this.#below(ref)]) cost += COSTS[this.graph.nodes[one].op] ?? 1;
    return cost;
  }

  #inMemory = (ref: Ref): boolean => {
    const node = this.graph.nodes[ref];
    return this.kept.has(ref) || this.#biased.has(ref) || node.op === "tensor" || ALWAYS.has(node.op) ||
      this.#byMkl(node);
  };

  /** add(product, bias): libtorch puts the bias first, and adds the product to it. */
  #findBiases(): void {
    const uses = usesIn(this.graph, this.#live);
    this.graph.nodes.forEach((node, ref) => {
      if (node.op !== "add" || !this.#live.has(ref)) return;
      const found = biasOf(this.graph, node, (gemm) => uses.get(gemm) === 1);
      if (found) this.#biased.set(ref, found);
    });
  }

  /** Decides what lies in memory, and where results go. */
  #settleMemory(): void {
    const { graph } = this;
    const gemms = new Set([...this.#biased.values()].map(({ gemm }) => gemm));
    const need = (ref: Ref) => {
      for (;;) {
        const found = locate(graph, ref, this.#inMemory);
        if (!("missing" in found)) return found;
        this.kept.add(found.missing);
      }
    };
    graph.nodes.forEach((node, ref) => {
      if (!this.#live.has(ref)) return;
      if (node.op === "gemm" || this.#apart(node) || this.#byMkl(node)) node.args.forEach(need);
      else if (node.op === "cat" || node.op === "embed") node.args.forEach(need);
      else if (node.op === "call") node.args.forEach((arg) => graph.nodes[arg].op !== "call" && need(arg));
      else if (this.#biased.has(ref)) need(this.#biased.get(ref)!.bias);
    });
    const home = (ref: Ref, there: Home, adds = false) => {
      const found = need(ref), { base } = found;
      const node = graph.nodes[base];
      const same = found.offset === 0 &&
        String(found.strides) === String(rowMajor(loopsOver(graph.nodes[ref].shape))) &&
        count(node.shape) === count(graph.nodes[ref].shape);
      const free = node.op !== "tensor" && node.op !== "call" && node.op !== "result" &&
        !this.#homes.has(base);
      const direct = !adds || node.op === "gemm" && !this.options.exact && !gemms.has(base);
      if (same && free && direct) {
        this.#homes.set(base, there);
        if (adds) this.#addsTo.add(base);
      } else this.#copies.push({ ref, home: there, adds });
    };
    home(graph.output, { from: "output" });
    home(graph.loss, { from: "loss" });
    graph.gradients.forEach((ref, index) => {
      if (ref !== null) home(ref, { from: "gradient", index }, this.options.adds);
    });
  }

  #buffer(ref: Ref, home: Home = this.#homes.get(ref) ?? { from: "arena" }): number {
    const { kind, shape } = this.graph.nodes[ref];
    if (kind === "bool" && home.from === "arena") {
      throw new Error(`internal: truth values of ${ref} are kept.`);
    }
    return this.#buffers.push({ ref, kind, shape, elements: count(shape), home }) - 1;
  }

  #define(ref: Ref, at: number, home?: Home): number {
    const buffer = this.#buffer(ref, home);
    this.#bufferOf.set(ref, buffer);
    this.#at.set(ref, at);
    return buffer;
  }

  #located(ref: Ref): Located {
    const found = locate(this.graph, ref, this.#inMemory);
    if ("missing" in found) throw new Missing(found.missing);
    return found;
  }

  /** Strides over all dimensions of a value, of which `locate` leaves those of one place out. */
  #stridesOf(ref: Ref): { base: Ref; offset: number; strides: number[] } {
    const { shape } = this.graph.nodes[ref], { base, offset, strides } = this.#located(ref);
    let next = 0;
    return { base, offset, strides: shape.map((size) => size > 1 ? strides[next++] : 0) };
  }

  #made(ref: Ref): void {
    this.#withMissing(() => this.#take(ref, this.graph.nodes[ref]));
  }

  /** A value that turns out to be needed in memory is put there first. */
  #withMissing(body: () => void): void {
    for (;;) {
      try {
        return body();
      } catch (thrown) {
        if (!(thrown instanceof Missing) || this.#bufferOf.has(thrown.ref)) throw thrown;
        this.kept.add(thrown.ref);
        this.#made(thrown.ref);
      }
    }
  }

  #take(ref: Ref, node: Node): void {
    if (this.#bufferOf.has(ref)) return;
    if (node.op === "tensor") {
      this.#define(ref, -1, node.origin);
      return;
    }
    const biased = this.#biased.get(ref);
    if (biased) return this.#blas(ref, biased);
    if (node.op === "gemm") {
      if ([...this.#biased.values()].some(({ gemm }) => gemm === ref)) return;
      return this.options.exact ? this.#blas(ref, { gemm: ref, bias: null }) : this.#gemm(ref, node);
    }
    if (node.op === "call") return this.#call(ref, node);
    if (node.op === "result") return;
    if (node.op === "embed") return this.#embed(ref, node);
    if (node.op === "cat") return this.#cat(ref, node);
    if (this.#apart(node)) return this.#ordered(ref, node.args[0], node.dims);
    if (this.#byMkl(node)) return this.#vector(ref, node);
    if (isReduction(node) || this.kept.has(ref)) this.#sink(ref);
  }

  /** Values lie there when this part begins, or when it ends. */
  #memoryAt(part: number): Memory {
    const bufferOf = (ref: Ref) => this.#at.get(ref)! <= part ? this.#bufferOf.get(ref) ?? null : null;
    return { graph: this.graph, bufferOf };
  }

  /** The group that computes this value: one over the same loops that may go on, or a new one. */
  #sink(ref: Ref): void {
    const space = String(spaceOf(this.graph, ref));
    const needs = this.#reads(ref);
    const earliest = Math.max(-1, ...needs.map((need) => this.#at.get(need)!));
    const near = new Set(needs.map((need) => this.#bufferOf.get(need)!));
    this.#define(ref, this.#parts.length);
    for (let at = Math.max(0, earliest); at < this.#parts.length; at++) {
      const part = this.#parts[at];
      if (!("built" in part) || part.space !== space) continue;
      const { reads, writes } = part.built;
      if (![...near].some((one) => reads.has(one) || writes.has(one))) continue;
      const sinks = [...part.sinks, ref];
      this.#at.set(ref, at);
      try {
        part.built = buildGroup(this.#memoryAt(at), sinks, "");
        part.sinks.push(ref);
        return;
      } catch (thrown) {
        if (thrown instanceof Missing) this.#bufferOf.delete(ref);
        if (!(thrown instanceof Unfit)) throw thrown;
      }
    }
    this.#at.set(ref, this.#parts.length);
    try {
      const built = buildGroup(this.#memoryAt(this.#parts.length), [ref], "");
      this.#parts.push({ at: this.#parts.length, space, sinks: [ref], built });
    } catch (thrown) {
      this.#bufferOf.delete(ref);
      if (!(thrown instanceof Unfit)) throw thrown;
      throw new Missing(this.#cut(ref));
    }
  }

  /** A value that is too much for one group: half of what it is made of goes to memory. */
  #cut(ref: Ref): Ref {
    const all = [...this.#below(ref)].filter((one) => {
      const { op, kind } = this.graph.nodes[one];
      return kind === "f32" && op !== "number";
    });
    if (all.length === 0) throw new Error(`internal: value ${ref} fits into no group.`);
    const sizes = all.map((one) => this.#below(one).size);
    const half = Math.max(...sizes) / 2;
    return all[sizes.indexOf(sizes.reduce((a, b) => Math.abs(b - half) < Math.abs(a - half) ? b : a))];
  }

  /** The values in memory that computing this one reads. */
  #reads(ref: Ref): Ref[] {
    const found = new Set<Ref>(), todo = [...argsOf(this.graph.nodes[ref])], seen = new Set<Ref>();
    while (todo.length > 0) {
      const next = todo.pop()!;
      if (seen.has(next)) continue;
      seen.add(next);
      if (this.#inMemory(next)) found.add(next);
      else todo.push(...argsOf(this.graph.nodes[next]));
    }
    return [...found];
  }

  #matrix(ref: Ref, transposed: boolean, batch: number): Walk {
    const node = this.graph.nodes[ref];
    const { base, offset, strides } = this.#stridesOf(ref);
    const outer = node.shape.slice(0, -2), [rows, columns] = strides.slice(-2);
    let at = offset, rest = batch;
    for (let i = outer.length - 1; i >= 0; i--) {
      at += rest % outer[i] * strides[i];
      rest = Math.floor(rest / outer[i]);
    }
    const slot = this.#bufferOf.get(base)!;
    return { slot, offset: at, strides: transposed ? [columns, rows] : [rows, columns], kind: node.kind };
  }

  #gemm(ref: Ref, node: Node & { op: "gemm" }): void {
    const [m, n] = node.shape.slice(-2), [a, b] = node.args;
    const k = this.graph.nodes[a].shape.at(node.transposeA ? -2 : -1)!;
    const batches = count(node.shape.slice(0, -2));
    if (batches > MOST_PRODUCTS && !this.#addsTo.has(ref)) return this.#batched(ref, node);
    const slot = this.#define(ref, this.#parts.length);
    for (let i = 0; i < batches; i++) {
      const kernel: GemmKernel = {
        kernel: "gemm",
        name: "gemm",
        ...{ m, n, k },
        a: this.#matrix(a, node.transposeA, i),
        b: this.#matrix(b, node.transposeB, i),
        c: { slot, offset: i * m * n, strides: [n, 1], kind: "f32" },
        add: this.#addsTo.has(ref),
        epilogue: null,
      };
      this.#parts.push(kernel);
    }
    this.#at.set(ref, this.#parts.length - 1);
  }

  #blas(ref: Ref, { gemm, bias }: { gemm: Ref; bias: Ref | null }): void {
    const node = this.graph.nodes[gemm] as Node & { op: "gemm" };
    const [m, n] = node.shape.slice(-2), [a, b] = node.args;
    const k = this.graph.nodes[a].shape.at(node.transposeA ? -2 : -1)!;
    if (node.shape.length > 2) return this.#batched(ref, node);
    const left = this.#matrix(a, node.transposeA, 0), right = this.#matrix(b, node.transposeB, 0);
    const slot = this.#define(ref, this.#parts.length);
    if (bias !== null) {
      const { base, offset, strides } = this.#stridesOf(bias);
      const from: Walk = {
        slot: this.#bufferOf.get(base)!,
        offset,
        strides: [0, n > 1 ? strides.at(-1)! : 0],
        kind: "f32",
      };
      this.#parts.push(copyKernel("bias", [m, n], from, { slot, offset: 0, strides: [n, 1], kind: "f32" }));
    }
    const wanted: Blas = { m, n, k, a: left, b: right, slot, beta: bias === null ? 0 : 1 };
    this.#parts.push(blasOf(wanted, { a: node.transposeA, b: node.transposeB }));
    this.#at.set(ref, this.#parts.length - 1);
  }

  /** In exact plans: a function of a whole value that libtorch takes from MKL. */
  #byMkl(node: Node): node is Node & { op: VectorKernel["function"]; args: readonly [Ref] } {
    const { op } = node;
    return this.options.exact && op !== "sqrt" && (VECTOR_FUNCTIONS as readonly string[]).includes(op); // a root has one value
  }

  #vector(
    ref: Ref,
    { op, args: [source], shape }: Node & { op: VectorKernel["function"]; args: readonly [Ref] },
  ): void {
    const { base, offset, strides } = this.#located(source);
    if (String(strides) !== String(rowMajor(loopsOver(shape)))) throw new Missing(source);
    const from = { slot: this.#bufferOf.get(base)!, offset };
    const to = { slot: this.#define(ref, this.#parts.length), offset: 0 };
    this.#parts.push({ kernel: "vector", name: op, function: op, elements: count(shape), from, to });
  }

  /** In exact plans: a sum that has libtorch's order only by itself. */
  #apart(node: Node): node is Node & { op: "sum"; args: readonly [Ref]; dims: readonly number[] } {
    if (!this.options.exact || node.op !== "sum") return false;
    const { rows, columns, plain } = this.#asRows(node.args[0], node.dims);
    return !plain || !isPlain(columns) || !hasOrder(rows, columns, this.options.threads ?? 1);
  }

  /** A sum over the first dimensions is one over rows. */
  #asRows(source: Ref, dims: readonly number[]): { rows: number; columns: number; plain: boolean } {
    const { shape } = this.graph.nodes[source], sizes = loopsOver(shape);
    const over = shape.flatMap((size, i) => size > 1 ? [dims.includes(i)] : []);
    const last = over.lastIndexOf(true);
    const rows = count(sizes.slice(0, last + 1)), columns = count(sizes.slice(last + 1));
    return { rows, columns, plain: over.slice(0, last + 1).every((one) => one) };
  }

  /** A sum in libtorch's order, of a value that lies in memory. */
  #ordered(ref: Ref, source: Ref, dims: readonly number[]): void {
    const { base, offset, strides } = this.#located(source);
    const { rows, columns, plain } = this.#asRows(source, dims);
    const together = String(strides) === String(rowMajor(loopsOver(this.graph.nodes[source].shape)));
    if (!plain || !together || !hasOrder(rows, columns, this.options.threads ?? 1)) {
      return this.#ask(ref, SUM, [{ ref: source }, dims, true, null], [this.#argument(source)]);
    }
    const kernels: GroupKernel[] = [];
    const to = { slot: this.#define(ref, this.#parts.length), offset: 0 };
    const from = { slot: this.#bufferOf.get(base)!, offset };
    const room = (elements: number) =>
      this.#buffers.push({ ref: -1, kind: "f32", shape: [elements], elements, home: { from: "arena" } }) - 1;
    if (columns === 1) wholeSum({ kernels, room }, { ...from, rows: 1, columns: rows, stride: rows }, to);
    else columnSums({ kernels, room }, { ...from, rows, columns, stride: columns }, to);
    this.#parts.push(...kernels);
    this.#at.set(ref, this.#parts.length - 1);
  }

  #batched(ref: Ref, { args: [a, b], transposeA, transposeB }: Node & { op: "gemm" }): void {
    const turned = (arg: Ref, transposed: boolean): CallTensor => {
      const [, tensor] = this.#argument(arg), { sizes, strides } = tensor;
      const outer = count(sizes.slice(0, -2)), [rows, columns] = sizes.slice(-2);
      const steps = strides.slice(-2),
        step = sizes.length === 3 ? strides[0] : this.#outerStride(arg, sizes, strides);
      return transposed
        ? { ...tensor, sizes: [outer, columns, rows], strides: [step, steps[1], steps[0]] }
        : { ...tensor, sizes: [outer, rows, columns], strides: [step, ...steps] };
    };
    // The same value may be both operands, in two forms.
    const values = [{ ref: -1 }, { ref: -2 }];
    this.#ask(ref, BMM, values, [[-1, turned(a, transposeA)], [-2, turned(b, transposeB)]]);
  }

  /** One stride over all dimensions before the last two; a copy where there is none. */
  #outerStride(ref: Ref, sizes: readonly number[], strides: readonly number[]): number {
    const outer = sizes.slice(0, -2).flatMap((size, i) => size > 1 ? [i] : []);
    for (let i = 1; i < outer.length; i++) {
      if (strides[outer[i - 1]] !== strides[outer[i]] * sizes[outer[i]]) throw new Missing(ref);
    }
    return outer.length === 0 ? 1 : strides[outer.at(-1)!];
  }

  /** libtorch's own op, for its bits. */
  #ask(
    ref: Ref,
    schema: string,
    values: readonly unknown[],
    tensors: readonly (readonly [Ref, CallTensor])[],
  ): void {
    const at = this.#parts.length, call = this.#calls++;
    const slot = this.#define(ref, at, { from: "result", call, index: 0 });
    const results = [{ slot, index: 0 }];
    this.#parts.push({
      ...{ kernel: "call", name: schema.split("(")[0], schema, values, results },
      tensors: new Map(tensors),
    });
  }

  #argument(ref: Ref): [Ref, CallTensor] {
    const { base, offset, strides } = this.#stridesOf(ref);
    return [ref, { slot: this.#bufferOf.get(base)!, offset, sizes: this.graph.nodes[ref].shape, strides }];
  }

  #call(ref: Ref, node: Node & { op: "call" }): void {
    const call = this.#calls++, at = this.#parts.length;
    const tensors = new Map(node.args.map((arg) => this.#argument(arg)));
    const slot = this.#define(ref, at, { from: "result", call, index: 0 });
    // libtorch makes no tensor of a gradient that nobody asks for.
    const used = this.#uses.has(ref) || this.graph.effects.includes(ref);
    const results = used ? [{ slot, index: 0 }] : [];
    this.graph.nodes.forEach((one, i) => {
      if (one.op !== "result" || one.args[0] !== ref || !this.#live.has(i)) return;
      results.push({
        slot: this.#define(i, at, { from: "result", call, index: one.index }),
        index: one.index,
      });
    });
    const { schema, values } = node;
    this.#parts.push({ kernel: "call", name: schema.split("(")[0], schema, values, tensors, results });
  }

  #embed(ref: Ref, node: Node & { op: "embed" }): void {
    const [source] = node.args;
    const slot = this.#define(ref, this.#parts.length);
    this.#parts.push(fillKernel(slot, count(node.shape), 0));
    this.#copyInto(source, slot, node.shape, node.dim, node.start);
    this.#at.set(ref, this.#parts.length - 1);
  }

  #cat(ref: Ref, node: Node & { op: "cat" }): void {
    const slot = this.#define(ref, this.#parts.length);
    let start = 0;
    for (const arg of node.args) {
      this.#copyInto(arg, slot, node.shape, node.dim, start);
      start += this.graph.nodes[arg].shape[node.dim];
    }
    this.#at.set(ref, this.#parts.length - 1);
  }

  /** A part of a larger value; its source must be in memory. */
  #copyInto(source: Ref, slot: number, shape: readonly number[], dim: number, start: number): void {
    const found = locate(this.graph, source, this.#inMemory);
    if ("missing" in found) throw new Missing(found.missing);
    const { shape: sizes, kind } = this.graph.nodes[source];
    const steps = rowMajor(shape), { base, offset, strides } = this.#stridesOf(source);
    const from = { slot: this.#bufferOf.get(base)!, offset, strides, kind };
    const to = { slot, offset: start * steps[dim], strides: steps, kind };
    this.#parts.push(copyKernel("copy", sizes, from, to));
  }

  #copy(ref: Ref, home: Home, adds: boolean): void {
    const found = locate(this.graph, ref, this.#inMemory);
    if ("missing" in found) throw new Missing(found.missing);
    const { shape, kind } = this.graph.nodes[ref];
    const { base, offset, strides } = this.#stridesOf(ref);
    const from = { slot: this.#bufferOf.get(base)!, offset, strides, kind };
    const slot = this.#buffer(ref, home);
    const to = { slot, offset: 0, strides: rowMajor(shape), kind };
    this.#parts.push(copyKernel(adds ? "add" : "copy", shape, from, to, adds));
  }

  /** A parameter that is not reached has a gradient of zeros. */
  #clear(index: number): void {
    const ref = this.graph.nodes.findIndex((node) =>
      node.op === "tensor" && node.origin.from === "parameter" && node.origin.index === index
    );
    if (ref < 0) return;
    const slot = this.#buffer(ref, { from: "gradient", index });
    this.#parts.push(fillKernel(slot, count(this.graph.nodes[ref].shape), 0));
  }

  /** Groups are built a last time, without stores that nobody reads. */
  #finished(): Part[] {
    const readers = this.#readersOf();
    return this.#parts.map((part, at) => {
      if (!("built" in part)) return part;
      const stored = (ref: Ref) =>
        this.#homes.has(ref) || [...readers.get(this.#bufferOf.get(ref)!) ?? []].some((one) => one !== at);
      const name = nameOf(part.sinks.map((ref) => this.graph.nodes[ref].op));
      part.built = buildGroup(this.#memoryAt(at), part.sinks, name, stored);
      return this.options.exact ? { ...part.built.kernel, exact: true } : part.built.kernel;
    });
  }

  #readersOf(): Map<number, Set<number>> {
    const readers = new Map<number, Set<number>>();
    this.#parts.forEach((part, at) => {
      for (const buffer of "built" in part ? part.built.reads : buffersRead(part)) {
        if (!readers.has(buffer)) readers.set(buffer, new Set());
        readers.get(buffer)!.add(at);
      }
    });
    return readers;
  }
}

/** These results are always in memory. */
const ALWAYS: ReadonlySet<string> = new Set(["gemm", "call", "result", "sum", "greatest", "embed", "cat"]);

const nameOf = (ops: readonly string[]): string => [...new Set(ops)].slice(0, 4).join(", ");
