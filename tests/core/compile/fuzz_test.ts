// Random compositions, recorded, lowered and derived, and then as plans, against autograd. HPCTRAIN_STORM says how many;
// `./scripts/storm graphs` takes 1,000 and more.
import { assertEquals } from "@std/assert";
import { backward, gradOf, noGrad, requireGrad } from "../../../ffi/autograd.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { rand, randn, toDtype } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { op } from "../../../core/models/user/op.ts";
import { useLibtorch } from "../../libtorch.ts";
import { type Compared, compared } from "./compiled.ts";
import { differing } from "./differing.ts";
import { composition, randomFrom, randomShape } from "./fuzz.ts";

useLibtorch();
setThreads(1);
for (const name of ["leaky_relu", "leaky_relu_"]) scope(() => op(name)(randn([2]))); // opens the libraries

const CASES = Number(Deno.env.get("HPCTRAIN_STORM") ?? 300);
const SEED = Number(Deno.env.get("HPCTRAIN_STORM_SEED") ?? 1);
/** By the largest gradient of a parameter, if that is not smaller than FLOOR. */
const BOUND = 1e-5, FLOOR = 1e-3;
/** Where sums cancel more is lost, by both: then they are held against f64, and ours may lose so many times what libtorch loses. */
const TIMES = 8, LEAST = 1e-6;

/** Null where our gradients are about as near to those in f64 as autograd's are. */
function beyond(
  seed: number,
  parameters: readonly Tensor[],
  gradients: Compared["gradients"],
): string | null {
  const doubles = parameters.map((p) => requireGrad(noGrad(() => keep(toDtype(p, "f64")))));
  try {
    backward(composition(seed, doubles).loss);
    for (const { index, ours, theirs } of gradients) {
      const truth = gradOf(doubles[index]);
      if (truth === null) continue;
      const right = toNumbers(truth),
        error = (of: ArrayLike<number>) => Math.hypot(...right.map((r, i) => of[i] - r));
      const [own, other, size] = [error(ours), error(theirs), Math.hypot(...right)];
      if (!(own <= TIMES * other + LEAST * (size + 1))) return `${own} in place of ${other}, of ${size}`;
    }
    return null;
  } finally {
    for (const t of doubles) t.free();
  }
}

function shapesOf(seed: number): number[][] {
  const random = randomFrom(seed + 7);
  return Array.from({ length: 2 + Math.floor(random() * 3) }, () => randomShape(random));
}

Deno.test(`${CASES} random compositions have autograd's gradients`, () => {
  const wrong: string[] = [];
  for (let i = 0; i < CASES; i++) {
    const seed = SEED * 1_000_003 + i;
    scope(() => {
      manualSeed(BigInt(seed));
      const parameters = shapesOf(seed).map((shape) => randn(shape));
      const input = rand([1]), target = rand([1]);
      const made = compared({
        input,
        target,
        parameters,
        floor: FLOOR,
        numbers: true,
        pass: () => composition(seed, parameters),
      });
      if ("reason" in made) wrong.push(`${seed}: ${sentenceOf(made)}`);
      else if (!(made.worst < BOUND)) {
        const problem = beyond(seed, parameters, made.gradients);
        if (problem) wrong.push(`${seed}: ${made.worst}, ${problem}`);
      }
    });
  }
  assertEquals(wrong, []);
});

/** What is wrong in a plan is not rounding: a value that nothing made, or another one's. */
const PLAN_BOUND = 1e-3;

for (const exact of [false, true]) {
  Deno.test(`${CASES} random compositions as ${exact ? "exact" : "fast"} plans have autograd's numbers`, () => {
    const wrong: string[] = [];
    for (let i = 0; i < CASES; i++) {
      const seed = SEED * 1_000_003 + i;
      const pass = (parameters: Tensor[]) => composition(seed, parameters);
      const found = scope(() =>
        differing({ takes: shapesOf(seed), pass, exact, threads: 1, bound: PLAN_BOUND })
      );
      if (found !== "") wrong.push(`${seed}: ${found}`);
    }
    assertEquals(wrong, []);
  });
}
