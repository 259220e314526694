// The gradient's norm as code of our own, beside libtorch's.
import { assert, assertEquals } from "@std/assert";
import { clip } from "../../../core/train/clipping.ts";
import { agreesInNorms, compiledNorm } from "../../../core/train/compiled_norm.ts";
import { type Arena, gradientNorm, packParameters } from "../../../core/train/arena.ts";
import { normWays } from "../../../core/compile/x86/norm.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { fill_, readBytes, scalar, toNumbers, zeros } from "../../../ffi/make.ts";
import { copy_, mul, randn } from "../../../ffi/ops.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { open } from "./rig.ts";

open();
if (machineIsa() !== null) agreesInNorms(machineIsa()!)(normWays(machineIsa()!)[0]); // what is loaded for it stays

const arenaOf = (shapes: readonly (readonly number[])[]): Arena =>
  packParameters(shapes.map((shape, i) => [`p${i}`, zeros(shape)]), "cpu", false);

const draw = (arena: Arena, seed: bigint, size: number) => {
  manualSeed(seed);
  for (const g of arena.gradients) scope(() => copy_(g, mul(randn(g.shape), scalar(size))));
};

const MLP = [[128, 20], [128], [128, 128], [128], [1, 128], [1]];
const ODD = Array.from({ length: 40 }, (_, i) => [i + 1]);
const LONG = [[65_536], [255, 257], [3, 5, 7]];

for (const threads of [1, 2]) {
  Deno.test(`compiledNorm has the bits of gradientNorm, with ${threads} threads`, () => {
    setThreads(threads);
    for (const shapes of [MLP, ODD, LONG]) {
      const arena = arenaOf(shapes), norm = compiledNorm(arena);
      assert(norm !== null || machineIsa() === null, "no way that is known has the bits of this libtorch");
      if (norm === null) continue;
      for (const [seed, size] of [[1n, 1], [2n, 1e-3], [3n, 1e18], [4n, 1e-30], [5n, NaN]] as const) {
        draw(arena, seed, size);
        scope(() => assertEquals(readBytes(norm()), readBytes(gradientNorm(arena)), `${size}`));
      }
      const before = liveTensors();
      scope(() => void norm());
      assertEquals(liveTensors(), before);
    }
    setThreads(1);
  });
}

Deno.test("compiledNorm leaves to libtorch what libtorch takes in pieces", () => {
  assertEquals(compiledNorm(arenaOf([[65_537], [3]])), null);
});

Deno.test("what is tried of libtorch's norms tells all ways of summing apart", () => {
  const isa = machineIsa();
  if (isa === null) return;
  assertEquals(normWays(isa).filter(agreesInNorms(isa)).length, 1);
  assertEquals(normWays(isa).length, isa === "avx512" ? 14 : 6);
});

Deno.test("clip multiplies with the factor of torch.nn.utils.clip_grad_norm_, and leaves short gradients alone", () => {
  const arena = arenaOf([[1000]]), { gradient } = arena;
  draw(arena, 7n, 1);
  for (const [norm, limit, factor] of [[31.5, 1, 1 / (31.5 + 1e-6)], [0.5, 1, 1], [NaN, 1, NaN]] as const) {
    draw(arena, 7n, 1);
    const before = toNumbers(gradient);
    scope(() => clip([gradient], scalar(norm), limit));
    const expected = Float64Array.from(before, (one) => Math.fround(one * Math.fround(factor)));
    assertEquals([...toNumbers(gradient)], [...expected]);
  }
  fill_(gradient, 0);
});
