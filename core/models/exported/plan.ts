// Prepares a graph to run: names become slots, nodes become steps, and a step frees what it is the last to
// use. All faults are found here, before anything runs.
import { autocast, type Half } from "../../../ffi/context.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { type Operator, operator } from "../../../ffi/operators.ts";
import { clone, copy_ } from "../../../ffi/ops.ts";
import type { Schema } from "../../../ffi/schema.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import {
  type ArgumentSource,
  argumentSource,
  asTensor,
  type GraphFrame,
  resolveOperator,
  UnfitOperator,
} from "./operators.ts";
import {
  type ExportedProgram,
  type GraphMark,
  graphMarkOf,
  type GraphMode,
  type GraphNode,
  type GraphValue,
  sourceLineOf,
} from "./graph.ts";
import { averaged, draws, keptShares, mayReturn } from "./admitted.ts";
import { drawnForSamples, drawnWhileJudged, rowsOfSample } from "./judged_draws.ts";
import type { GraphStep, GraphSteps, SlotKind } from "./steps.ts";
import { Region } from "./vmap.ts";

export interface GraphProblem {
  readonly target: string;
  readonly why: string;
  readonly place: string;
}

export interface GraphPlan extends GraphSteps {
  readonly slots: number;
  slotOf(name: string): number;
  readonly draws: boolean;
  /** These draw in evaluation, too. */
  readonly drawing: readonly GraphNode[];
  readonly problems: readonly GraphProblem[];
}

export function planGraph(program: ExportedProgram, path: string): GraphPlan {
  const planner = new Planner(program, path);
  for (const node of program.nodes) planner.add(node);
  return planner.plan();
}

class Planner {
  readonly #slots = new Map<string, number>();
  readonly #kinds: SlotKind[] = [];
  readonly #roots: number[] = [];
  /**
   * Autograd forbids writes to these slots where they have a gradient: it throws, which only the dispatcher
   * catches.
   */
  readonly #tied = new Set<number>();
  readonly #steps: GraphStep[] = [];
  readonly #readers: { readonly step: GraphStep; readonly copied: Set<number> }[] = [];
  /** It is null outside of any torch.vmap. */
  #region: Region | null = null;
  readonly #closed = new Set<number>();
  #refused = 0;
  readonly #problems: GraphProblem[] = [];
  readonly #kept: ReadonlyMap<string, number>;
  #draws = false;
  readonly #drawing: readonly GraphNode[];

