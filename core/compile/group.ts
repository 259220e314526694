// One group: loops that compute some values of a graph together, from values in memory. What lies between is computed
// where it is needed, in registers.
import {
  type Access,
  accessKey,
  broadcastAccess,
  indicesAt,
  isView,
  linearAccess,
  loopsOver,
  rowMajor,
  through,
  wholeAccess,
} from "./access.ts";
import type { Graph, Node, Ref } from "./graph.ts";
import type { GroupKernel, Instruction, Operand, Reduction, Stage, Store, StridedAccess } from "./kernel.ts";

/** This value has to be in memory, or the group can't be built. */
export class NotInMemory extends Error {
  constructor(readonly ref: Ref) {
    super(`internal: value ${ref} is not in memory.`);
  }
}

/** These values don't go into one group. */
export class UnfitGroup extends Error {}

export interface BufferMap {
  readonly graph: Graph;
  /** The number of the buffer that a value lies in, or will lie in; null where it lies in none. */
  bufferOf(ref: Ref): number | null;
  /** The type of what lies in a buffer is this. */
  kindOf(buffer: number): StridedAccess["kind"];
  readonly limits: Limits;
}

/** So much is one group at most. */
export interface Limits {
  readonly accesses: number;
  readonly instructions: number;
}

const SLOW: ReadonlySet<string> = new Set([
  ...["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "pow"],
]);

/** The values that the loops of a group are over. */
export const spaceOf = (graph: Graph, ref: Ref): number[] => {
  const node = graph.nodes[ref];
  return loopsOver(isReduction(node) ? graph.nodes[node.args[0]].shape : node.shape);
};

export const isReduction = (node: Node): node is Node & { op: "sum" | "amax" } =>
  node.op === "sum" || node.op === "amax";

interface Reduced {
  readonly over: readonly boolean[];
  readonly op: "sum" | "amax";
  readonly value: Operand;
  readonly to: StridedAccess | null;
}

interface RawStage {
  readonly instructions: Instruction[];
  readonly stores: Store[];
  readonly reductions: Reduced[];
}

export interface BuiltGroup {
  readonly kernel: GroupKernel;
  /** Buffers. */
  readonly reads: ReadonlySet<number>;
  readonly writes: ReadonlySet<number>;
  /** Values that are computed here and are not in memory. */
  readonly inner: ReadonlySet<Ref>;
  /** These, and views that are read through: a group is another one as soon as any of them is in memory. */
  readonly absent: ReadonlySet<Ref>;
}

/** `stored` says whether anybody reads the value behind this group. */
export function buildGroup(
  memory: BufferMap,
  sinks: readonly Ref[],
  name: string,
  stored: (ref: Ref) => boolean = () => true,
): BuiltGroup {
  return new Builder(memory, sinks, name, stored).build();
}

class Builder {
  readonly #sizes: readonly number[];
  readonly #stages: RawStage[] = [];
  readonly #stageOf = new Map<Ref, number>();
  readonly #rows = new Map<Ref, number>();
  readonly #reads = new Set<number>();
  readonly #writes = new Set<number>();
  readonly #inner = new Set<Ref>();
  readonly #absent = new Set<Ref>();
  readonly #accesses = new Set<string>();
  /** The first stage that computes a slow value. */
  readonly #computed = new Map<string, { readonly stage: number; readonly value: Operand }>();
  readonly #carriers = new Set<Ref>();
  #stagesOfSinks: readonly number[] = [];
  #memo = new Map<string, Operand>();
  #stage = 0;

  constructor(
    readonly memory: BufferMap,
    readonly sinks: readonly Ref[],
    readonly name: string,
    readonly stored: (ref: Ref) => boolean,
  ) {
    this.#sizes = spaceOf(memory.graph, sinks[0]);
  }

  build(): BuiltGroup {
    const stages = this.#stagesOfSinks = this.sinks.map((ref) => this.#stageOfSink(ref));
    const last = Math.max(...stages);
    for (this.#stage = 0; this.#stage <= last; this.#stage++) {
      this.#memo = new Map();
      this.#stages.push({ instructions: [], stores: [], reductions: [] });
      this.sinks.forEach((ref, i) => stages[i] === this.#stage && this.#put(ref));
    }
    const instructions = this.#stages.reduce((all, stage) => all + stage.instructions.length, 0);
    const { limits } = this.memory;
    if (this.#accesses.size > limits.accesses || instructions > limits.instructions) {
      throw new UnfitGroup(`${this.#accesses.size} walks`);
    }
    const { sizes, stages: done } = collapse(this.#sizes, this.#stages);
    return {
      kernel: { kernel: "group", name: this.name, sizes, stages: done },
      reads: this.#reads,
      writes: this.#writes,
      inner: this.#inner,
      absent: this.#absent,
    };
  }

  get #now(): RawStage {
    return this.#stages[this.#stage];
  }

  #node(ref: Ref): Node {
    return this.memory.graph.nodes[ref];
  }

  #isRow(ref: Ref): boolean {
    const over = this.#reducedDims(ref);
    return over.at(-1) === true && over.includes(false);
  }

  /** True for the loops that a reduction is over. */
  #reducedDims(ref: Ref): boolean[] {
    const node = this.#node(ref) as Node & { op: "sum"; dims: readonly number[] };
    const shape = this.#node(node.args[0]).shape;
    return shape.flatMap((size, i) => size > 1 ? [node.dims.includes(i)] : []);
  }

  #stageOfSink(ref: Ref): number {
    const node = this.#node(ref);
    return isReduction(node) ? this.#stageOfValue(node.args[0]) : this.#stageOfValue(ref, true);
  }

  /** The first stage in which a value is known. */
  #stageOfValue(ref: Ref, itself = false): number {
    const known = this.#stageOf.get(ref);
    if (known !== undefined) return known;
    const node = this.#node(ref);
    let stage = 0;
    if (isReduction(node)) {
      if (this.sinks.includes(ref)) {
        stage = this.#stageOfValue(node.args[0]) + (this.#isRow(ref) ? 1 : 0);
      }
    } else if (itself || this.sinks.includes(ref) || this.memory.bufferOf(ref) === null) {
      const args = "args" in node ? node.args as readonly Ref[] : [];
      stage = Math.max(0, ...args.map((arg) => this.#stageOfValue(arg)));
    }
    this.#stageOf.set(ref, stage);
    return stage;
  }

  #put(ref: Ref): void {
    const node = this.#node(ref), graph = this.memory.graph;
    const slot = this.memory.bufferOf(ref);
    if (isReduction(node)) {
      const shape = graph.nodes[node.args[0]].shape;
      const access = wholeAccess(shape);
      const value = this.#emit(node.args[0], access);
      const over = this.#reducedDims(ref);
      const row = this.#isRow(ref);
      const wanted = slot !== null && (!row || this.stored(ref));
      const kept = access.map((index, i) =>
        node.dims.includes(i) ? { offset: 0, coefficients: this.#sizes.map(() => 0) } : index
      );
      const to = wanted
        ? this.#stridedAccess(slot, linearAccess(kept, node.shape, this.#sizes.length))
        : null;
      if (row) this.#rows.set(ref, this.#rows.size);
      if (wanted) this.#writes.add(slot);
      this.#now.reductions.push({ over, op: node.op, value, to });
      return;
    }
    if (slot === null || !this.stored(ref)) return;
    const value = this.#emit(ref, wholeAccess(node.shape));
    const strides = rowMajor(loopsOver(node.shape));
    this.#writes.add(slot);
    this.#now.stores.push({ value, to: this.#stridedAccess(slot, { offset: 0, strides }) });
  }

  #stridedAccess(
    slot: number,
    { offset, strides }: { offset: number; strides: readonly number[] },
  ): StridedAccess {
    this.#accesses.add(`${slot}+${offset}:${strides}`);
    return { slot, offset, strides, kind: this.memory.kindOf(slot) };
  }

  #emit(ref: Ref, access: Access): Operand {
    const key = `${ref}@${accessKey(access)}`;
    const known = this.#memo.get(key);
    if (known !== undefined) return known;
    const made = this.#make(ref, access);
    this.#memo.set(key, made);
    return made;
  }

  #add(instruction: Instruction): Operand {
    return this.#now.instructions.push(instruction) - 1;
  }

  #load(slot: number, at: { offset: number; strides: readonly number[] }): Operand {
    this.#reads.add(slot);
    return this.#add({ op: "load", from: this.#stridedAccess(slot, at) });
  }

  #make(ref: Ref, access: Access): Operand {
    const node = this.#node(ref), { graph } = this.memory;
    const loops = this.#sizes.length;
    if (node.op === "number") return this.#add({ op: "number", value: node.value });
    const slot = this.memory.bufferOf(ref);
    if (this.sinks.includes(ref)) {
      if (isReduction(node)) return this.#reduced(ref, node, access);
      if (accessKey(access) !== accessKey(wholeAccess(node.shape))) {
        throw new UnfitGroup("another element of its own result");
      }
      if (this.#stageOf.get(ref)! < this.#stage && slot !== null && this.stored(ref)) {
        return this.#load(slot, linearAccess(access, node.shape, loops)); // an earlier stage has stored it
      }
    } else if (slot !== null) return this.#load(slot, linearAccess(access, node.shape, loops));
    if (slot === null) this.#absent.add(ref);
    if (isView(node)) return this.#view(node, access);
    if (node.op === "copy") return this.#emit(node.args[0], access);
    if (!("args" in node) || node.op === "call" || node.op === "result" || node.op === "gemm") {
      throw new NotInMemory(ref);
    }
    if (node.op === "cat" || node.op === "embed" || isReduction(node)) throw new NotInMemory(ref);
    const carried = SLOW.has(node.op) ? this.#carried(ref, access) : null;
    if (carried !== null) return carried;
    const args = node.args.map((arg) =>
      this.#emit(arg, broadcastAccess(access, graph.nodes[arg].shape, loops))
    );
    if (slot === null) this.#inner.add(ref);
    const value = this.#add({ op: node.op, args });
    const key = `${ref}@${accessKey(access)}`;
    if (SLOW.has(node.op) && !this.#computed.has(key)) this.#computed.set(key, { stage: this.#stage, value });
    return value;
  }

  /** An earlier stage's value comes through the memory of one that this stage writes: exp(x) where exp(x) / sum will lie. */
  #carried(ref: Ref, access: Access): Operand | null {
    const before = this.#computed.get(`${ref}@${accessKey(access)}`);
    if (before === undefined || before.stage === this.#stage) return null;
    const carrier = this.sinks.find((sink, i) => {
      const node = this.#node(sink);
      return this.#stagesOfSinks[i] === this.#stage && !isReduction(node) && node.kind === "f32" &&
        !this.#carriers.has(sink) && node.half === undefined && this.memory.bufferOf(sink) !== null &&
        this.stored(sink) &&
        accessKey(wholeAccess(node.shape)) === accessKey(access) &&
        loopsOver(node.shape).length === this.#sizes.length;
    });
    if (carrier === undefined) return null;
    this.#carriers.add(carrier);
    const strides = rowMajor(loopsOver(this.#node(carrier).shape));
    const strided = this.#stridedAccess(this.memory.bufferOf(carrier)!, { offset: 0, strides });
    this.#stages[before.stage].stores.push({ value: before.value, to: strided });
    return this.#add({ op: "load", from: strided });
  }

  #reduced(ref: Ref, node: Node & { op: "sum" | "amax" }, access: Access): Operand {
    const reduction = this.#rows.get(ref);
    const loops = this.#sizes.length;
    const rows = wholeAccess(this.#node(node.args[0]).shape).map((index, i) =>
      node.dims.includes(i) ? { offset: 0, coefficients: new Array<number>(loops).fill(0) } : index
    );
    if (reduction === undefined || accessKey(rows) !== accessKey(access)) {
      throw new UnfitGroup("a sum that is not whole yet");
    }
    return this.#add({ op: "reduced", reduction });
  }

  #view(node: Node, access: Access): Operand {
    const source = (node as { args: readonly Ref[] }).args[0], { graph } = this.memory;
    const loops = this.#sizes.length;
    const slot = this.memory.bufferOf(source);
    if (node.op === "reshape" && slot !== null && !this.sinks.includes(source)) {
      return this.#load(slot, linearAccess(access, node.shape, loops));
    }
    const viewed = node.op === "reshape"
      ? indicesAt(linearAccess(access, node.shape, loops), graph.nodes[source].shape, this.#sizes)
      : through(graph, node, access, this.#sizes);
    if (viewed === null) throw new NotInMemory(source); // laid out in its own order, it can be read in any shape
    return this.#emit(source, viewed);
  }
}

/** Loops that every access goes through as if they were one become one. */
function collapse(
  sizes: readonly number[],
  stages: readonly RawStage[],
): { sizes: number[]; stages: Stage[] } {
  const accesses = stages.flatMap(({ instructions, stores, reductions }) => [
    ...instructions.flatMap((one) =>
      one.op === "load" ? [(one as { from: StridedAccess }).from.strides] : []
    ),
    ...stores.map(({ to }) => to.strides),
    ...reductions.flatMap(({ to }) => to ? [to.strides] : []),
  ]);
  const sums = stages.flatMap(({ reductions }) => reductions.map(({ over }) => over));
  const groups: number[][] = [];
  sizes.forEach((_, i) => {
    const joins = i > 0 &&
      accesses.every((strides) => strides[i - 1] === strides[i] * sizes[i]) &&
      sums.every((over) => over[i - 1] === over[i]);
    if (joins) groups.at(-1)!.push(i);
    else groups.push([i]);
  });
  if (groups.length === 0) groups.push([]);
  const narrowed = (strided: StridedAccess): StridedAccess => ({
    ...strided,
    strides: groups.map((dims) => dims.length === 0 ? 0 : strided.strides[dims.at(-1)!]),
  });
  const overOf = (over: readonly boolean[]): Reduction["over"] => {
    const dims = groups.map((group) => group.length === 0 || over[group[0]]);
    if (dims.every((reduced) => reduced)) return "all";
    const last = dims.at(-1)!, others = dims.slice(0, -1);
    if (last && others.every((reduced) => !reduced)) return "row";
    if (!last && others.every((reduced) => reduced)) return "column";
    throw new UnfitGroup("a sum over loops that are neither the first nor the last");
  };
  return {
    sizes: groups.map((dims) => dims.reduce((all, i) => all * sizes[i], 1)),
    stages: stages.map(({ instructions, stores, reductions }) => ({
      instructions: instructions.map((one) =>
        one.op === "load" ? { op: "load", from: narrowed((one as { from: StridedAccess }).from) } : one
      ),
      stores: stores.map(({ value, to }) => ({ value, to: narrowed(to) })),
      reductions: reductions.map(({ over, op, value, to }) => ({
        over: overOf(over),
        op,
        value,
        to: to && narrowed(to),
      })),
    })),
  };
}
