import { assertEquals, assertNotEquals } from "@std/assert";
import { ones, toNumbers } from "../../ffi/make.ts";
import { dropout, rand, randint, randn } from "../../ffi/ops.ts";
import { manualSeed, setThreads, threads } from "../../ffi/context.ts";
import { scope } from "../../ffi/tensor.ts";
import { python } from "../core/checkpoint/python.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
const draw = () => scope(() => [...toNumbers(randn([3]))]);

Deno.test("a seed gives Python PyTorch's numbers, bit for bit", () => {
  const seeds = [42n, 0n, 2n ** 63n];
  const program = `
import sys, torch
for seed in sys.argv[1:]:
    torch.manual_seed(int(seed))
    drawn = torch.randn(3), torch.rand(20), torch.randint(0, 1000, (5,)), torch.nn.functional.dropout(torch.ones(9))
    print(*[v for t in drawn for v in t.double().tolist()])
`;
  const ours = seeds.map((seed) => {
    manualSeed(seed);
    return scope(() =>
      [randn([3]), rand([20]), randint(0, 1000, [5]), dropout(ones([9]), 0.5, true)].flatMap((
        t,
      ) => [...toNumbers(t)])
    );
  });
  const theirs = python(program, ...seeds.map(String)).trimEnd().split("\n").map((l) =>
    l.split(" ").map(Number)
  );
  assertEquals(ours, theirs);
});

Deno.test("the same seed draws the same numbers again, another seed others, and drawing moves on", () => {
  manualSeed(1n);
  const first = draw(), second = draw();
  manualSeed(1n);
  assertEquals([draw(), draw()], [first, second]);
  assertNotEquals(first, second);
  manualSeed(2n);
  assertNotEquals(draw(), first);
});

Deno.test("the number of threads is what was set", () => {
  const before = threads();
  setThreads(1);
  assertEquals(threads(), 1);
  setThreads(before);
  assertEquals(threads(), before);
});