  constructor(readonly program: ExportedProgram, readonly path: string) {
    this.#kept = keptShares(program);
    this.#drawing = drawnWhileJudged(program);
    for (const input of program.inputs) {
      if (input.kind === "user") {
        if (input.value.kind === "tensor") this.#slot(input.value.name, "input");
        else if (input.value.kind === "symbol") this.#slot(input.value.name, "number");
      } else if (input.kind !== "other") this.#slot(input.name, this.#kindOf(input));
      else {
        this.#problems.push({
          target: `an input of the kind "${input.name}"`,
          why: "only tensors can be inputs",
          place: "",
        });
      }
    }
    for (const { kind, of } of program.outputs) {
      const input = program.inputs.find((i) => i.kind === "parameter" && i.of === of);
      if (kind !== "parameter" || input?.kind !== kind || this.#kindOf(input) !== kind) continue;
      this.#problems.push({ target: `the parameter ${of}`, why: MOVED, place: "" });
    }
  }

  /** Forward may move a parameter that is not trained, such as a momentum encoder's, like a buffer. */
  #kindOf(
    { kind, name }: { readonly kind: "parameter" | "buffer" | "constant"; readonly name: string },
  ): SlotKind {
    const frozen = kind === "parameter" && this.program.tensors.get(name)?.requiresGrad === false;
    return frozen ? "buffer" : kind;
  }

  #slot(name: string, kind: SlotKind, root = -1): number {
    const slot = this.#kinds.length;
    this.#slots.set(name, slot);
    this.#kinds.push(kind);
    this.#roots.push(root < 0 ? slot : root);
    if (kind === "made") this.#region?.makes(slot);
    return slot;
  }

  #find = (name: string): number => {
    const slot = this.#slots.get(name);
    if (slot === undefined) {
      throw new UnfitOperator(`it uses ${JSON.stringify(name)}, which nothing has made`);
    }
    if (this.#closed.has(slot)) {
      throw new UnfitOperator(
        `it uses ${JSON.stringify(name)}, which means nothing outside of its torch.vmap`,
      );
    }
    return slot;
  };

  add(node: GraphNode): void {
    try {
      const mark = graphMarkOf(node.target);
      if (mark) return this.#vmap(mark, node);
      const found = resolveOperator(node.target);
      if (found.kind === "missing") throw new UnfitOperator(found.why);
      if (found.kind === "nothing" || this.#changesNothing(node)) return;
      this.#push(
        found.kind === "numbers"
          ? this.#numberStep(node, found.run)
          : this.#opStep(node, found.op, found.name),
      );
    } catch (error) {
      if (!(error instanceof UnfitOperator)) throw error;
      this.#problems.push({ target: node.target, why: error.message, place: sourceLineOf(node) });
      this.#declare(node);
    }
  }

  #push(step: GraphStep): void {
    (this.#region?.steps ?? this.#steps).push(step);
  }

  #vmap(mark: GraphMark, node: GraphNode): void {
    if (mark === "nothing") return;
    if (this.#refused > 0) return this.#inRefused(mark, node);
    if (mark === "begin") {
      this.#refused++;
      this.#region = new Region(node, this.#region, this.#find);
      this.#refused--;
      return;
    }
    const region = this.#region;
    if (!region) throw new UnfitOperator("its torch.vmap has not begun");
    if (mark === "end") {
      const step = region.end({ kinds: this.#kinds, roots: this.#roots }, this.path);
      for (const slot of region.closed) this.#closed.add(slot);
      this.#region = region.around;
      this.#push(step);
      return;
    }
    const [given] = node.inputs, [made] = node.outputs;
    if (given?.value.kind !== "tensor" || made?.kind !== "tensor") {
      throw new UnfitOperator("it is given no tensor");
    }
    const from = this.#find(given.value.name), to = this.#slot(made.name, "made", this.#roots[from]);
    this.#tied.add(to);
    this.#push(mark === "hide" ? region.hide(node, from, to) : region.show(node, from, to));
  }

  #inRefused(mark: GraphMark, node: GraphNode): void {
    if (mark === "begin") this.#refused++;
    else if (mark === "end") this.#refused--;
    else this.#declare(node);
  }

  /**
   * Losses stretch prediction and targets over each other, most often to the shape that both have. Each then
   * stays as it was, so the prediction needs no targets.
   */
  #changesNothing({ target, inputs, outputs }: GraphNode): boolean {
    const [given] = inputs, [made] = outputs;
    if (target !== "torch.ops.aten.broadcast_tensors.default") return false;
    if (given?.value.kind !== "tensors" || made?.kind !== "tensors") return false;
    const sizes = (name: string | null) => this.program.tensors.get(name ?? "")?.sizes.join();
    const from = given.value.names, { names } = made;
    const all = [...from, ...names].map(sizes);
    if (from.length !== names.length || all[0] === undefined || all.some((one) => one !== all[0])) {
      return false;
    }
    names.forEach((name, i) => name !== null && this.#slots.set(name, this.#find(from[i]!)));
    return true;
  }

  #declare(node: GraphNode): void {
    const names = node.outputs.flatMap((v) =>
      v.kind === "tensor" || v.kind === "symbol" ? [v.name] : v.kind === "tensors" ? v.names : []
    );
    for (const name of names) if (name && !this.#slots.has(name)) this.#slot(name, "made");
  }

  #numberStep(node: GraphNode, run: (...args: never[]) => number): GraphStep {
    const uses: number[] = [];
    const slotOf = (name: string) => {
      const slot = this.#find(name);
      uses.push(slot);
      return slot;
    };
    const given = node.inputs.map(({ value }) => value);
    const inputs = (sizeElsewhere(this.program, node) ?? given).map((value) => {
      if (value.kind === "tensor" || value.kind === "symbol") return { slot: slotOf(value.name), fixed: 0 };
      if (value.kind === "number") return { slot: -1, fixed: value.value };
      throw new UnfitOperator("it is given something that is no number");
    });
    const [output] = node.outputs;
    if (output?.kind !== "symbol") throw new UnfitOperator("it does not give one number");
    const out = this.#slot(output.name, "number");
    const call = run as (...args: unknown[]) => number;
    return {
      node,
      run({ values }) {
        values[out] = call(...inputs.map(({ slot, fixed }) => slot < 0 ? fixed : values[slot]));
      },
      dead: [],
      uses,
      defines: [out],
      writes: -1,
    };
  }

  #opStep(node: GraphNode, op: Operator, name: string): GraphStep {
    const { schema } = op;
    const given = new Map(node.inputs.map((input) => [input.name, input.value]));
    const unknown = [...given.keys()].find((key) => !schema.args.some((a) => a.name === key));
    if (unknown !== undefined) {
      throw new UnfitOperator(`this libtorch's operation has no argument ${JSON.stringify(unknown)}`);
    }
    const uses: number[] = [];
    const slotOf = (text: string) => {
      const slot = this.#find(text);
      uses.push(slot);
      return slot;
    };
    let sources = schema.args.map((a) => argumentSource(a, given.get(a.name), slotOf));
    const first = sources.flatMap((s) => "slot" in s && s.slot !== undefined ? [s.slot] : [])
      .find((slot) => this.#kinds[slot] !== "number") ?? -1;
    const numbers = schema.args.some((a) => a.base === "Tensor" && isNumber(given.get(a.name)));
    if (numbers && !op.numbers) {
      sources = sources.map((s, i) => schema.args[i].base === "Tensor" ? asTensor(s, first) : s);
    }
    const written = schema.args.findIndex(({ memory }) => memory === "written");
    const target = written < 0 ? -1 : slotIn(sources[written]);
    const viewed = schema.args.findIndex(({ memory }) => memory === "shared");
    const base = this.#baseOf(viewed >= 0 ? viewed : mayReturn(name), schema.args, given);
    const root = target >= 0 ? this.#roots[target] : base >= 0 ? this.#roots[base] : -1;
    if (written >= 0) this.#refuseWrite(op, written, target, root);
    this.#region?.refuse(name, written >= 0 ? root : null);
    this.#refuseStatistics(name, sources);
    const out = this.#outputs(node, op, target, root);
    if (
      base >= 0 &&
      (viewed < 0 || schema.returns[0]?.list || node.mode?.grad === false || this.#tied.has(base))
    ) {
      for (const slot of out.flat()) this.#tied.add(slot);
    }
    const plain = numbers && op.numbers ? op.numbers : op.call!;
    this.#draws ||= draws(name, op);
    const average = averaged(name, schema.overload, this.#kept.get(nameIn(node.outputs[0])));
    const netted = this.#tied.has(target) || (written >= 0 && this.#region !== null);
    const single = netted ? byCopy(op, plain) : plain, draw = this.#drawing.indexOf(node);
    const call = draw >= 0 && !this.#region
      ? drawnForSamples(single, op, { draw, rows: rowsOfSample(this.program, node), written })
      : statistics(op, single, average);
    const store = storeOf(out, schema.returns.length === 1 && schema.returns[0].list);
    const guarded = written >= 0 && this.#keeps(root);
    const copied = new Set<number>();
    const run = stepOf(call, sources, store, { written: guarded ? written : -1, copied });
    const step = {
      node,
      run: node.mode ? inMode(node.mode, run) : run,
      dead: [],
      uses: [...new Set(uses)],
      defines: out.flat().filter((slot) => slot >= 0),
      writes: written >= 0 ? root : -1,
    };
    if (base < 0 && written < 0 && node.mode?.grad !== false) this.#readers.push({ step, copied });
    return step;
  }

  /**
   * Backward needs what a step has read, and a later one moves the buffer: Python's module has a tensor of its
   * own there, as in self.bank = self.bank.index_copy(...), where the exporter writes a copy into the buffer.
   */
  #copyBeforeWrites(): void {
    const lastWrite = new Map<number, number>(), places = new Map(this.#steps.map((step, i) => [step, i]));
    this.#steps.forEach(({ writes }, i) => this.#keeps(writes) && lastWrite.set(writes, i));
    for (const { step, copied } of this.#readers) {
      const at = places.get(step) ?? Infinity; // A step inside of torch.vmap has its own tensors.
      for (const slot of step.uses) {
        if (at < (lastWrite.get(this.#roots[slot]) ?? -1)) copied.add(slot);
      }
    }
  }

  /** An argument's views share the memory of this slot: in a list, the one that most forbids writes. */
  #baseOf(at: number, args: Schema["args"], given: ReadonlyMap<string, GraphValue>): number {
    const value = at < 0 ? undefined : given.get(args[at].name);
    const names = value?.kind === "tensor" ? [value.name] : value?.kind === "tensors" ? value.names : [];
    const slots = names.flatMap((name) => name === null ? [] : [this.#find(name)]);
    const kindOf = (slot: number) => this.#kinds[this.#roots[slot]];
    for (const kind of ["parameter", "buffer", "constant", "input"]) {
      const found = slots.find((slot) => kindOf(slot) === kind);
      if (found !== undefined) return found;
    }
    return slots[0] ?? -1;
  }

  /** Batch norm moves its running statistics, but its schema does not show it. */
  #refuseStatistics(name: string, sources: readonly ArgumentSource[]): void {
    if (!/^(batch_norm|instance_norm)$/.test(name)) return;
    for (const slot of [slotIn(sources[3]), slotIn(sources[4])]) {
      const kind = slot < 0 ? "buffer" : this.#kinds[this.#roots[slot]];
      if (kind === "parameter" || kind === "input") {
        throw new UnfitOperator(
          `its running statistics are ${kind === "input" ? "an input" : "a parameter"}`,
        );
      }
    }
  }

  /** This memory outlives a run: evaluation and a second pass write to a copy of it. */
  #keeps(root: number): boolean {
    return root >= 0 && (this.#kinds[root] === "buffer" || this.#kinds[root] === "constant");
  }

  #refuseWrite({ schema }: Operator, written: number, target: number, root: number): void {
    // Only the written argument comes back: an op in place, or one with an out argument.
    const alone = schema.args.findLastIndex(({ memory }) => memory === "written") === written;
    if (!alone || schema.returns.length !== 1 || schema.returns[0].argument !== written) {
      throw new UnfitOperator("it writes to an argument given for its result");
    }
    if (target < 0) throw new UnfitOperator("it writes to a list");
    if (this.#kinds[root] === "parameter") {
      throw new UnfitOperator(MOVED);
    }
  }

  /** A result has a slot, a list has a list of slots; -1 is for no name. */
  #outputs(node: GraphNode, { schema }: Operator, target: number, root: number): (number | number[])[] {
    refuseOutputs(node.outputs, schema.returns);
    const one = (name: string | null): number => {
      if (!name) return -1;
      if (target >= 0 && !this.#keeps(root)) {
        this.#slots.set(name, target);
        return target;
      }
      return this.#slot(name, "made", root);
    };
    if (node.outputs.length === 1 && node.outputs[0].kind === "tensors" && schema.returns.length > 1) {
      return node.outputs[0].names.map(one);
    }
    return node.outputs.map((value: GraphValue) => {
      if (value.kind === "tensors") return value.names.map(one);
      if (value.kind === "tensor") return one(value.name);
      if (value.kind === "none") return -1;
      if (value.kind === "symbol") return this.#slot(value.name, "number");
      throw new UnfitOperator("it gives something that is no tensor");
    });
  }

  plan(): GraphPlan {
    if (this.#region) {
      const { node } = this.#region;
      this.#problems.push({
        target: node.target,
        why: "its torch.vmap has no end",
        place: sourceLineOf(node),
      });
    }
    this.#copyBeforeWrites();
    return {
      steps: this.#steps,
      slots: this.#kinds.length,
      kinds: this.#kinds,
      roots: this.#roots,
      slotOf: this.#find,
      draws: this.#draws,
      drawing: this.#drawing,
      problems: this.#problems,
    };
  }
}

