// From a graph to kernels in order. Values that somebody needs in memory are sinks; sinks over the same loops join into
// one group, which computes what lies between them in registers. Products stand alone, and calls of libtorch's ops
// cut the plan into segments.
import { count, locate, type Located, loopsOver, rowMajor } from "./access.ts";
import { biasOf, blasProduct, draftProduct } from "./products.ts";
import { ownGelu } from "./gelu.ts";
import { callOp, callSigmoid, mklFunction, type Sigmoid, sigmoidHasTail, type Vector } from "./calls.ts";
import { cleared, copied, embedded, joined } from "./copies.ts";
import { sumsShareLoops } from "./cuda/schedule.ts";
import { withDestinations } from "./destinations.ts";
import { Draft, type FuseOptions, type Growing } from "./draft.ts";
import { withEpilogues } from "./epilogue.ts";
import { buildGroup, isReduction, NotInMemory, spaceOf, UnfitGroup } from "./group.ts";
import { type Graph, isOther, type Node, type Ref } from "./graph.ts";
import { ELEMENT_BYTES, type GroupKernel, VECTOR_FUNCTIONS } from "./kernel.ts";
import { orderedSum, standsAlone, type SumNode } from "./sums.ts";
import { KnownGroups } from "./known_groups.ts";
import { rewritten } from "./passes.ts";
import { buffersRead, checkedOrder, type Home, type Program, type ProgramPart } from "./program.ts";
import { argsOf, liveIn, usesIn } from "./uses.ts";
import { mixesSums, simplified } from "./strided_access.ts";

/** So many instructions again cost as much as a value's way to memory and back. */
const CHEAP = 12;
const COSTS: Readonly<Record<string, number>> = {
  ...{ exp: 9, expm1: 9, log: 9, log1p: 9, tanh: 11, sigmoid: 10, erf: 11, sin: 11, cos: 11, pow: 20 },
  ...{ div: 3, bf16: 5, f16: 8, sqrt: 3, rsqrt: 4, reciprocal: 3 },
};
/** On a GPU memory is what takes time: only what so many instructions compute is not computed again for that alone. */
const CHEAP_ON_GPU = 150;

/**
 * Values that cost much and that two groups would compute are kept in memory, and the graph is fused anew. That ends: each
 * round keeps one more of them.
 */
export function fuse(graph: Graph, options: FuseOptions): Program {
  const simple = rewritten(graph, options);
  const saved = new Set<Ref>(simple.nodes.flatMap(({ saved }, ref) => saved ? [ref] : []));
  const known = new KnownGroups();
  for (;;) {
    const fusion = new Fusion(simple, saved, options, known), parts = fusion.run();
    const more = fusion.computedTwice().filter((ref) => !saved.has(ref));
    if (more.length === 0) return fusion.program(parts);
    for (const ref of more) saved.add(ref);
  }
}

class Fusion {
  readonly #draft: Draft;
  readonly #copies: { readonly ref: Ref; readonly home: Home; readonly adds: boolean }[] = [];
  readonly #live: ReadonlySet<Ref>;
  /** In exact plans: a product that a bias is put under first. */
  readonly #biased = new Map<Ref, { readonly gemm: Ref; readonly bias: Ref }>();
  /** Products that stand under a bias. */
  readonly #under = new Set<Ref>();
  /** Values that are read as they are; a call's other results are values of their own. */
  readonly #uses = new Set<Ref>();
  /** Values that backward computes once more join no part that stands before its block's backward. */
  #recomputedAt = 0;
  #floor = 0;

