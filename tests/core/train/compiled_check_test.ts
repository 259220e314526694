// How a plan's gradients are judged: what the plan does not write is not taken for its own.
import { assertEquals, assertMatch } from "@std/assert";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { Buffers } from "../../../core/train/compared_buffers.ts";
import { gradientsIn } from "../../../core/train/compared_gradients.ts";
import { judge } from "../../../core/train/compiled_check.ts";
import type { Plans, Recorded } from "../../../core/train/compiled_plans.ts";
import { fill_, toNumbers, zero_, zeros as zerosOf } from "../../../ffi/make.ts";
import { clone, narrow } from "../../../ffi/ops.ts";
import { keep } from "../../../ffi/tensor.ts";
import { open, rig, rows } from "./rig.ts";

open();
const NONE = new Buffers([]), nothing = () => {};

const { arena } = rig(mlp({ inputs: 7, hidden: 5, layers: 1, outputs: 1 }), rows);

/** A plan that writes zeros, to some of the parameters' gradients, beside ordinary ones that are zeros. */
function judged(mode: "exact" | "fast", written: (parameter: number) => boolean) {
  zero_(arena.gradient);
  const zeros = keep(clone(arena.gradient)), loss = keep(zerosOf([]));
  const run = () => {
    arena.gradients.forEach((gradient, i) => written(i) && zero_(gradient));
    return { loss };
  };
  const plans = { run, lowered: { graph: { nodes: [] } } } as unknown as Plans;
  const recorded = { outcome: { loss } } as unknown as Recorded;
  const found = judge(
    plans,
    arena,
    gradientsIn(arena, zeros),
    recorded,
    { mode, half: false },
    NONE,
    nothing,
  );
  zeros.free();
  loss.free();
  return found;
}

Deno.test("a gradient that a plan does not write is found, also where it ought to be zero", () => {
  for (const mode of ["exact", "fast"] as const) {
    assertEquals(judged(mode, () => true).wrong, null);
    arena.names.forEach((name, i) => {
      assertMatch(judged(mode, (parameter) => parameter !== i).wrong!, new RegExp(`^${name}: `));
    });
  }
});

Deno.test("between the parameters' gradients there are zeros for the plan", () => {
  judged("fast", () => false);
  const ends = arena.starts.map((start, i) => start + arena.parameters[i].numel);
  const gaps = ends.flatMap((end, i) => {
    const next = arena.starts[i + 1] ?? arena.gradient.numel;
    return next === end ? [] : [...toNumbers(narrow(arena.gradient, 0, end, next - end))];
  });
  assertEquals(gaps.length > 0 && gaps.every((number) => number === 0), true);
});

/** Gradients of one number everywhere. */
const even = (number: number) => {
  const values = keep(clone(arena.gradient));
  zero_(values);
  arena.starts.forEach((start, i) => fill_(narrow(values, 0, start, arena.parameters[i].numel), number));
  return gradientsIn(arena, values);
};

/** In half precision: the plan's, the ordinary step's and f32's gradients. */
function judgedInHalf(plan: number, ordinary: number, f32: number) {
  const loss = keep(zerosOf([])), recorded = even(ordinary);
  const run = () => {
    arena.gradients.forEach((gradient) => fill_(gradient, plan));
    return { loss };
  };
  const plans = { run, lowered: { graph: { nodes: [] } } } as unknown as Plans;
  const outcome = { outcome: { loss } } as unknown as Recorded;
  const how = { mode: "fast", half: true, wide: () => even(f32) } as const;
  const found = judge(plans, arena, recorded, outcome, how, NONE, nothing);
  const left = toNumbers(arena.gradients[0])[0];
  recorded.values.free();
  loss.free();
  return { wrong: found.wrong, left };
}

Deno.test("in half precision a plan that is as near to f32 as the ordinary step is right, however far apart they are", () => {
  assertEquals(judgedInHalf(1.2, 0.8, 1), { wrong: null, left: Math.fround(1.2) });
  assertEquals(judgedInHalf(1.01, 1, 1).wrong, null);
});

Deno.test("in half precision a plan that is farther from f32 than rounding takes it is wrong", () => {
  for (const [plan, ordinary] of [[1.2, 1], [1.6, 1.4], [-1, 0.8], [0, 1.3], [NaN, 1]]) {
    assertMatch(judgedInHalf(plan, ordinary, 1).wrong!, /% from f32, and ordinary steps /);
  }
});
