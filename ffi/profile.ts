// Replaces the native calls for a while, which costs nothing before.
import { callStack, native, out, outAt, outI64 } from "./abi.ts";
import { dtypeBytes, dtypeName } from "./dtype.ts";
import type { Tensor } from "./tensor.ts";

type OnOpTimed = (name: string, from: number, to: number) => void;

/** Set while ops are timed: code that calls no op tells of itself. */
export const timing: { observer: OnOpTimed | null } = { observer: null };

/** The returned function ends it. On a GPU an op only queues its work: its time here is the host's. */
export function timeOps(observer: OnOpTimed): () => void {
  const { call, itemF64, addUnboxed } = native;
  timing.observer = observer;
  const names = new Map<Deno.PointerValue, string>();
  const nameOf = (at: Deno.PointerValue): string => {
    const known = names.get(at);
    if (known !== undefined) return known;
    const name = at === null ? "?" : new Deno.UnsafePointerView(at).getCString().replace(/^aten::_?/, "");
    names.set(at, name);
    return name;
  };
  const timed =
    <A extends unknown[], R>(name: (args: A) => string, original: (...args: A) => R) => (...args: A): R => {
      const from = performance.now();
      const result = original(...args);
      observer(name(args), from, performance.now());
      return result;
    };
  native.call = timed(([name]) => nameOf(name), call);
  native.itemF64 = timed(() => "item", itemF64);
  if (addUnboxed) native.addUnboxed = timed(() => "add", addUnboxed);
  return () => {
    timing.observer = null;
    Object.assign(native, { call, itemF64, addUnboxed });
  };
}

/**
 * Counts multiplications and additions of the next forward pass's products (linear, convolution, attention);
 * `done` gets the count when its backward begins.
 */
export function countFlops(done: (operations: number) => void): void {
  const { call } = native;
  const names = new Map<Deno.PointerValue, string>();
  let operations = 0;
  native.call = (name, overload, at, version) => {
    let op = names.get(name);
    if (op === undefined) {
      op = name === null ? "" : new Deno.UnsafePointerView(name).getCString().replace(/^aten::/, "");
      names.set(name, op);
    }
    if (op === "_backward") {
      native.call = call;
      done(operations);
      return call(name, overload, at, version);
    }
    const count = COUNTS[op];
    if (count === undefined) return call(name, overload, at, version);
    const of = count(); // the call takes its arguments with it
    const code = call(name, overload, at, version);
    if (code === 0) operations += typeof of === "number" ? of : of(numelOf(callStack[0]));
    return code;
  };
}

/** FLOPs by op, from the arguments on the stack; some need the number of results. */
const COUNTS: Readonly<Record<string, (() => number | ((made: number) => number)) | undefined>> = {
  linear: () => 2 * numelOf(callStack[0]) * sizeOf(callStack[1], 0),
  matmul: () => product(0, 1),
  mm: () => product(0, 1),
  bmm: () => product(0, 1),
  addmm: () => product(1, 2),
  conv1d: () => convolution(),
  conv2d: () => convolution(),
  conv3d: () => convolution(),
  convolution: () => convolution(),
  conv_transpose1d: () => transposed(),
  conv_transpose2d: () => transposed(),
  conv_transpose3d: () => transposed(),
  scaled_dot_product_attention: () =>
    2 * numelOf(callStack[0]) * sizeOf(callStack[1], -2) +
    2 * numelOf(callStack[0]) * sizeOf(callStack[2], -2),
};

const product = (a: number, b: number): number =>
  2 * numelOf(callStack[a]) * (dimOf(callStack[b]) > 1 ? sizeOf(callStack[b], -1) : 1);

function convolution(): (made: number) => number {
  const filter = numelOf(callStack[1]) / sizeOf(callStack[1], 0);
  return (made) => 2 * made * filter;
}

const transposed = (): number => 2 * numelOf(callStack[0]) * numelOf(callStack[1]) / sizeOf(callStack[1], 0);

function numelOf(handle: bigint): number {
  native.numel(handle, outAt);
  return Number(outI64[0]);
}

function dimOf(handle: bigint): number {
  native.dim(handle, outAt);
  return Number(outI64[0]);
}

function sizeOf(handle: bigint, dimension: number): number {
  const at = dimension < 0 ? dimension + dimOf(handle) : dimension;
  native.size(handle, BigInt(at), outAt);
  return Number(outI64[0]);
}

interface ForwardCost {
  readonly operations: number;
  /** Bytes kept for the backward pass, without parameters and without the input. */
  readonly saved: number;
}

/**
 * Their gradient needs no argument's values: sums, copies, views; and those that need their result instead.
 */
