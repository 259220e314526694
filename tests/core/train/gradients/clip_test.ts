import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { gradientNorm, packParameters } from "../../../../core/train/arena.ts";
import { clip } from "../../../../core/train/clipping.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { copy_, randn, reshape } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, run } from "../rig.ts";

open();

const LIMITS = [0.5, 3, 1e4];

/** An arena whose gradients are these; sizes that leave padding between the views. */
function arenaWith(gradients: number[][]) {
  const named = gradients.map((g, i): [string, ReturnType<typeof randn>] => [`p${i}`, randn([g.length])]);
  const arena = packParameters(named, "cpu");
  arena.gradients.forEach((g, i) => scope(() => copy_(g, tensor(gradients[i]))));
  return arena;
}

Deno.test("clipping is torch.nn.utils.clip_grad_norm_ to the last bit, and so is the norm it reports", async () => {
  manualSeed(1n);
  const gradients = [5, 17, 40].map((count) => Array.from(toNumbers(randn([count]))));
  const theirs = await peer<{ norm: number; gradients: number[][] }[]>(
    "clip.py",
    LIMITS.map((limit) => ({ limit, gradients })),
  );
  LIMITS.forEach((limit, i) => {
    const arena = arenaWith(gradients);
    scope(() => {
      const norm = gradientNorm(arena);
      assertEquals(norm.item(), theirs[i].norm);
      clip(arena.memory, norm, limit);
    });
    arena.gradients.forEach((g, k) => assertEquals([...toNumbers(g)], theirs[i].gradients[k]));
  });
});

Deno.test("with clip_sums=torch a long gradient has torch's norm, in the order in which its weights lie there", async () => {
  manualSeed(4n);
  const shape = [96, 32, 5, 5],
    gradients = [Array.from(toNumbers(randn([96 * 32 * 25])), (x, i) => Math.fround(x * (1 + i % 101)))];
  const orders = [false, true];
  const theirs = await peer<{ norm: number }[]>(
    "clip.py",
    orders.map((channels_last) => ({ limit: 1, gradients, shape, channels_last })),
  );
  const arena = packParameters([["p", randn(shape)]], "cpu");
  scope(() => {
    copy_(arena.gradients[0], reshape(tensor(gradients[0]), shape));
    const ours = orders.map((channelsLast) =>
      gradientNorm({ ...arena, sumsAsTorch: { channelsLast } }).item()
    );
    assertEquals(ours, theirs.map(({ norm }) => norm));
    const all = new Set([...ours, gradientNorm(arena).item()]);
    assertEquals(all.size, 3, "another seed: sums in two orders round alike");
  });
});

Deno.test("a gradient shorter than the limit is left to the bit as it is", () => {
  const gradients = [[0.1, -0.2, 0.3]];
  const arena = arenaWith(gradients);
  const before = toNumbers(arena.gradient);
  scope(() => clip(arena.memory, gradientNorm(arena), 100));
  assertEquals(toNumbers(arena.gradient), before);
});

/** A step of an mlp; the norm it reports and the one that is left. */
function stepped(more: { clipNorm?: number; direct?: boolean }) {
  manualSeed(2n);
  const made = rig(mlp({ inputs: 7, hidden: 16, layers: 1, outputs: 1 }), rows, more);
  const batch = { input: randn([8, 7]), target: randn([8, 1]) };
  const { norm } = run(made, [batch], { norm: true });
  return { norm: norm!, left: more.direct ? NaN : Math.hypot(...toNumbers(made.arena.gradient)) };
}

Deno.test("a step reports the norm before clipping and updates from the clipped gradient", () => {
  const { norm } = stepped({});
  assert(norm > 0.2, `${norm} is too short to clip`);
  const clipped = stepped({ clipNorm: 0.1 });
  assertEquals(clipped.norm, norm);
  assertAlmostEquals(clipped.left, 0.1, 1e-6);
});

Deno.test("the norm is the same where gradients are autograd's own", () => {
  assertAlmostEquals(stepped({ direct: true }).norm / stepped({}).norm, 1, 1e-6);
});

Deno.test("the norm of eleven million numbers is right to six digits", () => {
  manualSeed(3n);
  const arena = packParameters([["p", randn([11_000_000])]], "cpu");
  scope(() => {
    copy_(arena.gradients[0], randn([11_000_000]));
    const exact = Math.sqrt(toNumbers(arena.gradient).reduce((total, x) => total + x * x, 0));
    assertAlmostEquals(gradientNorm(arena).item() / exact, 1, 2e-6);
  });
});
