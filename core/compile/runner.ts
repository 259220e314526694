// Runs a plan: its table of slots is filled once, but for the few addresses that change from one micro-batch to the next.
import { noGrad } from "../../ffi/autograd.ts";
import type { MemoryBlock } from "../../ffi/libc.ts";
import { absentTensor, beginOf, memoryBlockOf, viewDtype } from "../../ffi/make.ts";
import type { MachineCode } from "../../ffi/machine_code.ts";
import { asStrided, clone, contiguous, permute } from "../../ffi/ops.ts";
import { placing, type ResultMemory } from "../../ffi/result_places.ts";
import { timing } from "../../ffi/profile.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { isOpaque } from "./attentions.ts";
import { callable, hasPlaces, RememberedCalls } from "./recorded_calls.ts";
import type { Ref } from "./graph.ts";
import type { Placed, Slot } from "./place.ts";
import type { Workspace } from "./workspace.ts";
import { buffersRead, buffersWritten, type CallPart, type CallResult, type CallTensor } from "./program.ts";

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
  /** Numbers of 8 bytes: what all draws of a step have in common, and the number of each. */
  readonly drawing?: Tensor;
  /** Values that live within a run lie here; without it the plan takes memory of its own. */
  readonly workspace?: Workspace;
}

export type Done = (block: number) => void;

/** Kernels between two calls or cuts. */
export interface CodeSegment {
  readonly name: string;
  readonly code: MachineCode;
  /** The code's function. */
  readonly entry: number;
}

/** The gradients of this block and those behind it are whole. */
interface Whole {
  readonly block: number;
}

export type PlanStep = CodeSegment | CallPart | Whole;

/** The results of calls that nothing reads behind each step. */
function lastUses({ parts, slots }: Placed, stepOf: readonly number[]): number[][] {
  const last = new Map<number, number>();
  parts.forEach((part, i) => {
    for (const slot of [...buffersRead(part), ...buffersWritten(part)]) {
      if (slots[slot].from === "result") last.set(slot, stepOf[i]);
    }
  });
  const ends: number[][] = [];
  for (const [slot, step] of last) (ends[step] ??= []).push(slot);
  return ends;
}

/** While ops are timed, so is code. */
function runCode({ code, entry, name }: CodeSegment): void {
  const { observer } = timing;
  if (observer === null) return code.run(entry);
  const from = performance.now();
  code.run(entry);
  observer(name, from, performance.now());
}

/** An op in place gives back what it was given, which stays. */
function release(t: Tensor): void {
  if (!t.kept) t.free();
}

/** [n, heads, tokens, width] of [n, tokens, heads, width]. */
const BY_TOKENS = [0, 2, 1, 3];

/** Dimensions from the outermost to the innermost one, as [n, h, w, c] lies. */
const LAST = [0, 2, 3, 1];

/** Its places follow each other in this order of dimensions, without gaps. */
function liesIn({ shape, strides }: Tensor, order: readonly number[]): boolean {
  let step = 1;
  return order.toReversed().every((d) => {
    const fits = shape[d] === 1 || strides[d] === step;
    step *= shape[d];
    return fits;
  });
}

/** The same tensor, or a copy if it does not lie in this order without gaps. */
export function denseIn(t: Tensor, lies: CallResult["lies"] = "first"): Tensor {
  if (lies === "tokens") {
    return liesIn(t, BY_TOKENS) ? t : permute(contiguous(permute(t, BY_TOKENS)), BY_TOKENS);
  }
  if (lies !== "last") return t.kept && t.host !== null || t.contiguous ? t : contiguous(t);
  return liesIn(t, LAST) ? t : contiguous(t, "channels_last");
}

interface ResultPlace extends ResultMemory {
  readonly slot: number;
}

/** An op that makes more tensors of a result's size before it is left alone. */
const MOST_SKIPS = 3;

const F32 = 4, I64 = 8;
/** The step's key, and the number of its micro-batch, come before the draws' own. */
export const COMMON = 2;

