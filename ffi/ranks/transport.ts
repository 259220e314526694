// Transports between ranks on CPUs. Collectives block, work on native memory by address, and are called from
// one thread.

export type ElementType = "f32" | "f64" | "bf16" | "f16" | "i32" | "i64" | "u8";
export type ReduceOp = "sum" | "max" | "min";

export const TYPE_BYTES: Readonly<Record<ElementType, number>> = {
  f32: 4,
  f64: 8,
  bf16: 2,
  f16: 2,
  i32: 4,
  i64: 8,
  u8: 1,
};

export interface Transport {
  readonly version: string;
  readonly rank: number;
  readonly size: number;
  allReduce(at: bigint, count: number, type: ElementType, op: ReduceOp): void;
  broadcast(at: bigint, bytes: number, root: number): void;
  /** Each rank's `bytes` go into the memory of all, in order of ranks. */
  allGather(into: bigint, own: bigint, bytes: number): void;
  /** Gives this rank's `count` of the sums of all. */
  reduceScatter(own: bigint, from: bigint, count: number, type: ElementType): void;
  barrier(): void;
  /** Until the next call, all-reduces and barriers are among the ranks of this colour; -1: among all. */
  split(colour: number): void;
  /**
   * The address of `bytes` that all ranks see, or 0 where they are not all on one host, or it has no room. A
   * sum there takes one pass over memory; and from here on small ones take no messages. Every rank calls it,
   * once.
   */
  share(bytes: number): bigint;
  finalize(): void;
}

/** Combines the sources, element by element and in their order, and writes the result to each of `into`. */
export type Combine = (
  sources: readonly bigint[],
  into: readonly bigint[],
  count: number,
  type: ElementType,
  op: ReduceOp,
) => void;

// The arithmetic needs no library: each stretch is copied to where JavaScript can compute with it, which
// costs a fifth of the time. Numbers of 16 bits are added up as f32 and rounded once.

/** Bytes at a time: they and the sums stay in a core's cache. */
const CHUNK = 64 * 1024;

const libc = () =>
  Deno.dlopen("libc.so.6", {
    memcpy: { parameters: ["usize", "usize", "usize"], result: "usize" },
  }).symbols;

const addressOf = (bytes: Uint8Array<ArrayBuffer>): bigint =>
  BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));

/** The address stays valid as long as this object is reachable. */
export interface FixedBytes {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly address: bigint;
}

/** Arrays of less than 64 bytes lie in JavaScript's own memory, where addresses change. */
export function fixedBytes(count: number): FixedBytes {
  const bytes = new Uint8Array(new ArrayBuffer(Math.max(count, 128)), 0, count);
  return { bytes, address: addressOf(bytes) };
}

export function openArithmetic(): Combine {
  const { memcpy } = libc();
  const sums = newBuffers(), terms = newBuffers();
  const halves = new Float32Array(CHUNK / 2); // of 16-bit numbers
  const stretch = (
    sources: readonly bigint[],
    into: readonly bigint[],
    at: bigint,
    count: number,
    type: ElementType,
    op: ReduceOp,
  ) => {
    const bytes = BigInt(count * TYPE_BYTES[type]);
    const narrow = type === "bf16" || type === "f16";
    memcpy(sums.address, sources[0] + at, bytes);
    if (narrow) widen(halves, sums, count, type, "first");
    for (let i = 1; i < sources.length; i++) {
      memcpy(terms.address, sources[i] + at, bytes);
      if (narrow) widen(halves, terms, count, type, op);
      else if (op === "sum" && type === "f32") addF32(sums.f32, terms.f32, count);
      else if (op === "sum" && type === "f64") addF64(sums.f64, terms.f64, count);
      else if (type === "i64") combineLong(sums.i64, terms.i64, count, op);
      else combineAny(sums[type], terms[type], count, op);
    }
    if (narrow) narrowTo(sums, halves, count, type);
    for (const to of into) memcpy(to + at, sums.address, bytes);
  };
  return (sources, into, count, type, op) => {
    const step = CHUNK / TYPE_BYTES[type];
    for (let from = 0; from < count; from += step) {
      stretch(sources, into, BigInt(from * TYPE_BYTES[type]), Math.min(step, count - from), type, op);
    }
  };
}

function newBuffers() {
  const { bytes: u8, address } = fixedBytes(CHUNK), { buffer } = u8;
  return {
    address,
    f32: new Float32Array(buffer),
    f64: new Float64Array(buffer),
    i32: new Int32Array(buffer),
    i64: new BigInt64Array(buffer),
    u8,
    f16: new Float16Array(buffer),
    bf16: new Uint16Array(buffer),
  };
}

type Buffers = ReturnType<typeof newBuffers>;

// Gradients have a loop of their own: a loop that has seen several types is three times as slow.
function addF32(sums: Float32Array, terms: Float32Array, count: number): void {
  for (let i = 0; i < count; i++) sums[i] += terms[i];
}

function addF64(sums: Float64Array, terms: Float64Array, count: number): void {
  for (let i = 0; i < count; i++) sums[i] += terms[i];
}

type Numbers = Float32Array | Float64Array | Int32Array | Uint8Array | Uint16Array | Float16Array;

function combineAny(sums: Numbers, terms: Numbers, count: number, op: ReduceOp): void {
  if (op === "sum") { for (let i = 0; i < count; i++) sums[i] += terms[i]; }
  else if (op === "max") { for (let i = 0; i < count; i++) if (terms[i] > sums[i]) sums[i] = terms[i]; }
  else for (let i = 0; i < count; i++) if (terms[i] < sums[i]) sums[i] = terms[i];
}

function combineLong(sums: BigInt64Array, terms: BigInt64Array, count: number, op: ReduceOp): void {
  for (let i = 0; i < count; i++) {
    if (op === "sum") sums[i] += terms[i];
    else if (op === "max" ? terms[i] > sums[i] : terms[i] < sums[i]) sums[i] = terms[i];
  }
}

const word = new Float32Array(1), bits = new Uint32Array(word.buffer);

function widen(
  sums: Float32Array,
  from: Buffers,
  count: number,
  type: "bf16" | "f16",
  op: ReduceOp | "first",
): void {
  for (let i = 0; i < count; i++) {
    let value = from.f16[i];
    if (type === "bf16") {
      bits[0] = from.bf16[i] << 16;
      value = word[0];
    }
    if (op === "first") sums[i] = value;
    else if (op === "sum") sums[i] += value;
    else if (op === "max" ? value > sums[i] : value < sums[i]) sums[i] = value;
  }
}

function narrowTo(into: Buffers, sums: Float32Array, count: number, type: "bf16" | "f16"): void {
  for (let i = 0; i < count; i++) {
    if (type === "f16") {
      into.f16[i] = sums[i];
      continue;
    }
    word[0] = sums[i];
    const whole = bits[0];
    // Rounds to the nearest, ties to even; NaN stays NaN.
    into.bf16[i] = sums[i] === sums[i] ? (whole + 0x7fff + ((whole >>> 16) & 1)) >>> 16 : 0x7fc0;
  }
}