/** A node names as many results, a list for a list, or several under one list. */
function refuseOutputs(
  outputs: readonly GraphValue[],
  returns: readonly { list: boolean; base: string }[],
): void {
  const [only] = outputs, together = outputs.length === 1 && only.kind === "tensors" && returns.length > 1;
  if (together || (returns.length === 0 && outputs.every(({ kind }) => kind === "none"))) return;
  if (outputs.length !== returns.length) {
    throw new UnfitOperator(`it gives ${returns.length} results, and ${outputs.length} are named here`);
  }
  outputs.forEach(({ kind }, i) => {
    if (kind !== "none" && (kind === "tensors") !== returns[i].list) {
      throw new UnfitOperator(
        returns[i].list
          ? "it gives a list, and one tensor is named here"
          : "it gives one tensor, and a list is named here",
      );
    }
  });
}

/**
 * A size that two inputs share is read from the earlier one: the exporter chose either by chance, and the
 * targets are not there yet when a prediction is made.
 */
function sizeElsewhere(
  { inputs, tensors }: ExportedProgram,
  { target, inputs: [of, dim] }: GraphNode,
): GraphValue[] | null {
  if (!/^torch\.ops\.aten\.sym_size\./.test(target) || of?.value.kind !== "tensor") return null;
  const { name } = of.value, at = dim?.value.kind === "number" ? dim.value.value : 0;
  const user = inputs.flatMap((i) => i.kind === "user" && i.value.kind === "tensor" ? [i.value.name] : []);
  const size = tensors.get(name)?.sizes.at(at);
  if (!user.includes(name) || typeof size !== "string") return null;
  for (const first of user) {
    const index = tensors.get(first)?.sizes.indexOf(size) ?? -1;
    if (index >= 0) return [{ kind: "tensor", name: first }, { kind: "number", value: index, as: "int" }];
  }
  return null;
}

