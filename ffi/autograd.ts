import { check, native, out, outAt } from "./abi.ts";
import { need } from "./library.ts";
import { alias, backwardOp, detach, isLeaf, sum, zerosLike } from "./ops.ts";
import { parseSchema } from "./schema.ts";
import { tape, unrecorded } from "./tape.ts";
import { alive, describe, scope, Tensor } from "./tensor.ts";

const none: readonly Tensor[] = [];

/**
 * Adds d(root)/d(leaf) into the gradient of every leaf that requires one. `again` keeps the graph for another
 * backward.
 */
export function backward(root: Tensor, gradient: Tensor | null = null, again = false): void {
  backwardOp(root, none, gradient, again ? true : null);
}

/** Marks that t requires a gradient, and returns t. */
export function requireGrad(t: Tensor, on = true): Tensor {
  check(native.requireGrad(alive(t, "requireGrad"), on), "requireGrad", () => describe(t));
  return t;
}

/** Backward can start at t. */
export const requiresGradient = (t: Tensor): boolean => !isLeaf(t) || !isLeaf(alias(t)); // a leaf tells by what is made of it

/** A leaf that shares t's memory and requires a gradient: it passes between blocks. */
export const boundary = (t: Tensor): Tensor => requireGrad(detach(t));

/** Runs `body` without remembering how its results were computed. */
export function noGrad<R>(body: () => R): R {
  const before = native.gradMode();
  native.setGradMode(false);
  try {
    return body();
  } finally {
    native.setGradMode(before);
  }
}

/** Runs `body` with it, whatever the mode is. */
export function withGrad<R>(body: () => R): R {
  const before = native.gradMode();
  native.setGradMode(true);
  try {
    return body();
  } finally {
    native.setGradMode(before);
  }
}

/** As it tells of itself: libtorch has no such op. */
const GRADIENT = parseSchema("gradient(Tensor of, Tensor wrt) -> Tensor");

/**
 * The derivative of f at x: the gradient of the sum of f(x), in the shape of x. It is differentiable itself, so it may
 * stand in a loss, and f may take a gradient in turn.
 */
export function gradient(f: (x: Tensor) => Tensor, x: Tensor): Tensor {
  const before = native.gradMode();
  native.setGradMode(true);
  try {
    const at = requiresGradient(x) ? alias(x) : boundary(x);
    const y = f(at);
    const made = unrecorded(() => derivative(y, at));
    if (tape.recorder !== null) tape.recorder.op(GRADIENT, [y, at], made);
    return before ? made : detach(made);
  } finally {
    native.setGradMode(before);
  }
}

function derivative(y: Tensor, at: Tensor): Tensor {
  if (!requiresGradient(y)) return zerosLike(at); // it does not depend on x
  return scope(() => {
    unwarned(() => backwardOp(sum(y), [at], null, true, true));
    const slot = gradSlotOf(at);
    return hasGrad(slot) ? takeGrad(slot) : zerosLike(at);
  });
}

/** Autograd remembers one function: its inputs are leaves. */
export interface Remembered {
  readonly leaves: readonly Tensor[];
  readonly made: readonly Tensor[];
}

/** Runs f, which autograd remembers whatever the mode is. */
export function remembered(
  f: (inputs: readonly Tensor[]) => readonly Tensor[],
  inputs: readonly Tensor[],
): Remembered {
  return withGrad(() =>
    unrecorded(() => {
      const leaves = inputs.map(boundary);
      return { leaves, made: f(leaves) };
    })
  );
}

/** The leaves' gradients by those of the results, as far as there are any. */
export const gradientsOf = ({ leaves, made }: Remembered, results: readonly (Tensor | null)[]): Tensor[] =>
  unrecorded(() => {
    made.forEach((y, i) => {
      const gradient = results[i] ?? null;
      if (gradient !== null && requiresGradient(y)) backwardOp(y, leaves, gradient, true);
    });
    return leaves.map((leaf) => {
      const slot = gradSlotOf(leaf);
      return hasGrad(slot) ? takeGrad(slot) : zerosLike(detach(leaf));
    });
  });

let warned = false;
const functions = new BigUint64Array(new ArrayBuffer(24)), object = new BigUint64Array(new ArrayBuffer(8));

/**
 * libtorch warns once of a cycle between a tensor and its gradient, which `derivative` opens at once by taking the
 * gradient away. A C++ object that hears warnings stands in for that time: its third function gets them.
 */
function unwarned(body: () => void): void {
  const set = native.setWarningHandler;
  if (warned || !set) return body();
  warned = true;
  const deaf = new Deno.UnsafeCallback({ parameters: ["pointer", "pointer"], result: "void" }, () => {});
  functions.fill(Deno.UnsafePointer.value(deaf.pointer));
  object[0] = Deno.UnsafePointer.value(Deno.UnsafePointer.of(functions));
  set(Deno.UnsafePointer.value(Deno.UnsafePointer.of(object)));
  try {
    body();
  } finally {
    set(0n);
    deaf.close();
  }
}

export function setGradSlot(leaf: Tensor, gradient: Tensor): void {
  const slot = gradSlot(leaf);
  // The slot owns one reference: a second handle's, whose box we give up and whose word (the TensorImpl*) we
  // move.
  native.newHandle(alive(gradient, "setGradSlot"), outAt);
  const box = out[0];
  native.copyIn(outAt, box, 8n);
  native.copyOut(Deno.UnsafePointer.value(slot), outAt, 8n);
}

/** A leaf keeps its gradient at this address, which is stable for the leaf's life. */
export type GradSlot = bigint;

export const gradSlotOf = (leaf: Tensor): GradSlot => Deno.UnsafePointer.value(gradSlot(leaf));

/**
 * Moves the gradient out of a leaf's slot, without a copy; the next backward leaves a new one there instead
 * of adding to it. It is for leaves whose slot was not set, after a backward that reached the leaf (see
 * hasGrad).
 */
export function takeGrad(slot: GradSlot): Tensor {
  const handle = native.operatorNew(8n); // a handle is a heap copy of the one word that the slot holds
  native.copyWord(handle, slot, 8n);
  native.copyOut(slot, undefinedAt(), 8n);
  return new Tensor(handle);
}

export function hasGrad(slot: GradSlot): boolean {
  out[0] = 0n;
  native.isDefined(slot, outAt);
  return out[0] !== 0n;
}

/** Null before a backward. The result is a view: it changes with the next backward. */
export function gradOf(leaf: Tensor): Tensor | null {
  const slot = gradSlotOf(leaf); // the address of an at::Tensor, which is what a handle is
  if (!hasGrad(slot)) return null;
  native.newHandle(slot, outAt);
  return new Tensor(out[0]);
}

function gradSlot(leaf: Tensor): Deno.PointerValue {
  native.copyIn(outAt, alive(leaf, "gradient"), 8n);
  return need("gradSlot", "read gradients")(out[0]);
}

const undefinedWord = new BigUint64Array(new ArrayBuffer(8));
const undefinedWordAt = Deno.UnsafePointer.of(undefinedWord);

/** All undefined tensors have one TensorImpl*, which is not counted; this word holds it. */
function undefinedAt(): Deno.PointerValue {
  if (undefinedWord[0] === 0n) {
    native.newUndefined(outAt);
    const handle = out[0];
    native.copyIn(undefinedWordAt, handle, 8n);
    native.deleteTensor(handle);
  }
  return undefinedWordAt;
}
