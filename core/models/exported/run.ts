// Runs an exported program: its weights as a module, and the steps of its graph in training and evaluation.
import { borrowBytes, longLivedUninitialised, toDevice } from "../../../ffi/make.ts";
import { clone, copy_, detach, reshape, toDtype, viewAsComplex, viewAsReal } from "../../../ffi/ops.ts";
import { describe, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { isContiguous, type TensorData } from "../../checkpoint/value.ts";
import { copyInto } from "../../checkpoint/training_state.ts";
import { UserError } from "../../base/errors.ts";
import { Module } from "../nn/module.ts";
import type { Archive, EntryStorage } from "./archive.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import type { Activation, Block } from "../model.ts";
import type { GraphFrame } from "./operators.ts";
import { bindSizes, fitSizes } from "./check.ts";
import type { GraphPiece, Halves } from "./cuts.ts";
import type { ExportedProgram } from "./graph.ts";
import type { Signature, UnpackInputs, UserInput } from "./signature.ts";
import type { LowRank } from "./lora.ts";
import type { GraphPlan } from "./plan.ts";
import { freeAfterLastUse, type GraphStep, runSteps } from "./steps.ts";

// Parameters and buffers have the names that they have in Python.

export class ExportedModule extends Module {
  readonly tensors = new Map<string, Tensor>();
  /** These are complex in Python. They are trained as pairs of real numbers, as PyTorch does. */
  readonly complex = new Set<Tensor>();
  readonly #order: [name: string, tensor: Tensor][] = [];
  readonly #unsaved: [name: string, tensor: Tensor][] = [];

  constructor(archive: Archive) {
    super();
    const { program, weights, constants, path } = archive;
    const trained = new Set(program.inputs.flatMap((i) => i.kind === "parameter" ? [i.of] : []));
    const loaded = new Map<string, Tensor>();
    const made = (data: TensorData): Tensor => {
      const key = placeIn(data);
      let tensor = loaded.get(key);
      if (!tensor) loaded.set(key, tensor = tensorOf(data));
      return tensor;
    };
    const pairs = (name: string, tensor: Tensor): Tensor => {
      const wanted = program.inputs.some((i) =>
        i.kind === "parameter" && i.of === name && program.tensors.get(i.name)?.requiresGrad !== false
      );
      if (tensor.dtype !== "c64" || !wanted) return tensor;
      const real = keep(viewAsReal(tensor));
      this.complex.add(real);
      return real;
    };
    for (const [name, data] of weights) {
      const meta = program.inputs.find((i) => i.kind === "parameter" && i.of === name);
      const known = loaded.has(placeIn(data));
      const tensor = pairs(name, made(data));
      loaded.set(placeIn(data), tensor);
      this.#order.push([name, tensor]);
      this.tensors.set(name, tensor);
      if (known) continue; // A tied parameter is trained under its first name.
      const needsGradient = meta?.kind === "parameter"
        ? program.tensors.get(meta.name)?.requiresGrad !== false
        : false;
      const tied = [...weights].some(([n, d]) =>
        n !== name && trained.has(n) && placeIn(d) === placeIn(data)
      );
      if ((trained.has(name) && needsGradient) || (tied && !trained.has(name))) {
        if (this.complex.has(tensor)) this.parameter(name, tensor);
        else if (tensor.dtype !== "f32") throw notFloat(path, name, tensor);
        else this.parameter(name, tensor);
      } else this.buffer(name, tensor);
    }
    for (const [name, data] of constants) {
      if (this.tensors.has(name)) continue;
      const tensor = keep(made(data));
      this.tensors.set(name, tensor);
      this.#unsaved.push([name, tensor]);
    }
    const missing = program.inputs.flatMap((i) =>
      i.kind !== "user" && i.kind !== "other" && !this.tensors.has(i.of) ? [i.of] : []
    );
    if (missing.length > 0) {
      throw new UserError(
        "checkpoint",
        `${path}: the values of ${missing.slice(0, 5).join(", ")} are missing.`,
      );
    }
  }

  /** Adapters are saved and trained beside the weights. */
  adapt(lowRank: readonly LowRank[]): void {
    for (const [name, tensor] of lowRank.flatMap(({ named }) => named)) {
      this.#order.push([name, this.parameter(name, tensor)]);
      this.tensors.set(name, tensor);
    }
  }

  /** Constants, and buffers that are not persistent. */
  protected override unsaved(): [string, Tensor][] {
    return this.#unsaved;
  }

  /** Tied tensors are listed under each of their names, in Python's order. */
  override stateDict(): [string, Tensor][] {
    return this.#order.map(([name, t]) => [name, this.complex.has(t) ? keep(detach(viewAsComplex(t))) : t]);
  }

  override free(): void {
    for (const tensor of this.tensors.values()) tensor.free();
  }
}

class ExportedPart extends Module {
  constructor(named: readonly (readonly [string, Tensor])[]) {
    super();
    for (const [name, tensor] of named) this.parameter(name, tensor);
  }
}

let next = 0;
const storages = new WeakMap<object, number>();

/** Equal places are the same memory in the same shape. */
function placeIn({ storage, offset, shape, strides, dtype }: TensorData): string {
  let id = storages.get(storage);
  if (id === undefined) storages.set(storage, id = next++);
  return `${id} ${offset} ${shape} ${strides} ${dtype}`;
}

/**
 * Large weights take most of the time to the first step: their bytes go from the file to their place at once.
 */
function tensorOf(data: TensorData): Tensor {
  const tensor = longLivedUninitialised(data.shape, { dtype: data.dtype });
  const { readInto } = data.storage as Partial<EntryStorage>;
  if (
    readInto && data.byteLength > SMALL && data.byteLength === data.storage.byteLength && isContiguous(data)
  ) {
    readInto(borrowBytes(tensor));
  } else copyInto(tensor, data);
  return keep(tensor);
}

const SMALL = 1 << 20;

const notFloat = (path: string, name: string, { dtype }: Tensor) =>
  new UserError(
    "usage",
    `${path}: its parameter ${name} is ${dtype}, and weights are trained in f32: call model.float() before ` +
      "torch.export.export (--amp bf16 computes in half precision).",
  );

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
  /** Buffers as forward found them, for the loss. */
  readonly #read: Tensor[] = [];
  #symbols = new Map<string, number>();

  constructor(readonly parts: RunnerParts) {
    const { program, root, signature, halves: { body, tail } } = parts;
    this.#frame = {
      values: new Array(body.slots),
      device: "cpu",
      training: true,
      again: false,
      copies: false,
      judged: null,
    };
    this.#written = new Set([...body.steps, ...tail.steps].map(({ writes }) => writes));
    this.#judged = new Set(tail.steps.flatMap(({ uses }) => uses));
    const deferred = new Set(tail.steps.flatMap(({ defines }) => defines));
    this.#deferred = parts.updates.filter(({ slot }) => deferred.has(slot));
    const wanted = [parts.prediction, signature.loss?.slot ?? -1, ...this.#deferred.map(({ slot }) => slot)];
    freeAfterLastUse(tail, 0, tail.steps.length, new Set(wanted));
    for (const input of program.inputs) {
      if (input.kind === "user" || input.kind === "other") continue;
      this.#frame.values[body.slotOf(input.name)] = root.tensors.get(input.of);
    }
  }

  block({ from, to, out, name }: GraphPiece, input: number): Block {
    const { halves: { body, between }, root, path, updates } = this.parts;
    const last = to === body.steps.length;
    const kept = new Set([out, ...between, ...(last ? updates.map(({ slot }) => slot) : [])]);
    if (from > 0) kept.add(input); // The input is the caller's.
    freeAfterLastUse(body, from, to, kept);
    const complex = this.#complexIn(body.steps.slice(from, to));
    const adapted = this.#adaptedIn(body.steps.slice(from, to));
    const moved = this.#movedIn(from, to), found: Tensor[] = [];
    const frame = this.#frame, early = updates.filter((update) => !this.#deferred.includes(update));
    const forward = (x: Activation): Activation => {
      frame.training = root.training;
      frame.again = root.forwardContext.pass === "second";
      if (from === 0) this.#bind(x);
      else frame.values[input] = x as Tensor;
      for (const [slot, pairs] of complex) frame.values[slot] = viewAsComplex(pairs);
      for (const [slot, own, { effective }] of adapted) frame.values[slot] = effective(own);
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
    const { halves: { tail, between }, signature, path, program } = this.parts, frame = this.#frame;
    const { loss, target: wanted } = signature;
    const slot = loss!.slot;
    const result = scope(() => {
      if (wanted) {
        const fitted = fittedTarget(path, wanted, target);
        bindSizes(path, wanted.label, wanted.meta, fitted, program, this.#symbols);
        frame.values[wanted.slot] = fitted;
      }
      for (const [slot, pairs] of this.#complexIn(tail.steps)) frame.values[slot] = viewAsComplex(pairs);
      for (const [slot, own, { effective }] of this.#adaptedIn(tail.steps)) {
        frame.values[slot] = effective(own);
      }
      runSteps(tail.steps, 0, tail.steps.length, frame, path);
      this.#update(this.#deferred);
      const made = frame.values[slot] as Tensor;
      const given = between.includes(slot) ? clone(made) : made; // The kept values are freed here.
      return given.shape.length === 0 ? given : reshape(given, []);
    });
    this.#forget();
    return result;
  }

  /**
   * The loss will use these values, so they outlive the block's scope, as the block's input and result do by
   * themselves.
   */
  #leave(out: number, input: number): void {
    const { halves: { between, body } } = this.parts, { values } = this.#frame;
    for (const slot of between) {
      if (slot !== out && slot !== input && body.kinds[slot] === "made") keep(values[slot] as Tensor);
    }
  }

  /** The loss is made, or nobody wants it. */
  #forget(): void {
    const { values } = this.#frame;
    for (const slot of this.parts.halves.between) {
      const value = values[slot] as Tensor | undefined;
      if (value?.kept) value.free?.();
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
