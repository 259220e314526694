// Backward block by block, as ranks need it: the same bits as in one go, and gradients that are whole when it says so.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { aloneCollectives } from "../../../../core/ranks/collectives.ts";
import { openReducer, overlappedGradients, segmented } from "../../../../core/train/gradients/overlapped.ts";
import { firstBlocks } from "../../../../core/train/gradients/buckets.ts";
import { readBytes, toNumbers, zero_ } from "../../../../ffi/make.ts";
import { copy_, randn, toDtype } from "../../../../ffi/ops.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { openAccount } from "../../../../core/run/account.ts";
import { open, type Rig, rig } from "../rig.ts";
import { CASES, ROUNDED, train } from "../zoo_cases.ts";

open();

for (const zooCase of [...CASES, ROUNDED]) {
  Deno.test(`${zooCase.title} has the same bits when backward goes block by block`, async () => {
    const whole = await train(zooCase, {});
    const reduced = ({ model, arena, step }: Rig) => {
      const reducer = openReducer(arena, model, aloneCollectives(), 40_000 / 2 ** 20);
      return { gradients: overlappedGradients(step, reducer, null, openAccount()) };
    };
    assertEquals(await train(zooCase, {}, reduced), whole);
  });

  Deno.test(`${zooCase.title}: when a block is said to be done, nothing more is added to its gradients`, () =>
    scope(() => {
      manualSeed(7n);
      const { model, arena, step } = rig(zooCase.make(), zooCase.facts, { cast: zooCase.cast });
      const first = firstBlocks(arena, model);
      zero_(arena.gradient);
      const then = new Map<number, Uint8Array>();
      const done: number[] = [];
      segmented(step.pass, zooCase.input(), zooCase.target(), null, (block) => {
        done.push(block);
        first.forEach((of, i) => of === block && then.set(i, readBytes(arena.gradients[i])));
      });
      assertEquals(done, model.blocks.map((_, i) => i).toReversed());
      assertEquals(then.size, arena.gradients.length);
      for (const [i, bytes] of then) assertEquals(bytes, readBytes(arena.gradients[i]), arena.names[i]);
      assert([...then.values()].some((bytes) => bytes.some((byte) => byte !== 0)));
    }));
}

Deno.test("gradients that ranks add up in bf16 are rounded to it once, and stay fp32 in the arena", () =>
  scope(() => {
    manualSeed(7n);
    const [zooCase] = CASES;
    const { model, arena } = rig(zooCase.make(), zooCase.facts, {});
    copy_(arena.gradient, randn(arena.gradient.shape));
    const rounded = toNumbers(toDtype(toDtype(arena.gradient, "bf16"), "f32"));
    const reducer = openReducer(arena, model, aloneCollectives(), 1, { half: true });
    reducer.finish(null);
    assertEquals(toNumbers(arena.gradient), rounded);
    assertEquals(arena.gradient.dtype, "f32");
  }));

Deno.test("sums in bf16 are refused with MPI, which has none", () => {
  const { model, arena } = rig(CASES[0].make(), CASES[0].facts, {});
  const mpi = { ...aloneCollectives(), backend: "mpi" } as const;
  assertThrows(
    () => openReducer(arena, model, mpi, 1, { half: true }),
    UserError,
    "MPI, which has no sum of bf16",
  );
});