export class PlanRunner {
  readonly #codes: readonly MachineCode[];
  /** By slot: the code that knows it. */
  readonly #users: readonly (readonly MachineCode[])[];
  readonly #ends: readonly (readonly number[] | undefined)[];
  readonly #fixed: (Tensor | null)[];
  readonly #input: number;
  readonly #target: number;
  readonly #weight: number;
  readonly #loss: number;
  readonly #results = new Map<number, Tensor>();
  readonly #views = new Map<string, Tensor>();
  /** Those of memory that does not move, by the argument that they are. */
  readonly #fixedViews = new Map<CallTensor, Tensor>();
  /** The piece of memory that values lie in, and the gradients. */
  readonly #within: readonly [MemoryBlock, MemoryBlock];
  readonly #places = new Map<CallPart, readonly ResultPlace[]>();
  readonly #remembered: RememberedCalls;
  readonly #ops = new Map<string, (...args: unknown[]) => unknown>();

  constructor(
    readonly placed: Placed,
    readonly memory: PlanMemory,
    /** The piece of memory that values lie in. */
    readonly arena: Tensor,
    readonly steps: readonly PlanStep[],
    /** The step of each part. */
    stepOf: readonly number[],
  ) {
    const none = { address: 0n, bytes: 0 };
    this.#within = arena.device === "cpu"
      ? [memoryBlockOf(arena), memoryBlockOf(memory.gradient)]
      : [none, none];
    this.#ends = lastUses(placed, stepOf);
    this.#codes = [...new Set(steps.flatMap((step) => "code" in step ? [step.code] : []))];
    const users: Set<MachineCode>[] = placed.slots.map(() => new Set());
    placed.parts.forEach((part, i) => {
      const step = steps[stepOf[i]];
      if (!("code" in step)) return;
      for (const slot of [...buffersRead(part), ...buffersWritten(part)]) users[slot].add(step.code);
    });
    this.#users = users.map((codes) => [...codes]);
    const at = (from: Slot["from"]) => placed.slots.findIndex((slot) => slot.from === from);
    [this.#input, this.#target, this.#weight, this.#loss] = [
      at("input"),
      at("target"),
      at("weight"),
      at("loss"),
    ];
    this.#remembered = new RememberedCalls(placed.parts.filter((part) => part.kernel === "call"));
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
        return set(this.arena);
      case "weights":
        return set(flat);
      case "parameter":
        return set(flat, starts[slot.index]);
      case "gradient":
        return set(gradient, starts[slot.index]);
      case "held":
        return set(held[slot.index]);
      case "drawn":
        return set(this.memory.drawing!, (COMMON + slot.draw) * I64 / F32);
      case "output":
        return set(output);
      default:
        return null;
    }
  }

  #set(slot: number, tensor: Tensor, elements = 0): void {
    if (slot < 0) return;
    const users = this.#users[slot];
    for (let i = 0; i < users.length; i++) users[i].setSlot(slot, tensor, F32 * elements);
  }

  run(input: Tensor, target: Tensor, weight: Tensor | null, cell: number, done: Done | null): void {
    this.#set(this.#input, input);
    this.#set(this.#target, target);
    if (weight !== null) this.#set(this.#weight, weight);
    this.#set(this.#loss, this.memory.losses, cell);
    if (this.steps.length === 1) return runCode(this.steps[0] as CodeSegment);
    const given = (slot: number): Tensor | null => {
      const { from } = this.placed.slots[slot];
      return from === "input" ? input : from === "target" ? target : from === "weight" ? weight : null;
    };
    noGrad(() =>
      scope(() => {
        this.steps.forEach((step, i) => {
          if ("code" in step) runCode(step);
          else if ("block" in step) done?.(step.block);
          else this.#call(step, given);
          for (const slot of this.#ends[i] ?? []) release(this.#results.get(slot)!);
        });
        this.#results.clear();
        this.#remembered.clear();
      })
    );
  }

  /** These results of a call have places. */
  #placesOf(part: CallPart): readonly ResultPlace[] {
    let places = this.#places.get(part);
    if (places === undefined) {
      places = !hasPlaces(part.schema) ? [] : part.results.flatMap(({ slot }) => {
        const found = this.placed.results.get(slot);
        if (found === undefined) return [];
        const { at } = found, [memory, gradients] = this.#within;
        const address = "offset" in at
          ? memory.address + BigInt(F32 * at.offset)
          : gradients.address + BigInt(F32 * this.memory.starts[at.gradient]);
        return [{ slot, address, bytes: found.bytes, skips: 0 }];
      });
      this.#places.set(part, places);
    }
    return places;
  }

  /**
   * The op may have made something of its own of as many bytes before, which lies in the place now: then it is made to skip
   * that in the next run. A result that lies in another's place is copied, also where it has none of its own: what belongs
   * there is written while it is still read.
   */
  #settled(part: CallPart, slot: number, result: Tensor): Tensor {
    const places = this.#placesOf(part);
    if (places.length === 0) return result;
    const begin = beginOf(result), found = places.find(({ address }) => address === begin);
    if (found?.slot === slot) return result;
    if (places.every((one) => one.slot !== slot)) return found === undefined ? result : clone(result);
    const next = places.map((one) => one.slot === slot ? { ...one, skips: one.skips + 1 } : one);
    this.#places.set(part, next.filter(({ skips }) => skips <= MOST_SKIPS));
    return found === undefined ? result : clone(result);
  }

  #call(part: CallPart, given: (slot: number) => Tensor | null): void {
    const { schema, values, results } = part;
    let op = this.#ops.get(schema);
    if (!op) {
      op = callable(schema);
      this.#ops.set(schema, op);
    }
    const views: Tensor[] = [];
    const argument = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(argument);
      if (typeof value !== "object" || value === null) return value;
      if ("absent" in value) return absentTensor();
      if (!("ref" in value)) return value;
      return this.#tensor(part, value.ref as Ref, given, views);
    };
    const args = values.map(argument), places = this.#placesOf(part);
    const made = places.length === 0
      ? this.#remembered.call(schema, values, op, args)
      : placing(places, this.#within, () => op!(...args));
    const list = (Array.isArray(made) ? made : [made]) as (Tensor | number | null)[];
    const stay = new Set(results.map(({ slot, index, lies }) => {
      const given = list[index] as Tensor;
      const tensor = lies === "opaque" ? given : denseIn(this.#settled(part, slot, given), lies);
      this.#results.set(slot, tensor);
      if (lies !== "opaque") this.#set(slot, tensor);
      return tensor;
    }));
    for (const t of [...list, ...views]) if (t !== null && typeof t !== "number" && !stay.has(t)) release(t);
  }

  #tensor(part: CallPart, ref: Ref, given: (slot: number) => Tensor | null, views: Tensor[]): Tensor {
    const wanted = part.tensors.get(ref)!, fixed = this.#fixedViews.get(wanted);
    if (fixed !== undefined) return fixed;
    const { slot, offset, kind, sizes, strides, own } = wanted;
    const made = this.#results.get(slot), result = made ?? given(slot);
    if (made && isOpaque(sizes)) return made;
    if (made && own && made.shape.length === sizes.length) return made; // products of batches come as [n, rows, columns]
    if (result) {
      const seen = asStrided(result, sizes, strides, offset + result.offset);
      views.push(seen);
      return seen;
    }
    const key = `${slot} ${kind} ${offset} ${sizes} ${strides}`;
    let view = this.#views.get(key);
    if (!view) {
      const from = this.placed.slots[slot], base = this.#fixed[slot]!;
      const start = from.from === "parameter" || from.from === "gradient"
        ? this.memory.starts[from.index]
        : 0;
      const typed = kind === "bf16" || kind === "f16" ? viewDtype(base, kind) : base;
      this.#views.set(key, view = keep(asStrided(typed, sizes, strides, offset + start + typed.offset)));
      if (typed !== base) typed.free();
    }
    this.#fixedViews.set(wanted, view);
    return view;
  }

  free(): void {
    for (const code of this.#codes) code.free();
    for (const view of this.#views.values()) view.free();
  }
}