const nameIn = (value: GraphValue | undefined): string => value?.kind === "tensor" ? value.name : "";
const isNumber = (value: GraphValue | undefined): boolean =>
  value?.kind === "number" || value?.kind === "symbol";

const MOVED = "forward writes to a parameter that is trained, which the optimizer would not know of";

/** These are called without the dispatcher's catch: an exception would end the process. */
const WITHOUT_NET = new Set(["add_", "sub_", "leaky_relu_", "elu_", "hardtanh_", "threshold_"]);

/** The dispatcher computes on a copy, with the same values, and autograd's refusal becomes a sentence. */
function byCopy({ schema }: Operator, plain: Call): Call {
  if (!WITHOUT_NET.has(schema.name)) return plain;
  const twin = operator(`aten::${schema.name.slice(0, -1)}`, schema.overload);
  const call = twin?.numbers ?? twin?.call;
  if (!call) throw new UnfitOperator("autograd lets nobody write there");
  return (x, ...rest) => scope(() => (copy_(x as Tensor, call(x, ...rest) as Tensor), x));
}

const slotIn = (source: ArgumentSource): number => "slot" in source ? source.slot ?? -1 : -1;

type Call = (...args: unknown[]) => unknown;
type Store = (frame: GraphFrame, result: unknown) => void;