const NEEDS_NO_INPUT = new Set(
  ("add add_ sub sub_ neg sum mean cat stack pad view reshape flatten permute transpose t select narrow split chunk slice " +
    "squeeze unsqueeze expand contiguous clone to _to_copy detach alias unbind movedim roll flip dropout dropout_ " +
    "embedding adaptive_avg_pool2d avg_pool2d upsample_nearest2d upsample_bilinear2d relu relu_ sigmoid sigmoid_ tanh " +
    "tanh_ exp exp_ sqrt softmax log_softmax _softmax _log_softmax empty_like zeros_like ones_like " +
    "fft_rfft2 fft_irfft2 fft_fft2 fft_ifft2 fft_rfftn fft_irfftn fft_fftn fft_ifftn view_as_complex view_as_real cumsum")
    .split(
      " ",
    ),
);
const NEEDS_RESULT = new Set(
  ("relu relu_ sigmoid sigmoid_ tanh tanh_ exp exp_ sqrt softmax log_softmax _softmax _log_softmax " +
    "scaled_dot_product_attention").split(" "),
);
/** Bytes kept beside each number of the result: the place of a maximum; a dropout's mask, as GPUs keep it. */
const BESIDE: Readonly<Record<string, number>> = { max_pool2d: 8, max_pool3d: 8, dropout: 1, dropout_: 1 };

type EndPart = (results: readonly Tensor[]) => void;

/**
 * No tensor is freed before the end: each place means one thing. `own` are the model's, whose views are kept in
 * any case.
 */
export function forwardCost(body: (end: EndPart) => void, own: readonly Tensor[] = []): ForwardCost[] {
  const { call, newHandle, deleteTensor } = native;
  const parts: { operations: number; saved: number }[] = [{ operations: 0, saved: 0 }];
  const made = new Map<bigint, number>(), needed = new Set<bigint>();
  const note = (handle: bigint) => made.has(handle) || made.set(handle, parts.length - 1);
  const nameOf = namesOfOps();
  let given: bigint[] = [];
  native.newHandle = (handle, at) => {
    given.push(handle as bigint);
    return newHandle(handle, at);
  };
  native.deleteTensor = (handle) => {
    note(handle as bigint);
    return 0;
  };
  native.call = (name, overload, at, version) => {
    const op = nameOf(name), part = parts.at(-1)!;
    if (!NEEDS_NO_INPUT.has(op)) { for (const handle of given) needed.add(addressOf(handle)); }
    given = [];
    const count = COUNTS[op]?.();
    const code = call(name, overload, at, version);
    if (code !== 0) return code;
    const first = callStack[0];
    if (count !== undefined) {
      part.operations += typeof count === "number" ? count : count(numelOfHandle(first));
    }
    if (NEEDS_RESULT.has(op)) needed.add(addressOf(first));
    if (Object.hasOwn(BESIDE, op)) part.saved += BESIDE[op] * numelOfHandle(first);
    return code;
  };
  try {
    body((results) => {
      for (const { h } of results) note(h);
      parts.push({ operations: 0, saved: 0 });
    });
    for (const { part, bytes } of savedForBackward(made, needed, own.map(({ h }) => h))) {
      parts[part].saved += bytes;
    }
    return parts.slice(0, -1);
  } finally {
    Object.assign(native, { call, newHandle, deleteTensor });
    for (const handle of made.keys()) deleteTensor(handle);
  }
}

function namesOfOps(): (at: Deno.PointerValue) => string {
  const names = new Map<Deno.PointerValue, string>();
  return (at) => {
    let name = names.get(at);
    if (name === undefined) {
      name = at === null ? "" : new Deno.UnsafePointerView(at).getCString().replace(/^aten::/, "");
      names.set(at, name);
    }
    return name;
  };
}

const OWN = -1;

/** Tensors that overlap are one piece of memory; it is kept whole if any of it is needed. */
function savedForBackward(
  made: ReadonlyMap<bigint, number>,
  needed: ReadonlySet<bigint>,
  own: readonly bigint[],
): { part: number; bytes: number }[] {
  const known = own.map((handle): [bigint, number] => [handle, OWN]);
  const places = [...made, ...known].map(([handle, part]) => {
    const from = addressOf(handle);
    return { part, from, to: from + BigInt(bytesOf(handle)) };
  }).filter(({ from, to }) => from !== 0n && to > from);
  places.sort((a, b) => a.from < b.from ? -1 : a.from > b.from ? 1 : 0);
  const wanted = [...needed].sort((a, b) => a < b ? -1 : a > b ? 1 : 0);
  const saved: { part: number; bytes: number }[] = [];
  for (let i = 0, at = 0; i < places.length;) {
    const { from } = places[i];
    let { to, part } = places[i];
    while (++i < places.length && places[i].from < to) {
      if (places[i].to > to) to = places[i].to;
      part = Math.min(part, places[i].part);
    }
    while (at < wanted.length && wanted[at] < from) at++;
    if (part !== OWN && at < wanted.length && wanted[at] < to) saved.push({ part, bytes: Number(to - from) });
  }
  return saved;
}

function addressOf(handle: bigint): bigint {
  native.dataPointer(handle, outAt);
  return out[0];
}

function numelOfHandle(handle: bigint): number {
  native.numel(handle, outAt);
  return Number(outI64[0]);
}

function bytesOf(handle: bigint): number {
  native.dtype(handle, outAt);
  const width = dtypeBytes(dtypeName(Number(outI64[0] & 0xffffffffn)));
  return width * numelOfHandle(handle);
}
