// Lists of cores.
import { assertEquals } from "@std/assert";
import { coreList, expandCores } from "../../../core/base/topology.ts";

Deno.test("lists of cores are read and written as Linux does", () => {
  assertEquals(expandCores("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
  assertEquals(coreList([8, 0, 2, 1, 10, 11]), "0-2,8,10-11");
});
