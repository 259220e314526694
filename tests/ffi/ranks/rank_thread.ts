// One rank of the tests of transports, as a thread: what it is told to communicate by, it does everything with, and says what is
// not what plain loops give. Test helper.
import { openTransport } from "../../../ffi/ranks/open_transport.ts";
import { type ElementType, fixedBytes, type ReduceOp, type Transport } from "../../../ffi/ranks/transport.ts";
import type { ThreadScope } from "../../../core/base/threads.ts";

declare const self: ThreadScope;

/** What a rank found. */
export interface Report {
  readonly checked: number;
  readonly wrong: readonly string[];
  /** Whether it had memory that all see. */
  readonly shared: boolean;
}

const TYPES: readonly ElementType[] = ["f32", "f64", "bf16", "f16", "i32", "i64", "u8"];
const OPS: readonly ReduceOp[] = ["sum", "max", "min"];
/** Elements: one, a few, what is small, what is added up by parts, more than a slot; none of them even. */
const COUNTS = [1, 7, 1001, 20_003, 70_001], FEW = [7, 20_003];
/** Bytes. */
const SIZES = [1, 4097, 300_001];

const ARRAYS = {
  f32: Float32Array,
  f64: Float64Array,
  f16: Float16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  u8: Uint8Array,
} as const;

/** Small whole numbers, which every type holds, and their sums too. */
const value = (rank: number, i: number): number => (i * 7 + rank * 13) % 31;

/** bf16 is the upper half of an f32. */
function write(type: ElementType, values: readonly number[]): Uint8Array<ArrayBuffer> {
  if (type === "bf16") {
    const words = new Uint16Array(Float32Array.from(values).buffer);
    return new Uint8Array(Uint16Array.from(values, (_, i) => words[2 * i + 1]).buffer);
  }
  if (type === "i64") return new Uint8Array(BigInt64Array.from(values.map(BigInt)).buffer);
  return new Uint8Array(ARRAYS[type as "f32"].from(values).buffer);
}

function read(type: ElementType, bytes: Uint8Array<ArrayBuffer>): number[] {
  if (type === "bf16") {
    const halves = new Uint16Array(bytes.buffer);
    return [...new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer)];
  }
  return Array.from(new ARRAYS[type as "f32"](bytes.buffer), Number);
}

function placed(values: Uint8Array): { bytes: Uint8Array<ArrayBuffer>; at: bigint } {
  const { bytes, address: at } = fixedBytes(values.length);
  bytes.set(values);
  return { bytes, at };
}

function openCheck() {
  const wrong: string[] = [];
  let checked = 0;
  return {
    wrong,
    checked: () => checked,
    same(what: string, found: ArrayLike<number>, expected: (i: number) => number, count: number) {
      checked++;
      for (let i = 0; i < count; i++) {
        if (found[i] === expected(i)) continue;
        return void wrong.push(`${what}: ${found[i]} at ${i} of ${count}, and ${expected(i)} is right`);
      }
      if (found.length !== count) wrong.push(`${what}: ${found.length} and not ${count} numbers`);
    },
  };
}

type Check = ReturnType<typeof openCheck>;

function reduced(transport: Transport, type: ElementType, op: ReduceOp, values: readonly number[]): number[] {
  const { bytes, at } = placed(write(type, values));
  transport.allReduce(at, values.length, type, op);
  return read(type, bytes.slice());
}

const numbers = (count: number, of: (i: number) => number) => Array.from({ length: count }, (_, i) => of(i));

