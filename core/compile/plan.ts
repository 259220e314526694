// A plan that runs: machine code and calls of libtorch's ops in turn, on memory that is given once. What changes from one
// micro-batch to the next are a few addresses in the code's table.
import { compile } from "../../ffi/aten.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { loadCode, type MachineCode } from "../../ffi/machine_code.ts";
import { asStrided, contiguous } from "../../ffi/ops.ts";
import { parseSchema } from "../../ffi/schema.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { NoBlas } from "./blas.ts";
import { type Cut, gradientsFirst, type Place, placesOf } from "./cuts.ts";
import { fuse } from "./fuse.ts";
import { buffersRead, buffersWritten, type CallPart } from "./program.ts";
import type { Graph, Ref } from "./graph.ts";
import type { Isa, Kernel } from "./kernel.ts";
import { place, type Placed, type Slot } from "./place.ts";
import { chainOn } from "./proven.ts";
import { Room } from "./room.ts";
import { printCode } from "./x86/print.ts";

/** The memory that a plan works on. It does not move. */
export interface PlanMemory {
  /** All parameters, and all gradients, as one vector each; the first element of each. */
  readonly flat: Tensor;
  readonly gradient: Tensor;
  readonly starts: readonly number[];
  readonly held: readonly Tensor[];
  /** The model's output, and the mean loss. */
  readonly output: Tensor;
  readonly losses: Tensor;
  /** Values that live within a run lie here; without it the plan takes memory of its own. */
  readonly room?: Room;
}

export interface PlanOptions {
  readonly exact: boolean;
  readonly adds: boolean;
  readonly isa: Isa;
  readonly threads: number;
  readonly recomputes?: boolean;
  /** From the last block to the first; absent where nobody waits for gradients. */
  readonly cuts?: readonly Cut[];
}

/** Why there is no plan. */
export interface NoPlan {
  /** `order`: libtorch's order of this op is not known. `memory`, `symbol`: what the machine refuses. */
  readonly lacks: "order" | "memory" | "symbol";
  readonly name: string;
}

export interface Plan {
  readonly placed: Placed;
  readonly kernels: number;
  readonly calls: number;
  readonly codeBytes: number;
  readonly milliseconds: number;
  /** `cell` is where the loss goes. `done` is told of each cut but the last, as soon as its gradients are whole. */
  run(input: Tensor, target: Tensor, weight: Tensor | null, cell: number, done?: Done | null): void;
  free(): void;
}

type Done = (block: number) => void;

/** Kernels between two calls or cuts. */
interface Segment {
  readonly code: MachineCode;
}

/** The gradients of this block and those behind it are whole. */
interface Whole {
  readonly block: number;
}

type Step = Segment | CallPart | Whole;

export function makePlan(graph: Graph, memory: PlanMemory, options: PlanOptions): Plan | NoPlan {
  const began = performance.now();
  let placed: Placed, cuts: readonly Place[];
  try {
    const chainOf = options.exact ? chainOn(options.isa, options.threads) : undefined;
    const program = gradientsFirst(fuse(graph, { ...options, chainOf }));
    placed = place(program);
    cuts = placesOf(program, options.cuts ?? []);
  } catch (thrown) {
    if (!(thrown instanceof NoBlas)) throw thrown;
    return { lacks: "order", name: thrown.message };
  }
  const { parts, slots } = placed;
  const steps: Step[] = [], at: number[] = [];
  const free = () => steps.forEach((step) => "code" in step && step.code.free());
  let kernels: Kernel[] = [], codeBytes = 0;
  const close = (): NoPlan | null => {
    if (kernels.length === 0) return null;
    const printed = printCode(kernels, options.isa, slots.length, options.threads);
    const code = loadCode(printed);
    if ("refused" in code) return { lacks: code.refused, name: code.name };
    codeBytes += printed.bytes.length;
    steps.push({ code });
    kernels = [];
    return null;
  };
  for (const [i, part] of parts.entries()) {
    const ends = i < parts.length - 1 ? cuts.filter((cut) => cut.part === i) : [];
    if (part.kernel !== "call") kernels.push(part), at.push(steps.length);
    if (part.kernel !== "call" && ends.length === 0) continue;
    const refusal = close();
    if (refusal) return free(), refusal;
    if (part.kernel === "call") at.push(steps.push(part) - 1);
    steps.push(...ends.slice(-1));
  }
  const refusal = close();
  if (refusal) return free(), refusal;
  const runner = new Runner(placed, memory, steps, lastUses(placed, at));
  return {
    placed,
    kernels: parts.filter(({ kernel }) => kernel !== "call").length,
    calls: parts.filter(({ kernel }) => kernel === "call").length,
    codeBytes,
    milliseconds: performance.now() - began,
    run: (input, target, weight, cell, done = null) => runner.run(input, target, weight, cell, done),
    free() {
      free();
      runner.free();
    },
  };
}

/** The results of calls that nothing reads behind each step. `at` is the step of each part. */
function lastUses({ parts, slots }: Placed, at: readonly number[]): number[][] {
  const last = new Map<number, number>();
  parts.forEach((part, i) => {
    for (const slot of [...buffersRead(part), ...buffersWritten(part)]) {
      if (slots[slot].from === "result") last.set(slot, at[i]);
    }
  });
  const ends: number[][] = [];
  for (const [slot, step] of last) (ends[step] ??= []).push(slot);
  return ends;
}

