// The promise of the README: the same seed and batches give PyTorch's losses to the last bit. Live PyTorch is the judge.
import { assertEquals, assertNotEquals } from "@std/assert";
import { manualSeed, setThreads } from "../../ffi/context.ts";
import { randint, randn } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { print } from "../core/models/native.ts";
import { CASES, type ZooCase } from "../core/models/zoo_cases.ts";
import { peer } from "../core/train/peer.ts";
import { open, rig, run } from "../core/train/rig.ts";

const STEPS = 20;
const MODELS = ["mlp", "simple-convnet", "resnet18", "unet", "gpt"];
const FLAGS = {
  adamw: ["--optimizer", "adamw", "--weight-decay", "0.01"],
  sgd: ["--optimizer", "sgd", "--weight-decay", "0"],
};
const RATE = { adamw: 1e-3, sgd: 1e-2 };

interface Answer {
  losses: string[];
  weights: string[];
}

const made = (m: ZooCase["input"]): Tensor => m.below ? randint(0, m.below, m.shape, "i64") : randn(m.shape);

/** The bits of an f32, as 8 hex digits. */
function bits(value: number): string {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return view.getUint32(0).toString(16).padStart(8, "0");
}

async function ours(
  c: ZooCase,
  optimizer: "adamw" | "sgd",
  options: { direct: boolean; threads: number },
): Promise<Answer> {
  setThreads(options.threads);
  manualSeed(1n);
  const model = c.make();
  const facts = {
    task: c.task,
    input: { shape: c.input.shape.slice(1), dtype: "f32" as const },
    outputs: outputsOf(c),
  };
  const r = rig(model, facts, { flags: FLAGS[optimizer], direct: options.direct });
  // Dropout's draws are compared too, so the generator is seeded a step at a time on both sides.
  const step = { ...r.step, pass: { ...r.step.pass, seeds: null } };
  const losses: string[] = [];
  for (let i = 0; i < STEPS; i++) {
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = { input: made(c.input), target: made(c.target) };
      manualSeed(BigInt(2000 + i));
      losses.push(bits(run({ ...r, step }, [batch], { number: i, lr: RATE[optimizer] }).loss));
    });
  }
  return { losses, weights: await Promise.all(model.root.stateDict().map(([, t]) => print(t))) };
}

const outputsOf = (c: ZooCase) => c.target.below ?? c.target.shape.at(-1)!;

const cases = MODELS.flatMap((title) => {
  const c = CASES.find((known) => known.title === title)!;
  return (["adamw", "sgd"] as const).map((optimizer) => ({ c, optimizer }));
});

open();
const theirs = await peer<Answer[]>(
  "same_bits.py",
  [
    ...cases.map(({ c, optimizer }) => ({ ...c, optimizer, threads: 1, steps: STEPS })),
    ...cases.filter(({ c }) => c.title === "gpt").map(({ c, optimizer }) => ({
      ...c,
      optimizer,
      threads: 2,
      steps: STEPS,
    })),
  ],
);

for (const [i, { c, optimizer }] of cases.entries()) {
  for (const direct of [true, false]) {
    const way = direct ? "gradients taken from autograd" : "gradients in the arena";
    Deno.test(`${c.title} has PyTorch's loss bits for ${STEPS} steps of ${optimizer}, ${way}`, async () => {
      const mine = await ours(c, optimizer, { direct, threads: 1 });
      assertEquals(mine.losses, theirs[i].losses);
      assertEquals(mine.weights, theirs[i].weights);
      assertNotEquals(mine.losses[0], mine.losses[STEPS - 1]);
    });
  }
}

for (const [k, optimizer] of (["adamw", "sgd"] as const).entries()) {
  Deno.test(`gpt has PyTorch's loss bits on two threads with ${optimizer}`, async () => {
    const c = CASES.find((known) => known.title === "gpt")!;
    const mine = await ours(c, optimizer, { direct: true, threads: 2 });
    assertEquals(mine.losses, theirs[cases.length + k].losses);
  });
}
