// A plan while it is made: the parts so far, and the buffers that values lie in.
import { liesByTokens } from "./attentions.ts";
import { count, isView, locate, type Located, loopsOver, rowMajor } from "./access.ts";
import type { ConvolutionSums, MapConvolution } from "./convs.ts";
import type { HalfWeights } from "./cuda/halves.ts";
import { type Graph, isOther, type Node, type Ref } from "./graph.ts";
import { type BufferMap, type BuiltGroup, type Limits, NotInMemory } from "./group.ts";
import type { BlasKernel, GemmKernel, StridedAccess } from "./kernel.ts";
import type { Buffer, CallTensor, Home, ProgramPart } from "./program.ts";
import { viewed } from "./strides.ts";

/** Numbers of half precision lie so there. */
const HALF_HOMES: ReadonlySet<Home["from"]> = new Set(["arena", "result", "output"]);

/** A CPU's loop has few pointers; a GPU's launch as many as it likes. */
const OF_CPU: Limits = { accesses: 11, instructions: 160 },
  OF_GPU: Limits = { accesses: 32, instructions: 320 };

/** [n, c, h, w] of [n, h, w, c]. */
const FIRST = [0, 3, 1, 2];
/** [n, heads, tokens, width] of [n, tokens, heads, width]. */
const BY_TOKENS = [0, 2, 1, 3];

export interface FuseOptions {
  /** libtorch's bits: its products, and its order of sums. */
  readonly exact: boolean;
  /** Gradients are added to what is there; else they are written. */
  readonly adds: boolean;
  /** Backward computes each block's values once more. */
  readonly recomputes?: boolean;
  /** libtorch computes with so many threads, among which it divides large sums. */
  readonly threads?: number;
  /** In exact plans: products of our own are used where this knows how to have libtorch's bits. */
  readonly chainOf?: (theirs: BlasKernel, ours: GemmKernel) => number | null;
  /** In exact plans: how libtorch sums in convolutions. */
  readonly convolutionSums?: (convolution: MapConvolution) => ConvolutionSums;
  /** Products are libtorch's: no group becomes a part of one. */
  readonly libraryProducts?: boolean;
  /** Numbers of half precision lie so in memory, and products take them so; where the weights lie. */
  readonly halves?: HalfWeights;
}

/** A group that may grow. */
export interface Growing {
  readonly at: number;
  readonly space: string;
  readonly sinks: Ref[];
  built: BuiltGroup;
}

type Result = Node & { readonly op: "result" };

export class Draft {
  readonly buffers: Buffer[] = [];
  readonly bufferOf = new Map<Ref, number>();
  /** The part that makes a value in memory; -1 for tensors. */
  readonly at = new Map<Ref, number>();
  readonly parts: (Growing | ProgramPart)[] = [];
  readonly homes = new Map<Ref, Home>();
  readonly addsTo = new Set<Ref>();
  /** Slopes of gelu that lie in memory, by what it was taken of (gelu.ts). */
  readonly slopes = new Map<Ref, number>();
  /** The other results of a call, by the call. */
  readonly resultsOf: ReadonlyMap<Ref, readonly { readonly ref: Ref; readonly made: Result }[]>;
  calls = 0;

  constructor(
    readonly graph: Graph,
    readonly options: FuseOptions,
    readonly inMemory: (ref: Ref) => boolean,
  ) {
    const results = graph.nodes.flatMap((made, ref) => made.op === "result" ? [{ ref, made }] : []);
    this.resultsOf = Map.groupBy(results, ({ made: { args: [call] } }) => call);
  }

  buffer(ref: Ref, home: Home = this.homes.get(ref) ?? { from: "arena" }): number {
    const { kind, shape, half } = this.graph.nodes[ref];
    if (kind !== "f32" && home.from === "arena") {
      throw new Error(`internal: ${kind} of ${ref} is kept.`);
    }
    if (isOther(kind)) {
      return this.buffers.push({ ref, kind: "i64", shape, elements: count(shape), home, other: kind }) - 1;
    }
    if (home.from === "drawn") {
      return this.buffers.push({ ref, kind: "philox", shape, elements: count(shape), home }) - 1;
    }
    // A GPU computes an index faster than it reads one.
    const index = home.from === "held" && home.counts && this.options.libraryProducts;
    if (index) return this.buffers.push({ ref, kind: "place", shape, elements: count(shape), home }) - 1;
    const own = HALF_HOMES.has(home.from) ? half ?? kind : kind;
    return this.buffers.push({ ref, kind: own, shape, elements: count(shape), home }) - 1;
  }

  /** Memory for a few numbers that are no value of the graph. */
  scratch(elements: number): number {
    return this.buffers.push({ ref: -1, kind: "f32", shape: [elements], elements, home: { from: "arena" } }) -
      1;
  }