function storeOf(out: (number | number[])[], list: boolean): Store {
  const put = (frame: GraphFrame, slot: number, value: unknown) => {
    if (slot >= 0) frame.values[slot] = value;
    else (value as Tensor)?.free?.();
  };
  const putAll = (frame: GraphFrame, slots: readonly number[], values: readonly unknown[]) => {
    if (slots.length > values.length) {
      throw new UnfitOperator(`it gives ${values.length} tensors, and ${slots.length} are named here`);
    }
    for (let i = 0; i < values.length; i++) put(frame, slots[i] ?? -1, values[i]);
  };
  if (list) return (frame, result) => putAll(frame, [out[0] ?? []].flat(), result as Tensor[]);
  if (out.length === 0) return (frame, result) => result === undefined || put(frame, -1, result);
  if (out.length === 1 && typeof out[0] === "number") {
    const [slot] = out;
    return (frame, result) => put(frame, slot, Array.isArray(result) ? result[0] : result);
  }
  return (frame, result) => {
    const all = result as (Tensor | Tensor[])[];
    all.forEach((value, i) =>
      Array.isArray(value)
        ? putAll(frame, [out[i] ?? []].flat(), value)
        : put(frame, (out[i] ?? -1) as number, value)
    );
  };
}

/**
 * Copies replace the argument `written` where buffers must not change (-1 for none), and the slots `copied`,
 * which backward may need as they are now.
 */
