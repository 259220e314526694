// What ranks send each other besides gradients.
import { assert, assertEquals } from "@std/assert";
import { aloneCollectives } from "../../../core/ranks/collectives.ts";
import { openTeam } from "../../../core/ranks/team.ts";
import { fill_, tensor, toNumbers } from "../../../ffi/make.ts";
import { t } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { open } from "../train/rig.ts";

open();

Deno.test("a matrix that lies turned is sent row by row, and gets rank 0's numbers in its own places", () => {
  const sent: number[] = [];
  const broadcast = (matrix: Tensor) => {
    assert(matrix.contiguous);
    sent.push(...toNumbers(matrix));
    fill_(matrix, 7);
    return 1;
  };
  const whole = tensor([[1, 2, 3], [4, 5, 6]]),
    team = openTeam({ ...aloneCollectives(), world: 2, broadcast }, "cpu");
  team.broadcast(t(whole), "start");
  assertEquals([sent, [...toNumbers(whole)]], [[1, 4, 2, 5, 3, 6], Array(6).fill(7)]);
  team.broadcast(whole, "start");
  assertEquals(sent.slice(6), Array(6).fill(7));
});
