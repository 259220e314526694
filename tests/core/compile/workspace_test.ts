// Plans take turns in one piece of memory, which is the system's between their runs.
import { assert, assertEquals } from "@std/assert";
import { Workspace } from "../../../core/compile/workspace.ts";
import { fill_ } from "../../../ffi/make.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { liveTensors } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

const residentBytes = (): number =>
  1024 * Number(Deno.readTextFileSync("/proc/self/status").match(/RssAnon:\s+(\d+)/)![1]);

Deno.test("plans share a room that is large enough, and its pages are given back while they rest", () => {
  const before = liveTensors(), room = new Workspace(), elements = 16 << 20;
  const whole = room.take(elements);
  assert(room.take(elements / 2) === whole);
  const larger = room.take(elements + 1);
  assert(larger !== whole);
  assert(!room.isLarge);
  room.leave(larger);
  const large = room.take(64 << 20); // nothing is written there
  assert(room.isLarge);
  room.leave(large);
  noGrad(() => fill_(whole, 1));
  const used = residentBytes();
  room.rest();
  assert(used - residentBytes() > 4 * elements * 0.9, "the pages are still there");
  noGrad(() => fill_(whole, 2)); // they come again
  room.leave(whole);
  assertEquals(room.take(elements / 4) === whole, true);
  room.leave(whole);
  room.leave(whole);
  assertEquals(liveTensors(), before);
});
