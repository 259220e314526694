// Compiled steps on ranks: a plan is cut where a bucket of gradients is whole, which is reduced while the rest runs.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { aloneCollectives, type Collectives } from "../../../../core/ranks/collectives.ts";
import { machineIsa } from "../../../../ffi/machine.ts";
import { printCode } from "../../../../core/compile/x86/print.ts";
import { openCompiledPass } from "../../../../core/train/compiled_pass.ts";
import { openReducer, overlappedGradients } from "../../../../core/train/gradients/overlapped.ts";
import { loadCode } from "../../../../ffi/machine_code.ts";
import { readBytes } from "../../../../ffi/make.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import type { Tensor } from "../../../../ffi/tensor.ts";
import { openAccount } from "../../../../core/run/account.ts";
import { residual } from "../blocks_model.ts";
import { randn } from "../../../../ffi/ops.ts";
import { open, rig, rows, run, weights } from "../rig.ts";
import { CASES } from "../zoo_cases.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

interface Reduced {
  readonly bytes: Uint8Array;
  readonly slice: Tensor;
}

const [gpt] = CASES;
const blocks = {
  title: "residual blocks with dropout",
  make: () => residual(4, 24, 0.1),
  facts: rows,
  input: () => randn([6, 7]),
  target: () => randn([6, 1]),
};

/** Five steps of two micro-batches; what is reduced in the last one, and what becomes of it. */
async function trained(made: typeof gpt, mode: "exact" | "fast" | null) {
  manualSeed(7n);
  const plain = rig(made.make(), made.facts, {}), { arena, model, step } = plain;
  const told: string[] = [], asked: Reduced[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const alone = aloneCollectives();
  const collectives: Collectives = {
    ...alone,
    allReduce(t, op, phase) {
      if (t.numel > 1) asked.push({ bytes: readBytes(arena.gradient), slice: t });
      return alone.allReduce(t, op, phase);
    },
  };
  const reducer = openReducer(arena, model, collectives, 4_000 / 2 ** 20);
  const options = { ...step, compiled: mode && openCompiledPass(arena, mode, () => tell) };
  const gradients = overlappedGradients(options, reducer, null, openAccount());
  const losses: number[] = [], wholes: Uint8Array[][] = [];
  for (let number = 0; number < 5; number++) {
    manualSeed(BigInt(100 + number));
    asked.length = 0;
    const batches = [0, 1].map(() => ({ input: made.input(), target: made.target() }));
    losses.push(run({ ...plain, step: { ...options, gradients } }, batches, { number, norm: true }).loss);
    for (const { input, target } of batches) input.free(), target.free();
    wholes.push([readBytes(arena.gradient), ...asked.map(({ bytes }) => bytes)]);
  }
  return { told: told.join("\n"), losses, weights: await weights(plain), wholes, arena, asked, reducer };
}

/** Of one run: a bucket is whole when it is reduced, and the first one goes while others are not whole yet. */
function assertEarly(
  { wholes, asked, reducer: { buckets, cuts } }: Awaited<ReturnType<typeof trained>>,
): void {
  assert(cuts.length > 2, `${cuts.length} cuts`);
  const [end, ...early] = wholes.at(-1)!;
  assertEquals(early.length, buckets);
  assert(early[0].some((byte, i) => byte !== end[i]), "all is whole when the first bucket goes");
  let from = end.length;
  early.forEach((bytes, i) => {
    const till = from;
    from -= 4 * asked[i].slice.numel; // they come from the arena's end
    assertEquals(bytes.subarray(from, till), end.subarray(from, till), `bucket ${i + 1}`);
  });
  assertEquals(from, 0);
}

Deno.test({
  name: "buckets are reduced while a compiled backward goes on: exact steps have the bits of ordinary ones",
  ignore: isa === null,
  async fn() {
    const plain = await trained(blocks, null), compiled = await trained(blocks, "exact");
    assertMatch(compiled.told, /^Steps are compiled: .* equal the ordinary ones\.$/);
    assertEquals(compiled.losses, plain.losses);
    assertEquals(compiled.weights, plain.weights);
    assertEarly(compiled);
  },
});

Deno.test({
  name:
    "a weight that two blocks share: exact steps that add have the bits of ordinary ones, or the plan is refused by its name",
  ignore: isa === null,
  async fn() {
    const plain = await trained(gpt, null), compiled = await trained(gpt, "exact");
    assertMatch(
      compiled.told,
      /^Steps are compiled: .*\nCompiled steps don't have .* \(transformer\.wte\.weight: /,
    );
    assertEquals(compiled.wholes.map(([whole]) => whole), plain.wholes.map(([whole]) => whole));
    assertEquals(compiled.weights, plain.weights);
  },
});

for (const made of [blocks, gpt]) {
  Deno.test({
    name: `${made.title}: buckets are reduced while a fast compiled backward goes on`,
    ignore: isa === null,
    async fn() {
      const plain = await trained(made, null), compiled = await trained(made, "fast");
      assertMatch(compiled.told, /^Steps are compiled: /);
      compiled.losses.forEach((loss, i) => assertAlmostEquals(loss, plain.losses[i], 1e-4));
      assertEarly(compiled);
    },
  });
}
