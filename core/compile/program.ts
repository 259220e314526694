// A plan before it has a place in memory: kernels and calls in order, whose slots are numbers of buffers.
import type { OtherKind, Ref, TensorOrigin } from "./graph.ts";
import type { GroupKernel, Kernel, StridedAccess } from "./kernel.ts";

/** The place of a value while a step runs. */
export type Home =
  | TensorOrigin
  | { readonly from: "arena" }
  /** The arena's gradient of this number. */
  | { readonly from: "gradient"; readonly index: number }
  | { readonly from: "output" }
  | { readonly from: "loss" }
  /** A tensor that libtorch makes, of call `call`. */
  | { readonly from: "result"; readonly call: number; readonly index: number };

/** A kernel's slots are numbers of buffers, until they have a place. */
export interface Buffer {
  /** -1 for room that a kernel takes for itself. */
  readonly ref: Ref;
  readonly kind: StridedAccess["kind"];
  readonly shape: readonly number[];
  readonly elements: number;
  readonly home: Home;
  /** libtorch's alone: kernels neither read nor write it. */
  readonly other?: OtherKind;
}

/** An argument of a call: a view of a buffer. */
export interface CallTensor {
  readonly slot: number;
  readonly offset: number;
  readonly kind: StridedAccess["kind"];
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
  /** It is the tensor itself that a call gave. */
  readonly own?: boolean;
}

export interface CallResult {
  readonly slot: number;
  readonly index: number;
  /** Its dimensions are not in the order of memory: channels or tokens lie elsewhere; or it is none of our business. */
  readonly lies: "first" | "last" | "tokens" | "opaque";
}

export interface CallPart {
  readonly kernel: "call";
  readonly name: string;
  readonly schema: string;
  readonly values: readonly unknown[];
  /** By the number of a value. */
  readonly tensors: ReadonlyMap<Ref, CallTensor>;
  /** Buffers, one for each result that is used. */
  readonly results: readonly CallResult[];
}

export type ProgramPart = Kernel | CallPart;

export interface Program {
  readonly parts: readonly ProgramPart[];
  readonly buffers: readonly Buffer[];
}

/** A part's name, and its loops or sizes: for people. */
export function partNames(part: ProgramPart): [string, string] {
  switch (part.kernel) {
    case "group":
      return [
        part.name,
        `${part.sizes.join(" x ")}${part.stages.length > 1 ? `, ${part.stages.length} passes` : ""}`,
      ];
    case "vector":
      return [part.name, `${part.elements}, MKL's`];
    case "call":
      return [part.name, "libtorch's"];
    default:
      return [part.name, `${part.m} x ${part.n} x ${part.k}`];
  }
}

const reads = new WeakMap<ProgramPart, ReadonlySet<number>>(),
  writes = new WeakMap<ProgramPart, ReadonlySet<number>>();

export function buffersRead(part: ProgramPart): ReadonlySet<number> {
  let found = reads.get(part);
  if (!found) reads.set(part, found = readBy(part));
  return found;
}

export function buffersWritten(part: ProgramPart): ReadonlySet<number> {
  let found = writes.get(part);
  if (!found) writes.set(part, found = writtenBy(part));
  return found;
}

/** A part that reads what no part before it wrote would take whatever lay in memory. */
export function checkedOrder({ parts, buffers }: Program): Program {
  const written = new Set<number>();
  for (const part of parts) {
    const own = buffersWritten(part);
    for (const slot of buffersRead(part)) {
      if (buffers[slot].home.from !== "arena" || written.has(slot)) continue;
      if (part.kernel === "group" && own.has(slot)) continue; // an earlier stage of its own
      throw new Error(`internal: ${part.name} reads value ${buffers[slot].ref}, which nothing wrote before.`);
    }
    for (const slot of own) written.add(slot);
  }
  return { parts, buffers };
}

function readBy(part: ProgramPart): Set<number> {
  const read = new Set<number>();
  const inStage = (stage: { readonly instructions: GroupKernel["stages"][0]["instructions"] } | null) => {
    for (const one of stage?.instructions ?? []) {
      if (one.op === "load") read.add((one as { from: StridedAccess }).from.slot);
    }
  };
  if (part.kernel === "group") part.stages.forEach(inStage);
  else if (part.kernel === "vector") read.add(part.from.slot);
  else if (part.kernel === "call") { for (const { slot } of part.tensors.values()) read.add(slot); }
  else {
    read.add(part.a.slot).add(part.b.slot);
    if (part.kernel === "gemm") {
      inStage(part.epilogue);
      if (part.add) read.add(part.c.slot);
    } else if (part.beta === 1) read.add(part.c.slot);
  }
  read.delete(-1);
  return read;
}

function writtenBy(part: ProgramPart): Set<number> {
  const written = new Set<number>();
  const inStage = (stage: GroupKernel["stages"][0] | null) => {
    for (const { to } of stage?.stores ?? []) written.add(to.slot);
    for (const { to } of stage?.reductions ?? []) if (to) written.add(to.slot);
  };
  if (part.kernel === "group") part.stages.forEach(inStage);
  else if (part.kernel === "vector") written.add(part.to.slot);
  else if (part.kernel === "call") { for (const { slot } of part.results) written.add(slot); }
  else {
    written.add(part.c.slot);
    if (part.kernel === "gemm") inStage(part.epilogue);
  }
  written.delete(-1);
  return written;
}
