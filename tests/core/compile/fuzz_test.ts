// Random compositions, recorded, lowered and derived, against autograd. HPCTRAIN_STORM says how many;
// `./scripts/storm graphs` takes 1,000 and more.
import { assertEquals } from "@std/assert";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { rand, randn } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { op } from "../../../core/models/user/op.ts";
import { useLibtorch } from "../../libtorch.ts";
import { compared } from "./compiled.ts";
import { composition, randomFrom, randomShape } from "./fuzz.ts";

useLibtorch();
setThreads(1);
for (const name of ["leaky_relu", "leaky_relu_"]) scope(() => op(name)(randn([2]))); // opens the libraries

const CASES = Number(Deno.env.get("HPCTRAIN_STORM") ?? 150);
const SEED = Number(Deno.env.get("HPCTRAIN_STORM_SEED") ?? 1);
/** Rounding grows through the composition. */
const BOUND = 1e-4;

Deno.test(`${CASES} random compositions have autograd's gradients`, () => {
  const wrong: string[] = [];
  for (let i = 0; i < CASES; i++) {
    const seed = SEED * 1_000_003 + i;
    scope(() => {
      manualSeed(BigInt(seed));
      const random = randomFrom(seed + 7);
      const parameters = Array.from(
        { length: 2 + Math.floor(random() * 3) },
        () => randn(randomShape(random)),
      );
      const input = rand([1]), target = rand([1]);
      const made = compared({
        input,
        target,
        parameters,
        floor: 5e-2,
        pass: () => composition(seed, parameters),
      });
      if ("reason" in made) wrong.push(`${seed}: ${sentenceOf(made)}`);
      else if (!(made.worst < BOUND)) wrong.push(`${seed}: ${made.worst}`);
    });
  }
  assertEquals(wrong, []);
});
