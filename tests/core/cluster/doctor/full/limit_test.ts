import { assertEquals } from "@std/assert";
import { openTimeLimit } from "../../../../../core/cluster/doctor/full/pairs.ts";

Deno.test("a limit says its sentence when its time is over, and a new one begins anew", () => {
  let now = 0;
  const limit = openTimeLimit(() => now);
  assertEquals(limit.over(), null);
  limit.set(2, "too long");
  now = 1999;
  assertEquals(limit.over(), null);
  now = 2001;
  assertEquals(limit.over()?.message, "too long");
  limit.set(1, "again");
  assertEquals(limit.over(), null);
});
