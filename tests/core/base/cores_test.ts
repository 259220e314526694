// How a node's cores are shared out.
import { assertEquals } from "@std/assert";
import { coreList, expandCores, shareCores, usableCores } from "../../../core/base/cores.ts";

Deno.test("each rank gets a stretch of the cores, and those left over are nobody's", () => {
  const { cores, said } = shareCores([0, 4, 1, 5, 2, 6, 3], 3);
  assertEquals(cores, [[0, 4], [1, 5], [2, 6]]);
  assertEquals(said, "2 cores to each rank of 7 (rank 0: 0,4; 1 left over)");
});

Deno.test("with less than two cores a rank nothing is bound", () => {
  assertEquals(shareCores([0, 1], 2), { cores: null, said: "2 cores are shared by 2 ranks, 1 thread each" });
  assertEquals(shareCores([0, 1, 2], 2).cores, null);
  assertEquals(shareCores([0], 4).cores, null);
});

Deno.test("lists of cores are read and written as Linux does", () => {
  assertEquals(expandCores("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
  assertEquals(coreList([8, 0, 2, 1, 10, 11]), "0-2,8,10-11");
  assertEquals(usableCores().length, navigator.hardwareConcurrency);
});
