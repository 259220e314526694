import { assertEquals } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import { neverArrived } from "../../../../../core/cluster/doctor/full/ranks.ts";
import { commonFailure, JobFailed } from "../../../../../core/ranks/control/failure.ts";

const failure = (...ranks: number[]) =>
  new JobFailed(
    commonFailure({ rank: ranks[0], host: "n1" }, { kind: "missing", ranks }, "They never arrived."),
    0,
  );
const PLACE = { nodeNames: ["n1", "n2", "n3", "n4"], localWorld: 2 };

Deno.test("ranks that never came are told by their nodes", () => {
  const nodes = (...ranks: number[]) => neverArrived(failure(...ranks), PLACE);
  assertEquals(nodes(3), ["n2"]);
  assertEquals(nodes(2, 4, 5), ["n2", "n3"]);
  assertEquals(nodes(1, 3, 7), ["n1", "n2", "n4"]);
});

Deno.test("where the launcher named no nodes, and of other failures, none is told", () => {
  assertEquals(neverArrived(failure(3), { nodeNames: [], localWorld: 1 }), []);
  assertEquals(neverArrived(new UserError("communication", "Rank 0 was not found."), PLACE), []);
});
