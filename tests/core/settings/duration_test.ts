// Durations with units.
import { assertEquals } from "@std/assert";
import { parseDuration } from "../../../core/settings/setting.ts";

Deno.test("every unit is read, in seconds where it is a time", () => {
  assertEquals(parseDuration("500steps"), { count: 500, unit: "steps" });
  assertEquals(parseDuration("1ep"), { count: 1, unit: "epochs" });
  assertEquals(parseDuration("10min"), { count: 600, unit: "seconds" });
  assertEquals(parseDuration("1.5 h"), { count: 5400, unit: "seconds" });
  assertEquals(parseDuration("2e9tok"), { count: 2e9, unit: "tokens" });
});

Deno.test("a bare number has the unit that is asked for", () => {
  assertEquals(parseDuration("7", "epochs"), { count: 7, unit: "epochs" });
});

Deno.test("parseDuration gives null for a text that is no duration", () => {
  for (const text of ["", "steps", "-5", "5 parsecs", "1e999", "5steps6", "NaN", "5constructor"]) {
    assertEquals(parseDuration(text), null, text);
  }
});
