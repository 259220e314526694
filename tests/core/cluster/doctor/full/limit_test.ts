import { assertEquals } from "@std/assert";
import { openLimit } from "../../../../../core/cluster/doctor/full/limit.ts";

Deno.test("a limit says its sentence when its time is over, and a new one begins anew", () => {
  let now = 0;
  const limit = openLimit(() => now);
  assertEquals(limit.over(), null);
  limit.set(2, "too long");
  now = 1999;
  assertEquals(limit.over(), null);
  now = 2001;
  assertEquals(limit.over(), "too long");
  limit.set(1, "again");
  assertEquals(limit.over(), null);
});
