// A group that was built before is the one that would be built now.
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { Graph, Node, Ref } from "../../../core/compile/graph.ts";
import { type BufferMap, buildGroup, UnfitGroup } from "../../../core/compile/group.ts";
import { KnownGroups } from "../../../core/compile/known_groups.ts";

const made = { shape: [4, 8], kind: "f32" } as const;
const nodes: readonly Node[] = [
  { op: "tensor", origin: { from: "input" }, ...made },
  { op: "exp", args: [0], ...made },
  { op: "mul", args: [1, 1], ...made },
  { op: "add", args: [2, 0], ...made },
];
const graph: Graph = { nodes, output: 3, loss: 3, gradients: [], effects: [] };

function memory(buffers: Readonly<Record<Ref, number>>, accesses = 8): BufferMap {
  return {
    graph,
    bufferOf: (ref) => buffers[ref] ?? null,
    kindOf: () => "f32",
    limits: { accesses, instructions: 100 },
  };
}

Deno.test("a known group is built once, and reads and writes the buffers of now", () => {
  const known = new KnownGroups(), first = known.build(memory({ 0: 0, 3: 1 }), [3]);
  assertStrictEquals(known.build(memory({ 0: 0, 3: 1 }), [3]), first);
  const later = memory({ 0: 5, 3: 0 });
  assertEquals(known.build(later, [3]), buildGroup(later, [3], ""));
});

Deno.test("a group is another one where what it reads has come to memory, or has left it", () => {
  const known = new KnownGroups(), before = memory({ 0: 0, 3: 1 }), after = memory({ 0: 0, 1: 2, 3: 1 });
  const computes = known.build(before, [3]), reads = known.build(after, [3]);
  assertEquals(reads, buildGroup(after, [3], ""));
  assert(computes.inner.has(1) && !reads.inner.has(1));
  assertEquals(known.build(before, [3]), computes);
});

Deno.test("what did not fit does not fit again, as long as memory is the same", () => {
  const known = new KnownGroups(), narrow = memory({ 0: 0, 3: 1 }, 1);
  for (let time = 0; time < 2; time++) assertThrows(() => known.build(narrow, [3]), UnfitGroup);
});