  constructor(
    readonly graph: Graph,
    readonly saved: Set<Ref>,
    readonly options: FuseOptions,
    readonly known: KnownGroups,
  ) {
    this.#draft = new Draft(graph, options, this.#inMemory);
    this.#live = liveIn(graph);
    graph.nodes.forEach((node, ref) => {
      if (!this.#live.has(ref)) return;
      if (node.op === "result") this.#uses.add(ref);
      else for (const arg of argsOf(node)) this.#uses.add(arg);
    });
    const { output, loss, gradients, effects, writes = [] } = graph, written = writes.map(({ ref }) => ref);
    for (const ref of [output, loss, ...gradients, ...effects, ...written]) {
      if (ref !== null) this.#uses.add(ref);
    }
    if (options.exact) this.#findBiases();
    this.#settleMemory();
  }

  run(): ProgramPart[] {
    const draft = this.#draft;
    const { nodes, effects, writes = [] } = this.graph, read = new Set(nodes.flatMap(argsOf));
    const last = new Set(effects.filter((ref) => !read.has(ref)));
    nodes.forEach(({ recomputedAt = 0 }, ref) => {
      if (recomputedAt > this.#recomputedAt) {
        [this.#recomputedAt, this.#floor] = [recomputedAt, draft.parts.length];
      }
      if (this.#live.has(ref) && !last.has(ref)) this.#made(ref);
    });
    const copy = (ref: Ref, home: Home, adds = false) =>
      this.#withMissing(() => copied(draft, ref, home, adds));
    for (const { ref, home, adds } of this.#copies) copy(ref, home, adds);
    // All that reads a held tensor has read it by now.
    for (const ref of last) this.#made(ref);
    for (const { ref, held } of writes) copy(ref, { from: "held", index: held });
    this.graph.gradients.forEach((ref, index) => {
      if (ref === null && !this.options.adds) cleared(draft, index);
    });
    return this.#finished();
  }

  program(parts: readonly ProgramPart[]): Program {
    const { buffers } = this.#draft;
    const moved = () => withDestinations(withEpilogues(parts, buffers), buffers);
    return checkedOrder({ parts: this.options.libraryProducts ? parts : moved(), buffers });
  }

  /** These values cost much and are computed in more than one group. */
  computedTwice(): Ref[] {
    const seen = new Map<Ref, number>();
    for (const part of this.#draft.parts) {
      if (!("built" in part)) continue;
      for (const ref of part.built.inner) seen.set(ref, (seen.get(ref) ?? 0) + 1);
    }
    const often = [...seen].filter(([ref, times]) => times > 1 && this.#costsMuch(ref)).map(([ref]) => ref);
    const saved = often.filter((ref) => this.graph.nodes[ref].kind === "f32");
    if (this.options.libraryProducts) {
      // Keeping the first of a chain makes the others cheap.
      return saved.filter((ref) => saved.every((other) => other === ref || !this.#below(ref).has(other)));
    }
    // Keeping the last of a chain may make the others needless.
    const needed = new Set(often.flatMap((ref) => [...this.#below(ref)]));
    return saved.filter((ref) => !needed.has(ref));
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

  #costsMuch(ref: Ref): boolean {
    if (!this.options.libraryProducts) return this.#cost(ref) > CHEAP;
    const read = this.#reads(ref).reduce((bytes, one) => bytes + this.#bytes(one), 0);
    return read > 2 * this.#bytes(ref) || this.#cost(ref) > CHEAP_ON_GPU;
  }
  #bytes(ref: Ref): number {
    const { shape, kind, half } = this.graph.nodes[ref];
    return count(shape) * ELEMENT_BYTES[half ?? (isOther(kind) ? "i64" : kind)];
  }

  #cost(ref: Ref): number {
    let cost = 0;
    for (const one of [ref, ...this.#below(ref)]) cost += COSTS[this.graph.nodes[one].op] ?? 1;
    return cost;
  }

  #inMemory = (ref: Ref): boolean => {
    const node = this.graph.nodes[ref];
    return this.saved.has(ref) || this.#biased.has(ref) || node.op === "tensor" || ALWAYS.has(node.op) ||
      this.#byMkl(node) || this.#hasTail(node);
  };

  /** add(product, bias): libtorch puts the bias first, and adds the product to it. */
  #findBiases(): void {
    const uses = usesIn(this.graph, this.#live);
    this.graph.nodes.forEach((node, ref) => {
      if (node.op !== "add" || !this.#live.has(ref)) return;
      const found = biasOf(this.graph, node, (gemm) => uses.get(gemm) === 1);
      if (!found) return;
      this.#biased.set(ref, found);
      this.#under.add(found.gemm);
    });
  }

  /** Decides what lies in memory, and where results go. */
  #settleMemory(): void {
    const { graph } = this, { homes, addsTo } = this.#draft;
    const need = (ref: Ref) => {
      for (;;) {
        const found = locate(graph, ref, this.#inMemory);
        if (!("missing" in found)) return found;
        this.saved.add(found.missing);
      }
    };
    graph.nodes.forEach((node, ref) => {
      if (!this.#live.has(ref)) return;
      if (node.op === "gemm" || this.#standsAlone(node) || this.#byMkl(node) || this.#hasTail(node)) {
        node.args.forEach(need);
      } else if (node.op === "cat" || node.op === "embed") node.args.forEach(need);
      else if (node.op === "call") node.args.forEach((arg) => graph.nodes[arg].op !== "call" && need(arg));
      else if (this.#biased.has(ref)) need(this.#biased.get(ref)!.bias);
    });
    const uses = usesIn(graph, this.#live);
    /** Where a gradient is added to what is there, nobody else finds the value itself. */
    const alone = (ref: Ref, base: Ref): boolean =>
      uses.get(ref) === 1 && (ref === base || alone(argsOf(graph.nodes[ref])[0], base));
    const home = (ref: Ref, place: Home, adds = false) => {
      const found = need(ref), { base } = found;
      const node = graph.nodes[base];
      const same = isWhole(found, graph.nodes[ref]) && count(node.shape) === count(graph.nodes[ref].shape);
      const free = node.op !== "tensor" && node.op !== "call" && node.op !== "result" && !homes.has(base);
      const own = !this.options.exact && !this.options.libraryProducts;
      const direct = !adds || node.op === "gemm" && own && !this.#under.has(base) && alone(ref, base);
      if (same && free && direct) {
        homes.set(base, place);
        if (adds) addsTo.add(base);
        if (place.from === "gradient") this.#sumAt(base, place, uses);
      } else this.#copies.push({ ref, home: place, adds });
    };
    home(graph.output, { from: "output" });
    home(graph.loss, { from: "loss" });
    for (const { ref } of graph.writes ?? []) need(ref);
    graph.gradients.forEach((ref, index) => {
      if (ref !== null) {
        home(ref, { from: "gradient", index }, this.options.adds && !graph.sums?.has(index));
      }
    });
  }

  /** A gradient that is added up part by part (derive.ts) lies in its place from the first term on, where that is a product. */
  #sumAt(base: Ref, place: Home, uses: ReadonlyMap<Ref, number>): void {
    const { graph: { nodes } } = this, { homes } = this.#draft;
    for (let at = base;;) {
      const node = nodes[at], sum = node.op === "copy" ? nodes[node.args[0]] : node;
      if (sum.op !== "add" || node.op !== "copy" && !sum.args.some((arg) => nodes[arg].op === "copy")) return;
      const all = sum.args.map((arg) => this.#wholly(arg));
      const terms = all.filter((arg) => uses.get(arg) === 1 && !homes.has(arg));
      const first = node.op === "copy" && all.every((arg) => nodes[arg]?.op === "gemm")
        ? Math.min(...all)
        : -1;
      const before = terms.find((arg) => nodes[arg].op === "copy" || arg === first);
      if (before === undefined || count(nodes[before].shape) !== count(node.shape)) return;
      homes.set(before, place);
      at = before;
    }
  }

  /** The value behind this view, if both lie alike in memory; else -1. */
  #wholly(ref: Ref): Ref {
    const found = locate(this.graph, ref, this.#inMemory);
    return !("missing" in found) && isWhole(found, this.graph.nodes[ref]) ? found.base : -1;
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
        if (!(thrown instanceof NotInMemory) || this.#draft.bufferOf.has(thrown.ref)) throw thrown;
        this.saved.add(thrown.ref);
        this.#made(thrown.ref);
      }
    }
  }

  #take(ref: Ref, node: Node): void {
    const draft = this.#draft;
    if (draft.bufferOf.has(ref)) return;
    if (node.op === "tensor") {
      draft.define(ref, -1, node.origin);
      return;
    }
    const biased = this.#biased.get(ref);
    if (biased) return blasProduct(draft, ref, biased);
    if (node.op === "gemm") {
      if (this.#under.has(ref)) return;
      return this.options.exact && node.chain === undefined
        ? blasProduct(draft, ref, { gemm: ref, bias: null })
        : draftProduct(draft, ref, node);
    }
    if (node.op === "call" && ownGelu(draft, ref, node)) return;
    if (node.op === "call") return callOp(draft, ref, node, (result) => this.#uses.has(result));
    if (node.op === "result") return;
    if (node.op === "embed") return embedded(draft, ref, node);
    if (node.op === "cat") return joined(draft, ref, node);
    if (this.#standsAlone(node)) return orderedSum(draft, ref, node);
    if (this.#byMkl(node)) return mklFunction(draft, ref, node);
    if (this.#hasTail(node)) return callSigmoid(draft, ref, node);
    if (isReduction(node) || node.op === "copy" || this.saved.has(ref)) this.#sink(ref);
  }

  /** The group that computes this value: one over the same loops that may go on, or a new one. */
  #sink(ref: Ref): void {
    const draft = this.#draft, { at: made, bufferOf, parts } = draft;
    const space = String(spaceOf(this.graph, ref));
    const needs = this.#reads(ref);
    const earliest = Math.max(this.#floor, ...needs.map((need) => made.get(need)!));
    const near = new Set(needs.map((need) => bufferOf.get(need)!));
    draft.define(ref);
    for (let at = earliest; at < parts.length; at++) {
      const part = parts[at];
      if (!("built" in part) || part.space !== space) continue;
      const { reads, writes } = part.built;
      if (![...near].some((one) => reads.has(one) || writes.has(one))) continue;
      const sinks = [...part.sinks, ref];
      made.set(ref, at);
      try {
        const built = this.known.build(draft.memoryAt(at), sinks);
        if (!this.#sumsFit(built.kernel)) continue;
        part.built = built;
        part.sinks.push(ref);
        return;
      } catch (thrown) {
        if (thrown instanceof NotInMemory) bufferOf.delete(ref);
        if (!(thrown instanceof UnfitGroup)) throw thrown;
      }
    }
    made.set(ref, parts.length);
    try {
      const built = this.known.build(draft.memoryAt(parts.length), [ref]);
      parts.push({ at: parts.length, space, sinks: [ref], built });
    } catch (thrown) {
      bufferOf.delete(ref);
      if (!(thrown instanceof UnfitGroup)) throw thrown;
      throw new NotInMemory(this.#cut(ref));
    }
  }

  #sumsFit(kernel: GroupKernel): boolean {
    return this.options.libraryProducts ? sumsShareLoops(simplified(kernel)) : !mixesSums(kernel);
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

  /** In exact plans: a function of a whole value that libtorch takes from MKL. */
  #byMkl(node: Node): node is Vector {
    const { op } = node;
    return this.options.exact && (VECTOR_FUNCTIONS as readonly string[]).includes(op);
  }

  /** In exact plans: libtorch computes some of its numbers one by one, in another way. */
  #hasTail(node: Node): node is Sigmoid {
    const { exact, threads = 1 } = this.options;
    return exact && node.op === "sigmoid" && sigmoidHasTail(this.graph, node as Sigmoid, threads);
  }

  /** In exact plans: a sum that has libtorch's order only by itself. */
  #standsAlone(node: Node): node is SumNode {
    return this.options.exact && node.op === "sum" &&
      standsAlone(this.graph, node as SumNode, this.options.threads ?? 1);
  }

  /** Groups are built a last time: with what lies in memory by now, and then without stores that nobody reads. */
  #finished(): ProgramPart[] {
    const draft = this.#draft;
    draft.parts.forEach((part, at) => {
      if (!("built" in part)) return;
      const memory = draft.memoryAt(at);
      if ([...part.built.absent].some((ref) => memory.bufferOf(ref) !== null)) this.#again(part, at);
    });
    const readers = this.#readersOf();
    return draft.parts.map((part, at) => {
      if (!("built" in part)) return part;
      const stored = (ref: Ref) =>
        draft.homes.has(ref) ||
        [...readers.get(draft.bufferOf.get(ref)!) ?? []].some((one) => one !== at);
      if (!part.sinks.every(stored)) this.#again(part, at, stored);
      const kernel = {
        ...part.built.kernel,
        name: nameOf(part.sinks.map((ref) => this.graph.nodes[ref].op)),
      };
      return this.options.exact ? { ...kernel, exact: true } : kernel;
    });
  }

  /** A group stays as it is where reading what lies in memory by now takes more than a group has; computing it takes less. */
  #again(part: Growing, at: number, stored?: (ref: Ref) => boolean): void {
    try {
      const built = buildGroup(this.#draft.memoryAt(at), part.sinks, "", stored);
      // A value that the group did not read before may have lost its store.
      if (!stored || built.reads.isSubsetOf(part.built.reads)) part.built = built;
    } catch (thrown) {
      if (!(thrown instanceof UnfitGroup)) throw thrown;
    }
  }

  #readersOf(): Map<number, Set<number>> {
    const readers = new Map<number, Set<number>>();
    this.#draft.parts.forEach((part, at) => {
      for (const buffer of "built" in part ? part.built.reads : buffersRead(part)) {
        if (!readers.has(buffer)) readers.set(buffer, new Set());
        readers.get(buffer)!.add(at);
      }
    });
    return readers;
  }
}

const isWhole = ({ offset, strides }: Pick<Located, "offset" | "strides">, { shape }: Node): boolean =>
  offset === 0 && String(strides) === String(rowMajor(loopsOver(shape)));

/** These results are always in memory. */
const ALWAYS: ReadonlySet<string> = new Set([
  "gemm",
  "call",
  "result",
  "sum",
  "amax",
  "embed",
  "cat",
  "copy",
]);

const nameOf = (ops: readonly string[]): string => [...new Set(ops)].slice(0, 4).join(", ");
