// The ring between the training thread and the one that communicates: its counters go round, and its last words fit.
import { assert, assertEquals } from "@std/assert";
import { reached } from "../../../../core/base/threads.ts";
import { DONE, openRing } from "../../../../ffi/ranks/ring.ts";

Deno.test("numbers beyond 32 bits are compared rightly", () => {
  const ring = openRing();
  for (const done of [0, 5, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 7, 2 ** 32 - 1, 2 ** 32, 2 ** 33 + 3]) {
    Atomics.store(ring.words, DONE, done | 0);
    assert(reached(ring.words, DONE, done), `${done}`);
    assert(reached(ring.words, DONE, done - 255), `${done} - 255`);
    assert(!reached(ring.words, DONE, done + 1), `${done} + 1`);
    assert(!reached(ring.words, DONE, done + 256), `${done} + 256`);
  }
});

Deno.test("the reason of a failure is seen by who opens the ring again, however long it is", () => {
  const ring = openRing(), other = openRing(ring.shared);
  assertEquals(other.failure.read(), null);
  ring.failure.write("MPI_Allreduce: größer als erlaubt.");
  assertEquals(other.failure.read(), "MPI_Allreduce: größer als erlaubt.");
  const long = openRing();
  long.failure.write("x".repeat(10_000));
  assertEquals(long.failure.read()?.length, 4095);
});
