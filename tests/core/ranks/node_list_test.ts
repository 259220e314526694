// Lists of nodes and of tasks, as SLURM and PBS write them.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { expandCounts, expandNodes, sameNode, uniqueNodes } from "../../../core/ranks/launchers.ts";
import { UserError } from "../../../core/base/errors.ts";

const expand = (list: string) => expandNodes(list, "SLURM_JOB_NODELIST").join(" ");

Deno.test("a node list gives what `scontrol show hostnames` prints", () => {
  // Left as SLURM 22.05 writes them, right as its scontrol expands them.
  const lists: [string, string][] = [
    ["node1", "node1"],
    ["node[1-2]", "node1 node2"],
    ["gpu[001-003,7],login1", "gpu001 gpu002 gpu003 gpu7 login1"],
    ["n[8-11]", "n8 n9 n10 n11"],
    ["n[098-101]", "n098 n099 n100 n101"],
    ["r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"],
    ["rack[1,3]-node[7]-ib,x", "rack1-node7-ib rack3-node7-ib x"],
    ["a,b[2-2],c.site.example", "a b2 c.site.example"],
    ["nid[000099-000100]", "nid000099 nid000100"],
  ];
  for (const [list, names] of lists) assertEquals(expand(list), names);
});

Deno.test("a list that nobody can read is refused with its variable and its text", () => {
  for (
    const list of [
      "n[1-2",
      "n1-2]",
      "n[[1]]",
      "n[b-c]",
      "n[3-1]",
      "n[]",
      "n[1-999999999]",
      "n[0-999][0-999]",
      "n[0-99999]".repeat(9),
    ]
  ) {
    const error = assertThrows(() => expand(list), UserError, `SLURM_JOB_NODELIST is "${list}"`);
    assertEquals(error.kind, "usage", list);
  }
});

Deno.test("tasks on each node are counted out", () => {
  const counts = (list: string) => expandCounts(list, "SLURM_TASKS_PER_NODE");
  assertEquals(counts("4"), [4]);
  assertEquals(counts("2(x3),1"), [2, 2, 2, 1]);
  assertEquals(counts("1,2(x2)"), [1, 2, 2]);
  assertThrows(() => counts("2x3"), UserError, 'SLURM_TASKS_PER_NODE is "2x3"');
  assertThrows(() => counts("2(x99999999999)"), UserError);
});

Deno.test("a node that PBS names once a slot is one node, in its place", () => {
  assertEquals(uniqueNodes(["b", "b", " a ", "", "b"]), ["b", "a"]);
});

Deno.test("a short name and a full one are the same node, two full ones only if they are equal", () => {
  assert(sameNode("node1", "NODE1.site.example"));
  assert(sameNode("node1.site.example", "node1"));
  assert(!sameNode("node1.a.example", "node1.b.example"));
  assert(!sameNode("node1", "node10"));
});