function everything(transport: Transport, { same }: Check, types = TYPES): void {
  const { rank, size } = transport;
  const ranks = numbers(size, (other) => other);
  const all = (op: ReduceOp, i: number) => {
    const by = { sum: (a: number, b: number) => a + b, max: Math.max, min: Math.min }[op];
    return ranks.map((other) => value(other, i)).reduce((a, b) => by(a, b));
  };
  for (const type of types) {
    for (const op of OPS) {
      for (const count of type === "f32" && op === "sum" ? COUNTS : FEW) {
        const found = reduced(transport, type, op, numbers(count, (i) => value(rank, i)));
        same(`${op} of ${type}`, found, (i) => all(op, i), count);
      }
    }
  }
  // In the order of ranks, each sum rounded: the same bits whatever the number of elements and whoever adds.
  const fraction = (other: number, i: number) => Math.fround((i + 1) / (other + 3));
  for (const count of [100, 50_000]) {
    const found = reduced(transport, "f32", "sum", numbers(count, (i) => fraction(rank, i)));
    const sum = (i: number) => ranks.map((other) => fraction(other, i)).reduce((a, b) => Math.fround(a + b));
    same("fractions", found, sum, count);
  }
  SIZES.forEach((count, i) => {
    const root = i % size;
    const told = placed(Uint8Array.from({ length: count }, (_, i) => (i * 3 + rank) & 255));
    transport.broadcast(told.at, count, root);
    same(`broadcast from ${root}`, told.bytes, (i) => (i * 3 + root) & 255, count);
    const own = placed(Uint8Array.from({ length: count }, (_, i) => (i * 5 + rank) & 255));
    const into = placed(new Uint8Array(count * size));
    transport.allGather(into.at, own.at, count);
    const from = (i: number) => (i % count * 5 + Math.floor(i / count)) & 255;
    same("all-gather", into.bytes, from, own.bytes.length * size);
  });
  for (const count of COUNTS) {
    const from = placed(write("f32", numbers(count * size, (i) => value(rank, i))));
    const own = placed(new Uint8Array(4 * count));
    transport.reduceScatter(own.at, from.at, count, "f32");
    same(
      "reduce-scatter",
      read("f32", own.bytes.slice()),
      (i) => all("sum", rank * count + i),
      from.bytes.length / 4 / size,
    );
  }
  transport.barrier();
}

/** Two parts at a time, all again, another cut, each alone, and all. */
function parts(transport: Transport, { same }: Check): void {
  const { rank, size } = transport;
  const cuts = [(r: number) => r % 2, () => -1, (r: number) => r < 2 ? 7 : 3, (r: number) => r, () => -1];
  for (const colour of cuts) {
    transport.split(colour(rank));
    const sum = numbers(size, (r) => r).filter((r) => colour(r) === colour(rank)).reduce(
      (a, r) => a + 10 ** r,
      0,
    );
    same("a part's sum", reduced(transport, "f64", "sum", [10 ** rank]), () => sum, 1);
    same(
      "a part's sums",
      reduced(transport, "f32", "sum", Array(30_000).fill(10 ** rank)),
      () => sum,
      30_000,
    );
    transport.barrier();
  }
}

/** Where all see them: the whole of it, and a part. */
function inSharedMemory(transport: Transport, { same }: Check): boolean {
  const { rank, size } = transport;
  const count = 100_003, address = transport.share(4 * count);
  if (address === 0n) return false;
  const pointer = Deno.UnsafePointer.create(address)!;
  const here = new Float32Array(Deno.UnsafePointerView.getArrayBuffer(pointer, 4 * count));
  same("new shared memory", here, () => 0, count);
  here.set(numbers(count, (i) => value(rank, i)));
  transport.allReduce(address, count, "f32", "sum");
  const sum = (i: number) => numbers(size, (other) => value(other, i)).reduce((a, b) => a + b);
  same("sums in shared memory", here, sum, count);
  here.fill(rank, 70_000, 90_000);
  transport.allReduce(address + 280_000n, 20_000, "f32", "max");
  same("a part of it", here, (i) => i >= 70_000 && i < 90_000 ? size - 1 : sum(i), count);
  return true;
}

self.onmessage = async ({ data }) => {
  const check = openCheck();
  const transport = await openTransport(data);
  everything(transport, check);
  parts(transport, check);
  const shared = inSharedMemory(transport, check);
  everything(transport, check, ["f32", "bf16"]); // beside shared memory, where slots begin anew
  transport.finalize();
  self.postMessage({ checked: check.checked(), wrong: check.wrong, shared } satisfies Report);
};
