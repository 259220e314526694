// Two threads at the copies and sums of one checkpoint: each is made once, by whoever is there.
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  digestFor,
  help,
  leaveSums,
  makeCopies,
  makeSums,
  type SharedWork,
  workOf,
} from "../../../../core/checkpoint/background/job.ts";
import type { MemoryBlock } from "../../../../ffi/libc.ts";

const MIB = 1 << 20;

/** Memory that stays where it is as long as the test has it. */
function memory(length: number, seed: number): { bytes: Uint8Array<ArrayBuffer>; place: MemoryBlock } {
  const words = new Uint32Array(Math.ceil(length / 4));
  for (let i = 0; i < words.length; i++) words[i] = seed === 0 ? 0 : Math.imul(i + seed, 2654435761);
  const bytes = new Uint8Array(words.buffer, 0, length);
  const address = BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));
  return { bytes, place: { address, bytes: length } };
}

function state() {
  const sizes = [20 * MIB, 3, 17 * MIB + 5, 8 * MIB];
  const from = sizes.map((size, i) => memory(size, i + 1)), to = sizes.map((size) => memory(size, 0));
  const copies = from.map(({ place }, i) => ({ from: place, to: to[i].place }));
  const work = workOf(copies, [to[0].place, new Uint8Array(9), ...to.slice(1).map(({ place }) => place)])!;
  const sums = from.map(({ bytes }) => createHash("sha256").update(bytes).digest("hex"));
  return { work, from, to, sums };
}

function check({ work, from, to, sums }: ReturnType<typeof state>): void {
  makeCopies(work);
  to.forEach(({ bytes }, i) => assert(Buffer.compare(bytes, from[i].bytes) === 0, `copy ${i}`));
  assertEquals(work.sum.map((_, i) => digestFor(work, i)), sums);
}

Deno.test("one thread alone makes all copies and sums", () => check(state()));

Deno.test("with a second thread beside it the copies and the sums are the same", async () => {
  const thread = new Worker(
    new URL("../../../../core/checkpoint/background/thread.ts", import.meta.url),
    { type: "module" },
  );
  try {
    for (let round = 0; round < 3; round++) {
      const all = state();
      thread.postMessage({ help: all.work });
      if (round > 0) await new Promise((resolve) => setTimeout(resolve, 20 * round)); // it is first, or amid
      check(all);
    }
  } finally {
    thread.terminate();
  }
});

Deno.test("copies are not made before the other thread's are, too", () => {
  const { work } = state();
  const counters = new Int32Array(work.board, 0, 2);
  counters[0] = 1; // it has taken the first, and is at it
  assertEquals(makeCopies(work, 10), false);
  counters[1]++; // now it is done
  assertEquals(makeCopies(work), true);
});

Deno.test("what the other thread has made is taken and not made again", () => {
  const all = state();
  help(all.work);
  const { board, sum } = all.work;
  new Uint8Array(board, board.byteLength - 32 * sum.length).fill(0xab); // as if it had found other sums
  assertEquals(digestFor(all.work, 2), "ab".repeat(32));
});

Deno.test("a sum that the other thread has begun with and never ends is made here", () => {
  const all = state();
  makeCopies(all.work);
  new Int32Array(all.work.board)[2] = 1; // somebody has taken the first
  assertEquals(digestFor(all.work, 0, 10), all.sums[0]);
});

Deno.test("sums that nobody needs any more are not made", () => {
  const { work } = state();
  leaveSums(work);
  makeSums(work);
  const ready = new Int32Array(work.board, 4 * 3, work.sum.length);
  assertEquals([...ready], [0, 0, 0, 0]);
});

Deno.test("a small state is no work for two", () => {
  const { place } = memory(MIB, 1);
  assertEquals(workOf([], [place, new Uint8Array(64 * MIB)]) satisfies SharedWork | null, null);
});
