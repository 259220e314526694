import { assertEquals } from "@std/assert";
import { neverArrived } from "../../../../../core/cluster/doctor/full/ranks.ts";

const SENTENCE = (who: string) =>
  `Of 8 ranks 4 came within 20 s; ${who} never arrived: look at their output, and whether the nodes reach rank 0's.`;
const PLACE = { nodeNames: ["n1", "n2", "n3", "n4"], localWorld: 2 };

Deno.test("ranks that never came are told by their nodes", () => {
  const nodes = (who: string) => neverArrived(SENTENCE(who), PLACE);
  assertEquals(nodes("rank 3 (expected on n2)"), ["n2"]);
  assertEquals(nodes("ranks 2 and 4-5"), ["n2", "n3"]);
  assertEquals(nodes("ranks 1, 3 and 7"), ["n1", "n2", "n4"]);
});

Deno.test("where the launcher named no nodes, and of other sentences, none is told", () => {
  assertEquals(neverArrived(SENTENCE("rank 3"), { nodeNames: [], localWorld: 1 }), []);
  assertEquals(neverArrived("Rank 0 was not found.", PLACE), []);
});
