// An optimizer's traits are what the rest of a run knows of it.
import { assert, assertEquals } from "@std/assert";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { createOptimizer, optimizersThat, traitsOf } from "../../../../core/train/optimizers.ts";
import { groupedOptimizer } from "../../../../core/train/parameter_groups.ts";
import { packParameters } from "../../../../core/train/arena.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { sourceFiles } from "../../../../scripts/lib/source_files.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { copy_, narrow, randn } from "../../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { open, settings } from "../rig.ts";

open();

for (const type of optimizersThat(() => true)) {
  Deno.test(`${type} has the state that its traits name, and is compiled, cut and shared out as they say`, () => {
    manualSeed(1n);
    const { root } = mlp({ inputs: 7, hidden: 37, layers: 3, outputs: 1 });
    const arena = packParameters(root.namedParameters(), "cpu");
    const { optimizer: chosen } = settings("--optimizer", type, "--scheduler", "constant").training;
    const traits = traitsOf(chosen), made = createOptimizer(chosen, arena, root);
    assertEquals(made.type, type);
    const kept = traits.slots.filter((name) => made.slots.has(name));
    assertEquals([...made.slots.keys()], kept, "in the order of the traits, and no others");
    assertEquals(
      made.state !== undefined,
      traits.compiled !== null,
      "a loop of machine code reads whole vectors",
    );
    assertEquals(traits.perElement, traits.shardable === true, "a part of a bucket has parts of parameters");
    const bytes = new Set([...made.slots.values()].flat()).values().reduce((sum, t) => sum + t.byteLength, 0);
    const each = traits.bytesPerWeight(chosen) - (made.averages ? 4 : 0);
    if (!["muon", "adafactor", "soap", "shampoo"].includes(type)) {
      const found = 4 * bytes / arena.flat.byteLength; // which has gaps
      assert(Math.abs(found - each) < 0.03 * each, `${found}, ${each}`);
    }
  });
}

/** Weights after some steps; in `parts` of the arena whose borders are no parameter's, or as a whole. */
function updated(type: string, parts: readonly number[]): { weights: number[]; state: number[][] } {
  manualSeed(1n);
  const { root } = mlp({ inputs: 7, hidden: 37, layers: 3, outputs: 1 });
  const arena = packParameters(root.namedParameters(), "cpu"), { flat, gradient } = arena;
  const ends = [...parts, flat.numel], from = [0, ...parts];
  const cut = (vector: Tensor) => from.map((at, i) => keep(narrow(vector, 0, at, ends[i] - at)));
  const gradients = cut(gradient);
  const own = { ...arena, parameters: cut(flat), gradients, memory: gradients, viewsOf: cut };
  const flags = ["--weight-decay", "0.1", "--set", "training.optimizer.momentum=0.9"];
  const optimizer = createOptimizer(
    settings("--optimizer", type, ...flags).training.optimizer,
    parts.length > 0 ? own : arena,
    root,
  );
  for (let seed = 5n; seed < 10n; seed++) {
    manualSeed(seed);
    // Gaps between parameters have no gradient, and no state.
    scope(() => arena.gradients.forEach((g) => copy_(g, randn(g.shape))));
    optimizer.step(0.01);
  }
  const whole = (views: readonly Tensor[]) => views.flatMap((view) => [...toNumbers(view)]);
  return {
    weights: [...toNumbers(flat)],
    state: parts.length > 0 ? [...optimizer.slots.values()].map(whole) : [],
  };
}

for (const type of optimizersThat(({ perElement }) => perElement)) {
  Deno.test(`${type} updates parts of parameters as whole ones, as --zero 1 has them`, () => {
    const whole = updated(type, []), parts = updated(type, [259, 1000, 1001, 2500]);
    const off = Math.max(...whole.weights.map((value, i) => Math.abs(value - parts.weights[i])));
    // The fused kernels round the last numbers of a vector elsewhere.
    assert(/^(adamw?|sgd)$/.test(type) ? off < 1e-6 : off === 0, String(off));
    assert(parts.state.every((slot) => slot.length === whole.weights.length));
  });
}

Deno.test("a group whose weights other ranks update keeps count of its steps and numbers here", () => {
  const { root } = mlp({ inputs: 7, hidden: 9, layers: 1, outputs: 1 });
  const arena = packParameters(root.namedParameters(), "cpu"),
    groups = [1, 2, 2].map((factor) => ({ factor, begins: 0, clipNorm: 0, optimizer: {} }));
  const { optimizer: chosen } =
    settings("--optimizer", "asgd", "--set", "training.optimizer.lambd=0.1").training;
  const made = groupedOptimizer(chosen, arena, { groups, of: [0, 0, 1, 0] });
  for (let i = 0; i < 3; i++) made.step(0.1);
  const [first, second, third] = made.groups!.numbers!;
  assertEquals(made.groups!.steps, [3, 3, 3]);
  assertEquals(third, second, "with the rate that it has on the other ranks");
  assert(second.eta > first.eta && first.eta > 0, JSON.stringify([first, second]));
});

Deno.test("state that a setting asks for is counted, and what machine code can't do is left to libtorch", () => {
  for (
    const [type, flag, bytes] of [
      ["adamw", "amsgrad", 12],
      ["adam", "maximize", 8],
      ["sgd", "maximize", 4],
      ["rmsprop", "centered", 8],
    ] as const
  ) {
    const { root } = mlp({ inputs: 7, hidden: 37, layers: 3, outputs: 1 });
    const arena = packParameters(root.namedParameters(), "cpu");
    const chosen =
      settings("--optimizer", type, "--set", `training.optimizer.${flag}=true`).training.optimizer;
    const made = createOptimizer(chosen, arena, root), slots = [...made.slots.keys()];
    assertEquals(
      [traitsOf(chosen).bytesPerWeight(chosen), 4 * slots.length],
      [bytes, bytes],
      `${type}, ${flag}`,
    );
    assertEquals(made.state, undefined);
    assertEquals(slots, traitsOf(chosen).slots.filter((name) => slots.includes(name)));
  }
});

Deno.test("an optimizer's name decides nothing outside its folder", () => {
  const named = sourceFiles("core/train").filter((file) =>
    !file.startsWith("core/train/optimizers/") &&
    /"(lamb|lion|muon|schedule_free|prodigy|soap|shampoo|ada\w+|asgd|[nr]adam|rmsprop|rprop)"/.test(
      Deno.readTextFileSync(file),
    )
  );
  assertEquals(named, []);
});
