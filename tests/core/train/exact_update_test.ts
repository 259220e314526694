// Updates of small models in one call, beside libtorch's fused ones.
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { ADAM_WAYS, type AdamWay } from "../../../core/compile/exact_update.ts";
import { packParameters } from "../../../core/train/arena.ts";
import {
  agreesWithLibtorch,
  exactUpdate,
  UNEVEN,
  waysWith,
  WHOLE,
} from "../../../core/train/exact_update.ts";
import { createOptimizer } from "../../../core/train/optimizers.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { readBytes } from "../../../ffi/make.ts";
import { copy_, randn } from "../../../ffi/ops.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { open, settings } from "./rig.ts";

open();
const isa = machineIsa();
const alike = (way: AdamWay) => ({ lanes: 8, vectors: way, rest: way }) as const;
if (isa !== null) agreesWithLibtorch(isa, "adam", WHOLE)(alike(ADAM_WAYS[0])); // what is loaded for it stays

/** All that can be left over of a vector, and what several threads divide. */
const SHAPES = [...Array.from({ length: 40 }, (_, i) => [i + 1]), [128, 21], [300, 200], [701, 99]];

const STEPS = 400;

const made = (flags: readonly string[], exact: boolean) => {
  manualSeed(3n);
  const arena = packParameters(SHAPES.map((shape, i) => [`p${i}`, randn(shape)]), "cpu", false);
  const { training: { optimizer } } = settings(...flags), ordinary = createOptimizer(optimizer, arena);
  const own = exact ? exactUpdate(ordinary, optimizer, arena) : ordinary;
  assert(!exact || isa === null || own !== ordinary, "no way that is known has the bits of this libtorch");
  return { arena, optimizer: own, state: ordinary.state! };
};

for (
  const [flags, threads] of [
    ["--optimizer adamw", 1],
    ["--optimizer adamw --weight-decay 0", 1],
    ["--optimizer adam --weight-decay 0.3 --set training.optimizer.beta1=0.7", 1],
    ["--optimizer adamw --weight-decay 0.1 --set training.optimizer.beta2=0.95", 2],
  ] as const
) {
  Deno.test(`exactUpdate has libtorch's bits over ${STEPS} steps: ${flags}, ${threads} threads`, () => {
    setThreads(threads);
    const both = [true, false].map((exact) => made(flags.split(" "), exact));
    for (let step = 0; step < STEPS; step++) {
      both.forEach(({ arena, optimizer }) => {
        manualSeed(BigInt(step));
        for (const g of arena.gradients) scope(() => copy_(g, randn(g.shape)));
        const before = liveTensors();
        noGrad(() => scope(() => optimizer.step(1e-2 / (1 + step))));
        assertEquals(liveTensors(), before);
      });
    }
    const [own, ordinary] = both.map(({ arena, state }) => [arena.flat, ...state].map(readBytes));
    assertEquals(own, ordinary);
    assertEquals(both.map(({ optimizer }) => optimizer.steps), [STEPS, STEPS]);
    setThreads(1);
  });
}

Deno.test("what is tried of libtorch's updates tells all ways of rounding apart", () => {
  if (isa === null) return;
  assertEquals(ADAM_WAYS.length, 12);
  const agreeing = (type: "adam" | "adamw") => {
    const vectors = ADAM_WAYS.map(alike).filter(agreesWithLibtorch(isa, type, WHOLE));
    const whole = waysWith(vectors[0].vectors, isa).filter(agreesWithLibtorch(isa, type, UNEVEN));
    return [vectors.length, whole.length];
  };
  assertEquals(agreeing("adam"), [1, 1]);
  assertEquals(agreeing("adamw"), [2, 2], "its gradient has no decay");
});

Deno.test("exactUpdate leaves to libtorch what has no such loop, and what is large", () => {
  const arena = packParameters([["p", randn([2048, 600])]], "cpu", false);
  for (const flags of ["--optimizer adamw", "--optimizer sgd"]) {
    const { training: { optimizer } } = settings(...flags.split(" "));
    const ordinary = createOptimizer(optimizer, arena);
    assertStrictEquals(exactUpdate(ordinary, optimizer, arena), ordinary);
  }
  const small = packParameters([["p", randn([4, 5])]], "cpu", false);
  for (
    const flags of [
      "--optimizer adamw --set training.optimizer.amsgrad=true",
      "--optimizer adamw --set training.optimizer.beta1=0.4",
    ]
  ) {
    const { training: { optimizer } } = settings(...flags.split(" "));
    const ordinary = createOptimizer(optimizer, small);
    assertStrictEquals(exactUpdate(ordinary, optimizer, small), ordinary, flags);
  }
});