function stepOf(
  call: (frame: GraphFrame) => Call,
  sources: readonly ArgumentSource[],
  store: Store,
  { written, copied }: { readonly written: number; readonly copied: ReadonlySet<number> },
): GraphStep["run"] {
  const args = sources.map((s) => "fixed" in s ? s.fixed : undefined);
  const fill = sources.flatMap((s, at) => "fixed" in s ? [] : [{ at, slot: s.slot ?? -1, get: s.get }]);
  return (frame) => {
    const { values } = frame;
    for (let i = 0; i < fill.length; i++) {
      const { at, slot, get } = fill[i];
      args[at] = slot >= 0 ? values[slot] : get(frame);
      if (copied.has(slot) && frame.training) args[at] = clone(args[at] as Tensor);
    }
    if (written >= 0 && !frame.copies && (frame.again || !frame.training)) {
      args[written] = clone(args[written] as Tensor);
    }
    store(frame, call(frame)(...args));
  };
}

function statistics({ schema }: Operator, plain: Call, average: Call | null): (frame: GraphFrame) => Call {
  const { name, overload } = schema;
  if (name === "batch_norm" || name === "instance_norm") {
    const frozen: Call = (...args) => {
      args[3] = args[4] = null; // The running mean and variance moved in the first pass.
      return plain(...args);
    };
    const kept: Call = (...args) => {
      args[5] = !args[3]; // The batch's own statistics replace missing ones; instance norm names this flag use_input_stats.
      return plain(...args);
    };
    return ({ again, training }) => again && training ? frozen : training ? plain : kept;
  }
  if (name === "_native_batch_norm_legit" && overload === "no_stats") {
    const own: Call = (...args) => {
      args[3] = true;
      return plain(...args);
    };
    return () => own;
  }
  return average ? ({ training }) => training ? plain : average : () => plain;
}

/** autocast for another kind of device changes nothing. */
function inMode({ grad, autocast: cast }: GraphMode, run: GraphStep["run"]): GraphStep["run"] {
  const graded: GraphStep["run"] = grad === false ? (frame) => noGrad(() => run(frame)) : run;
  if (!cast) return graded;
  const { gpu } = cast, dtype = cast.dtype as Half | null;
  return (frame) =>
    (frame.device !== "cpu") === gpu ? autocast(dtype, gpu, () => graded(frame)) : graded(frame);
}
