// Runs an exported program: the steps of its graph in training and evaluation.
import { add, toDevice } from "../../../ffi/make.ts";
import { clone, copy_, reshape, toDtype, viewAsComplex } from "../../../ffi/ops.ts";
import { describe, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { Module } from "../nn/module.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import type { Activation, Block } from "../model.ts";
import type { GraphFrame } from "./operators.ts";
import { bindSizes, fitSizes } from "./check.ts";
import type { GraphPiece, Halves } from "./cuts.ts";
import type { ExportedProgram } from "./graph.ts";
import type { Signature, UnpackInputs, UserInput } from "./signature.ts";
import type { LowRank } from "./lora.ts";
import type { ExportedModule } from "./module.ts";
import type { GraphPlan } from "./plan.ts";
import { freeAfterLastUse, type GraphStep, runSteps } from "./steps.ts";

class ExportedPart extends Module {
  constructor(named: readonly (readonly [string, Tensor])[]) {
    super();
    for (const [name, tensor] of named) this.parameter(name, tensor);
  }
}

interface Update {
  readonly slot: number;
  readonly buffer: Tensor;
  readonly from: number;
}

/** An exporter may turn writes into outputs: the value then belongs into a buffer. */
export function updatesOf(program: ExportedProgram, plan: GraphPlan, root: ExportedModule): Update[] {
  return program.outputs.flatMap(({ kind, value, of }) => {
    const buffer = root.tensors.get(of);
    if ((kind !== "buffer" && kind !== "parameter") || value.kind !== "tensor" || !buffer) return [];
    const input = program.inputs.find((i) => (i.kind === "buffer" || i.kind === "parameter") && i.of === of);
    const from = input && "name" in input ? plan.slotOf(input.name) : -1;
    return [{ slot: plan.slotOf(value.name), buffer, from }];
  });
}

interface RunnerParts {
  readonly path: string;
  readonly program: ExportedProgram;
  readonly root: ExportedModule;
  readonly signature: Signature;
  readonly halves: Halves;
  readonly updates: readonly Update[];
  readonly prediction: number;
  /** It is null where the batch is the input, or the list of inputs. */
  readonly unpack: UnpackInputs | null;
  readonly lowRank: readonly LowRank[];
}

export class GraphRunner {
  readonly #frame: GraphFrame;
  readonly #written: ReadonlySet<number>;
  readonly #deferred: readonly Update[];
  /** The loss uses these slots. */
  readonly #judged: ReadonlySet<number>;
  readonly #lasting: ReadonlySet<Tensor>;
  /** Buffers as forward found them, for the loss. */
  readonly #read: Tensor[] = [];
  #symbols = new Map<string, number>();

  constructor(readonly parts: RunnerParts) {
    const { program, root, signature, halves: { body, tail, after, following } } = parts;
    this.#frame = {
      values: new Array(body.slots),
      device: "cpu",
      training: true,
      again: false,
      copies: false,
      judged: null,
    };
    this.#lasting = new Set(root.tensors.values());
    this.#written = new Set([...body.steps, ...tail.steps].map(({ writes }) => writes));
    this.#judged = new Set(tail.steps.flatMap(({ uses }) => uses));
    const deferred = new Set(tail.steps.flatMap(({ defines }) => defines));
    this.#deferred = parts.updates.filter(({ slot }) => deferred.has(slot));
    const wanted = [
      ...[parts.prediction, signature.loss?.slot ?? -1, ...following],
      ...this.#deferred.map(({ slot }) => slot),
    ];
    freeAfterLastUse(tail, 0, tail.steps.length, new Set(wanted));
    freeAfterLastUse(after, 0, after.steps.length, new Set(following));
    for (const input of program.inputs) {
      if (input.kind === "user" || input.kind === "other") continue;
      this.#frame.values[body.slotOf(input.name)] = root.tensors.get(input.of);
    }
  }

  block({ from, to, out, name }: GraphPiece, input: number): Block {
    const { halves: { body, between, following }, root, path, updates } = this.parts;
    const last = to === body.steps.length;
    const kept = new Set([out, ...between, ...following, ...(last ? updates.map(({ slot }) => slot) : [])]);
    if (from > 0) kept.add(input); // The input is the caller's.
    freeAfterLastUse(body, from, to, kept);
    const setWeights = this.#weightsOf(body.steps.slice(from, to));
    const moved = this.#movedIn(from, to), found: Tensor[] = [];
    const frame = this.#frame, early = updates.filter((update) => !this.#deferred.includes(update));
    const forward = (x: Activation): Activation => {
      frame.training = root.training;
      frame.again = root.forwardContext.pass === "second";
      if (from === 0) this.#bind(x);
      else frame.values[input] = x as Tensor;
      setWeights();
      if (moved.length === 0) runSteps(body.steps, from, to, frame, path);
      else this.#movingBuffers(moved, found, () => runSteps(body.steps, from, to, frame, path));
      if (last) {
        this.#update(early);
        this.#leave(out, input);
      }
      const result = frame.values[out] as Tensor;
      return result === x ? clone(result) : result;
    };
    return { name, module: this.#partOf(from, last ? Infinity : to), forward };
  }

  /** Parameters as these steps take them, at each call. */
  #weightsOf(steps: readonly GraphStep[]): () => void {
    const { values } = this.#frame, complex = this.#complexIn(steps), adapted = this.#adaptedIn(steps);
    return () => {
      for (const [slot, pairs] of complex) values[slot] = viewAsComplex(pairs);
      for (const [slot, own, { effective }] of adapted) values[slot] = effective(own);
    };
  }

  /** These steps take the parameters as complex numbers; they are trained as pairs. */
  #complexIn(steps: readonly GraphStep[]): [number, Tensor][] {
    const { program, root, halves: { body } } = this.parts;
    if (root.complex.size === 0) return [];
    const used = new Set(steps.flatMap(({ uses }) => uses));
    return program.inputs.flatMap((input): [number, Tensor][] => {
      if (input.kind !== "parameter") return [];
      const slot = body.slotOf(input.name), pairs = root.tensors.get(input.of)!;
      return used.has(slot) && root.complex.has(pairs) ? [[slot, pairs]] : [];
    });
  }

  /** These steps take the parameters with what adapters add to them. */
  #adaptedIn(steps: readonly GraphStep[]): [slot: number, own: Tensor, lowRank: LowRank][] {
    const { program, root, halves: { body }, lowRank } = this.parts;
    const used = new Set(steps.flatMap(({ uses }) => uses));
    return lowRank.flatMap((one): [number, Tensor, LowRank][] => {
      const input = program.inputs.find((i) => i.kind === "parameter" && i.of === one.weight);
      const slot = input?.kind === "parameter" ? body.slotOf(input.name) : -1;
      return used.has(slot) ? [[slot, root.tensors.get(one.weight)!, one]] : [];
    });
  }

  /** The steps from..to read these buffers, and forward writes to them somewhere. */
  #movedIn(from: number, to: number): number[] {
    const { steps, roots, kinds } = this.parts.halves.body;
    const used = new Set(steps.slice(from, to).flatMap(({ uses }) => uses.map((slot) => roots[slot])));
    return [...used].filter((slot) =>
      this.#written.has(slot) && (kinds[slot] === "buffer" || kinds[slot] === "constant")
    );
  }

  /**
   * Gradient checkpointing computes a block twice, and the second pass must find the buffers as the first
   * found them: the first pass copies them.
   */
  #movingBuffers(moved: readonly number[], found: Tensor[], run: () => void): void {
    const { values, again, training } = this.#frame;
    if (!again) {
      for (const copy of found.splice(0)) copy.free();
      if (training && this.parts.root.forwardContext.pass === "first") {
        for (const slot of moved) found.push(keep(clone(values[slot] as Tensor)));
      }
      return run();
    }
    if (found.length === 0) return run();
    const before = moved.map((slot) => values[slot]);
    moved.forEach((slot, i) => values[slot] = found[i]);
    this.#frame.copies = true;
    try {
      run();
    } finally {
      this.#frame.copies = false;
      moved.forEach((slot, i) => values[slot] = before[i]);
    }
  }

  /** Evaluation draws for the samples of the batch that comes next. */
  drawFor(seed: number, ids: Int32Array): void {
    this.#frame.judged = { seed, ids };
  }

  /** This is the loss of the last prediction: it may need more of the graph than that. */
  loss(target: Tensor): Tensor {
    const { halves: { tail, between, following }, signature, path, program } = this.parts,
      frame = this.#frame;
    const { loss, target: wanted } = signature;
    const slot = loss!.slot;
    const result = scope(() => {
      if (wanted) {
        const fitted = fittedTarget(path, wanted, target);
        bindSizes(path, wanted.label, wanted.meta, fitted, program, this.#symbols);
        frame.values[wanted.slot] = fitted;
      }
      this.#weightsOf(tail.steps)();
      runSteps(tail.steps, 0, tail.steps.length, frame, path);
      this.#keep(following);
      this.#update(this.#deferred);
      const made = frame.values[slot] as Tensor;
      const given = between.includes(slot) ? clone(made) : made; // The kept values are freed here.
      return given.shape.length === 0 ? given : reshape(given, []);
    });
    if (!this.#isFollowed) this.#forget();
    return result;
  }

  /** A step has updated the weights: others follow them. */
  afterStep(): void {
    const { halves: { after }, path } = this.parts;
    noGrad(() => scope(() => runSteps(after.steps, 0, after.steps.length, this.#frame, path)));
    this.#forget();
  }

  get #isFollowed(): boolean {
    return this.#frame.training && this.parts.halves.after.steps.length > 0;
  }

  /**
   * Losses that take turns. In evaluation all of them are computed at once, and are one sum.
   */
  turns(pieces: readonly GraphPiece[]): { block: Block; apply(): Tensor; begin(turn: number): void } {
    const { halves: { body, between, following }, path, root, updates, prediction } = this.parts;
    const frame = this.#frame, kept = [...between, ...following], setWeights = this.#weightsOf(body.steps);
    for (const { from, to } of pieces) {
      freeAfterLastUse(body, from, to, new Set([...kept, ...updates.map(({ slot }) => slot)]));
    }
    let turn = 0;
    const lossOf = ({ out }: GraphPiece) => reshape(clone(frame.values[out] as Tensor), []);
    return {
      begin: (now) => void (turn = now),
      block: {
        name: "turns",
        module: this.#partOf(0, Infinity),
        forward: (x) => {
          frame.training = root.training;
          frame.again = false;
          const now = root.training ? pieces.slice(turn, turn + 1) : pieces;
          if (now[0].from === 0) this.#bind(x);
          setWeights();
          for (const { from, to } of now) runSteps(body.steps, from, to, frame, path);
          if (now.at(-1) === pieces.at(-1)) this.#update(updates);
          this.#keep(kept);
          return (frame.values[prediction] ?? frame.values[now[0].out]) as Tensor;
        },
      },
      apply: () => {
        const losses = (root.training ? pieces.slice(turn, turn + 1) : pieces).map(lossOf);
        return losses.reduce((sum, one) => add(sum, one));
      },
    };
  }

  /**
   * The loss will use these values, so they outlive the block's scope, as the block's input and result do by
   * themselves.
   */
  #leave(out: number, input: number): void {
    const { halves: { between, following } } = this.parts;
    this.#keep([...between, ...following].filter((slot) => slot !== out && slot !== input));
  }

  #keep(slots: readonly number[]): void {
    const { values } = this.#frame, { kinds } = this.parts.halves.body;
    for (const slot of slots) {
      const value = values[slot] as Tensor | undefined;
      if (kinds[slot] === "made" && value && !value.kept) keep(value);
    }
  }

  /** The loss is made, or nobody wants it. */
  #forget(): void {
    const { values } = this.#frame;
    const { between, following } = this.parts.halves;
    for (const slot of new Set([...between, ...following])) {
      const value = values[slot] as Tensor | undefined;
      if (!value?.kept || this.#lasting.has(value)) continue; // an op in place gives its buffer itself
      value.free();
      values[slot] = undefined;
    }
    for (const old of this.#read.splice(0)) old.free();
  }

  #partOf(from: number, to: number): ExportedPart | null {
    const { program, root, halves: { body, tail }, lowRank } = this.parts;
    const steps = to === Infinity ? [...body.steps.slice(from), ...tail.steps] : body.steps.slice(from, to);
    const used = new Set(steps.flatMap(({ uses }) => uses.map((slot) => body.roots[slot])));
    const trained = new Map(root.namedParameters().map(([name, tensor]) => [tensor, name]));
    const named = program.inputs.flatMap((input): [string, Tensor][] => {
      if (input.kind !== "parameter" || !used.has(body.slotOf(input.name))) return [];
      const tensor = root.tensors.get(input.of)!;
      const beside = lowRank.find(({ weight }) => weight === input.of)?.named ?? [];
      return [tensor, ...beside.map(([, t]) => t)].flatMap((t) =>
        trained.has(t) ? [[trained.get(t)!, t] as [string, Tensor]] : []
      );
    });
    return named.length > 0 ? new ExportedPart(named) : null;
  }

  #bind(x: Activation): void {
    const { path, program, unpack, signature: { inputs }, halves: { between } } = this.parts;
    const frame = this.#frame;
    this.#forget(); // This belongs to a batch whose loss nobody wanted.
    const given = unpack ? unpack(x as Tensor) : Array.isArray(x) ? x as readonly Tensor[] : [x as Tensor];
    if (given.length !== inputs.length) throw severalInputs(path, inputs);
    const symbols = this.#symbols = new Map();
    inputs.forEach(({ slot, label, meta }, i) => {
      bindSizes(path, label, meta, given[i], program, symbols);
      const { dtype } = meta, fits = dtype === null || dtype === given[i].dtype;
      const taken = fits ? given[i] : toDtype(given[i], dtype);
      const own = fits && this.#written.has(slot) ? clone(taken) : taken;
      const ours = unpack !== null || own !== given[i];
      frame.values[slot] = ours && between.includes(slot) ? keep(own) : own;
    });
    if (frame.device !== given[0].device) {
      frame.device = given[0].device;
      this.#moveConstants();
    }
    // Backward and the loss need what forward read, and the buffer is written to before that.
    for (const { buffer, from } of this.parts.updates) {
      if (from < 0) continue;
      const old = clone(buffer);
      frame.values[from] = old;
      if (this.#judged.has(from)) this.#read.push(keep(old));
    }
  }

  /** Some constants and buffers are in no state dict, so nothing else moves them. */
  #moveConstants(): void {
    for (const tensor of this.parts.root.tensors.values()) {
      if (tensor.device !== this.#frame.device) {
        tensor.replaceWith(keep(toDevice(tensor, this.#frame.device)));
      }
    }
  }

  #update(updates: readonly Update[]): void {
    const { values, training, again } = this.#frame;
    if (!training || again) return;
    for (const { slot, buffer } of updates) {
      scope(() => noGrad(() => copy_(buffer, values[slot] as Tensor)));
    }
  }
}

/** The graph wants a shape and type: [N] stands for [N, 1] and back. */
function fittedTarget(path: string, { label, meta }: UserInput, target: Tensor): Tensor {
  const shape = fitSizes(target.shape.slice(1), meta.sizes.slice(1));
  if (!shape) {
    throw new UserError(
      "usage",
      `${path}: its input ${label} takes the targets as ${meta.dtype}[${
        meta.sizes.map((size) => typeof size === "number" ? size : "any").join(", ")
      }], and they are ${describe(target)}.`,
    );
  }
  const same = shape.length + 1 === target.shape.length;
  const fitted = same ? target : reshape(target, [target.shape[0], ...shape]);
  return meta.dtype === null || meta.dtype === target.dtype ? fitted : toDtype(fitted, meta.dtype);
}

const severalInputs = (path: string, inputs: readonly UserInput[]) =>
  new UserError(
    "data",
    `${path}: forward takes ${inputs.length} tensors (${
      inputs.map(({ label }) => label).join(", ")
    }), and is given another number of them.`,
  );
