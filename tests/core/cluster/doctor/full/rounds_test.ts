import { assert, assertEquals } from "@std/assert";
import { tournament } from "../../../../../core/cluster/doctor/full/pairs.ts";

Deno.test("every two nodes meet once, and in no round does a node meet two", () => {
  for (const nodes of [0, 1, 2, 3, 4, 5, 8, 13, 64]) {
    const rounds = tournament(nodes);
    const pairs = rounds.flat().map(([a, b]) => `${a}-${b}`);
    assertEquals(new Set(pairs).size, nodes * (nodes - 1) / 2, `${nodes} nodes`);
    assertEquals(pairs.length, new Set(pairs).size);
    for (const round of rounds) assertEquals(new Set(round.flat()).size, 2 * round.length);
    assert(rounds.length <= nodes);
  }
});
