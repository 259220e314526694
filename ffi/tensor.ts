// Tensor: a native handle with a known owner. Scopes own tensors; nothing waits for the garbage collector. A step that leaves
// another number of `liveTensors()` behind fails a test.
import { check, native, out, outAt, outF64, outI32, outI64 } from "./abi.ts";
import { type DType, dtypeBytes, dtypeName } from "./dtype.ts";
import { UseAfterFree } from "./errors.ts";
import { tape } from "./tape.ts";

/** A tensor lives on one of these. */
export type Device = "cpu" | `cuda:${number}`;

let live = 0;
let depth = 0;
let top = 0;
// Tensors made inside open scopes, in order; each scope owns the part above the mark it began at.
const owned: Tensor[] = [];

/** A tensor of libtorch's, in memory that the garbage collector does not see. */
export class Tensor {
  /** Address of the native handle; 0n once freed. Only ffi/ reads it. */
  h: bigint;
  /** True where scopes leave it alone; `keep` sets it. */
  kept = false;
  #shape: readonly number[] | undefined = undefined;
  #dtype: DType | undefined = undefined;
  #host: HostMemory | null | undefined = undefined;

  /** Takes over a native handle; made by ops, not by programs. */
  constructor(handle: bigint) {
    this.h = handle;
    live++;
    if (depth > 0) owned[top++] = this;
    if (tape.recorder !== null) tape.recorder.born(this);
  }

  /** The size of each dimension. */
  get shape(): readonly number[] {
    return this.#shape ??= readShape(alive(this, "shape"));
  }
  /** Elements from one place of each dimension to the next. */
  get strides(): readonly number[] {
    const h = alive(this, "strides");
    return this.shape.map((_, i) => (native.stride(h, BigInt(i), outAt), Number(outI64[0])));
  }
  /** Elements from where its memory begins, which other tensors may share, to its first one. */
  get offset(): number {
    native.storageOffset(alive(this, "offset"), outAt);
    return Number(outI64[0]);
  }
  /** The type of its elements. */
  get dtype(): DType {
    return this.#dtype ??= readDtype(alive(this, "dtype"));
  }
  /** The device that has its memory. */
  get device(): Device {
    const h = alive(this, "device");
    native.deviceType(h, outAt);
    if (outI32[0] === 0) return "cpu";
    native.deviceIndex(h, outAt);
    return `cuda:${outI32[0]}`;
  }
  /** How many elements it has. */
  get numel(): number {
    native.numel(alive(this, "numel"), outAt);
    return Number(outI64[0]);
  }
  /** How many bytes its elements take. */
  get byteLength(): number {
    return this.numel * dtypeBytes(this.dtype);
  }
  /** True where it is laid out in row-major order without gaps. */
  get contiguous(): boolean {
    out[0] = 0n;
    native.isContiguous(alive(this, "contiguous"), outAt);
    return (outI32[0] & 0xff) !== 0;
  }

  /**
   * Its memory, where that is the host's and without gaps; else null. A tensor keeps it for life.
   * @internal
   */
  get host(): HostMemory | null {
    if (this.#host === undefined) {
      alive(this, "host");
      this.#host = this.device === "cpu" && this.contiguous ? hostMemory(this) : null;
    }
    return this.#host;
  }

  /** The one value of a one-element tensor, as a number. Waits for the device. */
  item(): number {
    tape.recorder?.refuse("item", "reads");
    check(native.itemF64(alive(this, "item"), outAt), "item", () => describe(this));
    return outF64[0];
  }
  /** The one value of a one-element integer tensor, exactly. */
  itemBigInt(): bigint {
    tape.recorder?.refuse("item", "reads");
    check(native.itemI64(alive(this, "item"), outAt), "item", () => describe(this));
    return outI64[0];
  }

  /** Gives its memory back; every later use is an error. */
  free(): void {
    if (this.h === 0n) return;
    native.deleteTensor(this.h);
    this.h = 0n;
    live--;
  }

  /** Swaps in another tensor's handle: how a parameter moves into an arena while modules keep their reference. */
  replaceWith(other: Tensor): void {
    const handle = alive(other, "replaceWith");
    if (other === this) return;
    this.free();
    this.h = handle; // one tensor fewer lives if this one did, as free() has counted
    other.h = 0n;
    this.#shape = this.#dtype = this.#host = undefined;
  }

  /** As it is named in messages: f32[32, 7]. */
  toString(): string {
    return this.h === 0n ? "freed tensor" : describe(this);
  }
}

/** The memory of a tensor without gaps. @internal */
export interface HostMemory {
  /** The address of its first number. Only ffi/ reads it. */
  readonly at: bigint;
  readonly bytes: bigint;
  readonly dtype: DType;
}

function hostMemory(t: Tensor): HostMemory {
  check(native.dataPointer(t.h, outAt), "host");
  const at = out[0];
  return { at, bytes: BigInt(t.byteLength), dtype: t.dtype };
}

function readDtype(h: bigint): DType {
  native.dtype(h, outAt);
  return dtypeName(outI32[0]);
}

function readShape(h: bigint): readonly number[] {
  native.dim(h, outAt);
  const shape = new Array<number>(Number(outI64[0]));
  for (let i = 0; i < shape.length; i++) {
    native.size(h, BigInt(i), outAt);
    shape[i] = Number(outI64[0]);
  }
  return shape;
}

export function alive(t: Tensor, op: string): bigint {
  if (t.h === 0n) throw new UseAfterFree(op);
  return t.h;
}

export function describe(t: Tensor): string {
  const device = t.device;
  return `${t.dtype}[${t.shape.join(", ")}]${device === "cpu" ? "" : `@${device}`}`;
}

/** How many tensors exist now. A training step that changes it leaks. */
export const liveTensors = (): number => live;

/** Makes a tensor survive the scope it was made in. The caller frees it. */
export function keep<T extends Tensor>(t: T): T {
  t.kept = true;
  return t;
}

/** Frees every tensor made inside, but for those returned (alone, in an array or in an object) or kept. */
export function scope<R>(body: () => R): R {
  const mark = top;
  depth++;
  try {
    const result = body();
    depth--;
    closeScope(mark, result);
    return result;
  } catch (error) {
    depth--;
    closeScope(mark, undefined);
    throw error;
  }
}

/** A scope from which no tensor comes but those that are kept, so that nothing is looked for in what it returns. */
export function freeing<R>(body: () => R): R {
  const mark = top;
  depth++;
  try {
    return body();
  } finally {
    depth--;
    closeScope(mark, undefined);
  }
}

const FEW = 16;

function closeScope(mark: number, result: unknown): void {
  if (top === mark) return;
  const returned: Tensor[] = [];
  if (result !== undefined) collect(result, returned, 2);
  // A search through a few is faster than a set of them; through many it would be quadratic.
  const many = returned.length > FEW ? new Set(returned) : null;
  const end = top;
  top = mark;
  for (let i = mark; i < end; i++) {
    const t = owned[i];
    if (t.kept) continue;
    if (many === null ? returned.length > 0 && returned.includes(t) : many.has(t)) {
      if (depth > 0) owned[top++] = t;
    } else t.free();
  }
}

function collect(value: unknown, into: Tensor[], levels: number): void {
  if (value instanceof Tensor) into.push(value);
  else if (levels > 0 && typeof value === "object" && value !== null && !ArrayBuffer.isView(value)) {
    for (const item of Array.isArray(value) ? value : Object.values(value)) collect(item, into, levels - 1);
  }
}