  /** This value is made by part `at`, the next one where none is told. */
  define(ref: Ref, at = this.parts.length, home?: Home): number {
    const buffer = this.buffer(ref, home);
    this.bufferOf.set(ref, buffer);
    this.at.set(ref, at);
    return buffer;
  }

  /** It is there when the last part so far has run. */
  ends(ref: Ref): void {
    this.at.set(ref, this.parts.length - 1);
  }

  /** `unturned`: as libtorch's tensor lies, also where a turned view of it was copied for somebody else. */
  located(ref: Ref, unturned = false): Located {
    const { nodes } = this.graph;
    const own = (r: Ref) => this.inMemory(r) && !(unturned && nodes[r].op === "permute");
    const found = locate(this.graph, ref, own);
    if (!("missing" in found)) return found;
    if (unturned && isView(nodes[found.missing])) return this.#joined(ref) ?? this.located(ref);
    throw new NotInMemory(found.missing);
  }

  /** A turned value in other sizes, where libtorch has a view of it: loops have no index for dimensions that are joined, strides have. */
  #joined(ref: Ref): Located | null {
    const node = this.graph.nodes[ref];
    if (node.op !== "reshape") return null;
    const [source] = node.args, { base, offset, strides } = this.located(source, true);
    const joined = viewed(loopsOver(this.graph.nodes[source].shape), strides, loopsOver(node.shape));
    return joined && { base, offset, strides: joined };
  }

  /** Strides over all dimensions of a value, of which `locate` leaves those of one place out. */
  stridesOf(
    ref: Ref,
    unturned = false,
  ): { base: Ref; slot: number; offset: number; kind: StridedAccess["kind"]; strides: number[] } {
    const { shape } = this.graph.nodes[ref], { base, offset, strides } = this.located(ref, unturned);
    const slot = this.bufferOf.get(base)!;
    let next = 0;
    return {
      ...{ base, offset, slot, kind: this.buffers[slot].kind },
      strides: shape.map((size) => size > 1 ? strides[next++] : 0),
    };
  }

  #kernelsKind(buffer: number): StridedAccess["kind"] {
    const { ref, kind, other } = this.buffers[buffer];
    if (other !== undefined) throw new Error(`internal: a kernel reads ${other} of ${ref}.`);
    return kind;
  }

  /** Values lie there when this part begins, or when it ends. */
  memoryAt(part: number): BufferMap {
    const bufferOf = (ref: Ref) => this.at.get(ref)! <= part ? this.bufferOf.get(ref) ?? null : null;
    return {
      graph: this.graph,
      bufferOf,
      kindOf: (buffer) => this.#kernelsKind(buffer),
      limits: this.options.libraryProducts ? OF_GPU : OF_CPU,
    };
  }

  /**
   * A value as an argument of a call. A dimension of size 1 has the stride of a whole tensor: libtorch's convolutions
   * read from strides how images lie.
   */
  argument(ref: Ref, unturned = false): [Ref, CallTensor] {
    const { base, slot, offset, kind, strides } = this.stridesOf(ref, unturned), node = this.graph.nodes[ref];
    const { shape: sizes } = node, whole = [...strides];
    // From the innermost dimension to the outermost one.
    const order = node.op === "permute" ? sizes.map((_, i) => node.dims.indexOf(i)) : [...sizes.keys()];
    order.toReversed().forEach((dim, i, inner) => {
      if (sizes[dim] === 1) whole[dim] = i === 0 ? 1 : whole[inner[i - 1]] * sizes[inner[i - 1]];
    });
    return [ref, {
      slot,
      offset,
      kind: kind === "place" ? "i64" : kind,
      sizes,
      strides: whole,
      own: offset === 0 && this.#isOwn(base, sizes, strides),
    }];
  }

  /** The dimensions of a call's tensor, by those of the value. */
  #orderOf(node: Node): readonly number[] {
    if (node.op === "call" || node.op === "result") {
      const call = node.op === "call" ? node : this.graph.nodes[node.args[0]] as Node & { op: "call" };
      if (liesByTokens(call.schema, node.op === "call" ? 0 : node.index)) return BY_TOKENS;
      if (node.last) return FIRST;
    }
    return [...node.shape.keys()];
  }

  /** The tensor itself that a call gave lies so. */
  #isOwn(base: Ref, sizes: readonly number[], strides: readonly number[]): boolean {
    const node = this.graph.nodes[base], natural = rowMajor(node.shape);
    const order = this.#orderOf(node);
    return String(sizes) === String(order.map((dim) => node.shape[dim])) &&
      sizes.every((size, i) => size === 1 || strides[i] === natural[order[i]]);
  }
}
