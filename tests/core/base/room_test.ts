// What data may take of the memory, and what is said when it would take more.
import { assertEquals, assertThrows } from "@std/assert";
import { checkFreeMemory, heldInMemory } from "../../../core/base/memory.ts";
import { UserError } from "../../../core/base/errors.ts";
import { assertSentence } from "../../sentences.ts";

const GIB = 2 ** 30;

Deno.test("half of what is free may be taken; beyond, the number of samples that fits is told", () => {
  checkFreeMemory("big.npz", GIB, 1000, "", 2 * GIB);
  const error = assertThrows(
    () => checkFreeMemory("big.npz", 3 * GIB, 1000, "Choose fewer.", 2 * GIB),
    UserError,
  );
  assertEquals(error.kind, "memory");
  assertSentence("core/base/room: big npz would", error.message);
});

Deno.test("data is held in memory up to a quarter of what is free, unless the user says where it is held", () => {
  assertEquals([2, 2.1].map((share) => heldInMemory("auto", share * GIB, 8 * GIB)), [true, false]);
  assertEquals([heldInMemory("yes", 9 * GIB, GIB), heldInMemory("no", 1, GIB)], [true, false]);
});
