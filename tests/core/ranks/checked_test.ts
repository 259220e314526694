// Collectives that are compared before they begin.
import { assertEquals, assertThrows } from "@std/assert";
import { checked, type Collectives } from "../../../core/ranks/collectives.ts";
import { UserError } from "../../../core/base/errors.ts";
import { tensor, toNumbers, zeros } from "../../../ffi/make.ts";
import { copy_, narrow } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { assertSentence } from "../../sentences.ts";

useLibtorch();

/** Rank 0 of two, whose other rank says what `other` makes of this one's row. */
function rankOf(other: (row: Float64Array) => number[], done: string[]): Collectives {
  const note = (name: string) => (...args: unknown[]) => {
    done.push(`${name} ${args.at(-1)}`);
    return done.length;
  };
  return {
    backend: "tcp",
    rank: 0,
    world: 2,
    allReduce: note("all-reduce"),
    broadcast: note("broadcast"),
    reduceScatter: note("reduce-scatter"),
    barrier: note("barrier"),
    allGather(into: Tensor, own: Tensor, phase: string) {
      if (phase !== "what ranks are about to do") return note("all-gather")(phase);
      const rows = other(toNumbers(own));
      [...toNumbers(own), ...rows].forEach((value, i) => copy_(narrow(into, 0, i, 1), scalarOf(value)));
      return 0;
    },
    done: () => true,
    wait: () => {},
    waited: () => 0,
    times: () => ({ waited: 0, busy: 0 }),
    abort: () => {},
    close: () => Promise.resolve(),
  } as Collectives;
}

const scalarOf = (value: number): Tensor => {
  const t = zeros([1], { dtype: "f64" });
  copy_(t, tensor(Float64Array.of(value)));
  return t;
};

Deno.test("ranks that come with the same collectives go on, and those that come with others are told of by name", () => {
  const done: string[] = [];
  const alike = checked(rankOf((row) => [...row], done), "cpu");
  const t = zeros([4]);
  alike.allReduce(t, "sum", "gradients");
  alike.broadcast(t, 0, "weights");
  alike.allGather(zeros([8]), t, "norms");
  alike.reduceScatter(zeros([2]), t, "parts");
  alike.barrier("the end");
  assertEquals(done, [
    "all-reduce gradients",
    "broadcast weights",
    "all-gather norms",
    "reduce-scatter parts",
    "barrier the end",
  ]);
  done.length = 0;
  const larger = checked(rankOf(([op, bytes, phase]) => [op, 2 * bytes, phase], done), "cpu");
  const error = assertThrows(() => larger.allReduce(t, "sum", "gradients"), UserError);
  assertEquals(error.kind, "communication");
  assertSentence("core/ranks/checked: ranks same place", error.message);
  const elsewhere = checked(rankOf(([, bytes, phase]) => [4, bytes, phase], done), "cpu");
  assertThrows(() => elsewhere.broadcast(t, 0, "weights"), UserError, "and rank 1 with barrier of");
  assertEquals(done, []);
});