/** An op in place gives back what it was given, which stays. */
function release(t: Tensor): void {
  if (!t.kept) t.free();
}

const F32 = 4;

class Runner {
  readonly #codes: readonly MachineCode[];
  readonly #room: Room;
  readonly #memory: Tensor;
  readonly #fixed: (Tensor | null)[];
  readonly #input: number;
  readonly #target: number;
  readonly #weight: number;
  readonly #loss: number;
  readonly #results = new Map<number, Tensor>();
  readonly #views = new Map<string, Tensor>();
  readonly #ops = new Map<string, (...args: unknown[]) => unknown>();

  constructor(
    readonly placed: Placed,
    readonly memory: PlanMemory,
    readonly steps: readonly Step[],
    readonly ends: readonly (readonly number[] | undefined)[],
  ) {
    this.#codes = steps.flatMap((step) => "code" in step ? [step.code] : []);
    this.#room = memory.room ?? new Room();
    this.#memory = this.#room.take(placed.elements);
    const at = (from: Slot["from"]) => placed.slots.findIndex((slot) => slot.from === from);
    [this.#input, this.#target, this.#weight, this.#loss] = [
      at("input"),
      at("target"),
      at("weight"),
      at("loss"),
    ];
    this.#fixed = placed.slots.map((slot, i) => this.#fix(slot, i));
  }

  /** Slots that are the same in every run. */
  #fix(slot: Slot, i: number): Tensor | null {
    const { flat, gradient, starts, held, output } = this.memory;
    const set = (tensor: Tensor, elements = 0): Tensor => {
      for (const code of this.#codes) code.setSlot(i, tensor, F32 * elements);
      return tensor;
    };
    switch (slot.from) {
      case "memory":
        return set(this.#memory);
      case "parameter":
        return set(flat, starts[slot.index]);
      case "gradient":
        return set(gradient, starts[slot.index]);
      case "held":
        return set(held[slot.index]);
      case "output":
        return set(output);
      default:
        return null;
    }
  }

  #set(slot: number, tensor: Tensor, elements = 0): void {
    if (slot < 0) return;
    for (let i = 0; i < this.#codes.length; i++) this.#codes[i].setSlot(slot, tensor, F32 * elements);
  }

  run(input: Tensor, target: Tensor, weight: Tensor | null, cell: number, done: Done | null): void {
    this.#set(this.#input, input);
    this.#set(this.#target, target);
    if (weight !== null) this.#set(this.#weight, weight);
    this.#set(this.#loss, this.memory.losses, cell);
    if (this.steps.length === 1) return this.#codes[0].run();
    const given = (slot: number): Tensor | null => {
      const { from } = this.placed.slots[slot];
      return from === "input" ? input : from === "target" ? target : from === "weight" ? weight : null;
    };
    noGrad(() =>
      scope(() => {
        this.steps.forEach((step, i) => {
          if ("code" in step) step.code.run();
          else if ("block" in step) done?.(step.block);
          else this.#call(step, given);
          for (const slot of this.ends[i] ?? []) release(this.#results.get(slot)!);
        });
        this.#results.clear();
      })
    );
  }

  #call(part: CallPart, given: (slot: number) => Tensor | null): void {
    const { schema, values, results } = part;
    let op = this.#ops.get(schema);
    if (!op) this.#ops.set(schema, op = compile(parseSchema(schema), "aten"));
    const views: Tensor[] = [];
    const argument = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(argument);
      if (typeof value !== "object" || value === null || !("ref" in value)) return value;
      return this.#tensor(part, value.ref as Ref, given, views);
    };
    const made = op(...values.map(argument));
    const list = (Array.isArray(made) ? made : [made]) as Tensor[];
    const stay = new Set(results.map(({ slot, index }) => {
      const tensor = list[index].contiguous ? list[index] : contiguous(list[index]);
      this.#results.set(slot, tensor);
      this.#set(slot, tensor);
      return tensor;
    }));
    for (const t of [...list, ...views]) if (!stay.has(t)) release(t);
  }

  #tensor(part: CallPart, ref: Ref, given: (slot: number) => Tensor | null, views: Tensor[]): Tensor {
    const { slot, offset, sizes, strides } = part.tensors.get(ref)!;
    const result = this.#results.get(slot) ?? given(slot);
    if (result) {
      const seen = asStrided(result, sizes, strides, offset + result.offset);
      views.push(seen);
      return seen;
    }
    const key = `${slot} ${offset} ${sizes} ${strides}`;
    let view = this.#views.get(key);
    if (!view) {
      const from = this.placed.slots[slot], base = this.#fixed[slot]!;
      const start = from.from === "parameter" || from.from === "gradient"
        ? this.memory.starts[from.index]
        : 0;
      this.#views.set(key, view = keep(asStrided(base, sizes, strides, offset + start + base.offset)));
    }
    return view;
  }

  free(): void {
    this.#room.leave(this.#memory);
    for (const view of this.#views.values()) view.free();
  }
}
