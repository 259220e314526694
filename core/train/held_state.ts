// The training state of an epoch whose evaluation is the best so far, held until a save writes it: epochs that take
// milliseconds are not written one by one.
import { noGrad } from "../../ffi/autograd.ts";
import { copiesMemory, uninitialised } from "../../ffi/make.ts";
import { copy_ } from "../../ffi/ops.ts";
import { keep, type Tensor } from "../../ffi/tensor.ts";
import { type Cursor, type StateParts, tensorsOf } from "../checkpoint/training_state.ts";

/** A copy of more takes too long for an epoch that short. */
const MOST_BYTES = 16 << 20;

export interface HeldState {
  readonly cursor: Cursor;
  readonly parts: StateParts;
}

export interface Holder {
  /** The state of now, in place of what was held. */
  hold(): void;
  readonly holds: boolean;
  /** Gives what is held once, or null. It stays as it is until something is held again. */
  take(): HeldState | null;
}

/** Null where the state is on a device, or too large. */
export function openHolder(parts: StateParts, cursor: Cursor): Holder | null {
  const tensors = [...new Set(tensorsOf(parts))];
  if (!areSmall(tensors, MOST_BYTES)) return null;
  const twins = new Map<Tensor, Tensor>();
  let held: HeldState | null = null;
  const twinOf = (t: Tensor) => twins.get(t)!;
  return {
    hold() {
      copyTo(twins, tensors);
      held = { cursor: structuredClone(cursor), parts: asNow(parts, twinOf) };
    },
    get holds() {
      return held !== null;
    },
    take() {
      const state = held;
      held = null;
      return state;
    },
  };
}

/** Copies of them take no longer than what they spare. */
export const areSmall = (tensors: readonly Tensor[], mostBytes: number): boolean =>
  tensors.every(({ device }) => device === "cpu") &&
  tensors.reduce((bytes, { byteLength }) => bytes + byteLength, 0) <= mostBytes;

/** Each tensor's twin becomes what it is now. */
export function copyTo(twins: Map<Tensor, Tensor>, tensors: readonly Tensor[]): void {
  for (const t of tensors) {
    let twin = twins.get(t);
    if (!twin) twins.set(t, twin = keep(uninitialised(t.shape, { dtype: t.dtype })));
    if (!copiesMemory(twin, t)) noGrad(() => copy_(twin, t));
  }
}

/** The numbers of now, and the tensors' twins. */
function asNow(
  { names, stateDict, optimizer, scaler, ema, swa }: StateParts,
  twinOf: (t: Tensor) => Tensor,
): StateParts {
  const { type, steps, slots, options, numbers, groups, joint } = optimizer;
  const named = (list: StateParts["stateDict"]) => list.map(([name, t]) => [name, twinOf(t)] as const);
  return {
    names,
    stateDict: named(stateDict),
    optimizer: {
      ...{ type, steps, options, joint },
      slots: new Map([...slots].map(([name, list]) => [name, list.map(twinOf)])),
      numbers: structuredClone(numbers),
      groups: groups && {
        ...{ of: groups.of, factors: groups.factors, options: groups.options, steps: [...groups.steps] },
        numbers: structuredClone(groups.numbers),
      },
    },
    scaler: scaler && { scale: scaler.scale, goodSteps: scaler.goodSteps, skipped: scaler.skipped },
    ema: ema && named(ema),
    ...(swa && { swa: { averaged: swa.averaged } }),
  };
}
