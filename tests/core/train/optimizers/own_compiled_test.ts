// Updates of the user's own as machine code: beside the same functions op by op, with numbers and lists of ops that change.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { noteUserFile, openUserFile } from "../../../../core/models/user/file.ts";
import { template } from "../../../../core/models/user/templates.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { type Arena, packParameters } from "../../../../core/train/arena.ts";
import { compiledUpdate } from "../../../../core/train/compiled_update.ts";
import { trainLoop } from "../../../../core/train/loop.ts";
import { createOptimizer } from "../../../../core/train/optimizers.ts";
import * as library from "../../../../mod.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { machineIsa } from "../../../../ffi/machine.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { copy_, narrow, randn } from "../../../../ffi/ops.ts";
import { timing } from "../../../../ffi/profile.ts";
import { keep, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { open, settings } from "../rig.ts";
import { contents, started, trained } from "../started.ts";

open();
setThreads(1);
library.ops.op("addcmul"); // what a name is looked up in stays open

const STEPS = 50;
/** None in the first step. */
const RATES = Array.from({ length: STEPS }, (_, i) => i * 1e-4);

async function written(folder: string, name: string, text: string): Promise<string> {
  const path = `${folder}/${name}.ts`;
  Deno.writeTextFileSync(path, text);
  noteUserFile(await openUserFile(path, "optimizer", { ...library }, "LIKE THIS."));
  return path;
}

/** A file with this body of its update, and slots a and b. */
const file = (body: string, before = "") =>
  `export default ({ ops, tensor, keep }) => {
    ${before}
    return {
      slots: ["a", "b"],
      perElement: true,
      update({ parameter, gradient, state, step, lr, weightDecay }) { ${body} },
    };
  };`;

/** So many updates are machine code meanwhile. */
async function loopsOf(path: string, steps: () => unknown): Promise<number> {
  let loops = 0;
  timing.observer = (name) => void (name === path && loops++);
  try {
    await steps();
  } finally {
    timing.observer = null;
  }
  return loops;
}

/** As a rank has it with --zero 1: parts of the weights, whose borders are no parameter's. */
function inParts(arena: Arena): Arena {
  const from = [0, 9_001, 20_007], ends = [...from.slice(1), arena.flat.numel];
  const cut = (vector: Tensor) => from.map((at, i) => keep(narrow(vector, 0, at, ends[i] - at)));
  const gradients = cut(arena.gradient);
  return { ...arena, parameters: cut(arena.flat), gradients, memory: gradients, starts: from, viewsOf: cut };
}

/** Weights and state after steps with these rates, why steps ran op by op, and how many were machine code. */
async function taken(path: string, compiled: boolean, arenaOf = (whole: Arena) => whole) {
  const { optimizer: chosen } = settings("--optimizer", path, "--weight-decay", "0.1").training;
  manualSeed(1n);
  const { root } = mlp({ inputs: 100, hidden: 150, layers: 2, outputs: 1 });
  const whole = packParameters(root.namedParameters(), "cpu"), arena = arenaOf(whole);
  const plain = createOptimizer({ ...chosen }, arena), refused: string[] = [];
  const optimizer = compiled
    ? compiledUpdate(plain, chosen, arena, undefined, (why) => void refused.push(why))
    : plain;
  const loops = await loopsOf(path, () =>
    RATES.forEach((rate, i) => {
      manualSeed(BigInt(100 + i));
      scope(() => whole.gradients.forEach((g) => copy_(g, randn(g.shape))));
      optimizer.step(rate);
    }));
  assertEquals(optimizer.steps, STEPS);
  return { values: [whole.flat, ...plain.state!].map(toNumbers), refused, loops };
}

function apart(a: readonly Float64Array[], b: readonly Float64Array[]): number {
  const of = (x: Float64Array, y: Float64Array) =>
    x.reduce((most, value, i) => Math.max(most, Math.abs(value - y[i]) / Math.max(1, Math.abs(value))), 0);
  return Math.max(...a.map((x, i) => of(x, b[i])));
}

const MOMENTUM = `
  if (step === 3) return { parameter };
  const own = ops.sub(gradient, parameter, -weightDecay);
  const a = step === 1 ? own : ops.add(ops.mul(state.a, step > 20 ? 0.9 : 0.5), own);
  return { parameter: ops.sub(parameter, step > 30 ? ops.sign(a) : a, lr), a };`;

const COMPILED: readonly (readonly [string, string])[] = [
  ["AdamW as hpctrain new writes it", template("optimizer", "my.ts")],
  ["a list of ops that follows from the step", file(MOMENTUM)],
  [
    "slots that are changed in place, and the gradient, too",
    file(`
      ops.mul_(state.a, ops.constant(1 - lr));
      ops.copy_(state.b, ops.add(state.a, gradient));
      ops.mul_(gradient, ops.constant(lr));
      ops.copy_(state.a, ops.add(state.a, gradient));
      return { parameter: ops.sub(parameter, ops.tanh(state.b), lr) };`),
  ],
  [
    "slots that are given each other and the parameter as it was",
    file(`return { parameter: ops.sub(parameter, gradient, lr), a: parameter, b: state.a };`),
  ],
  [
    "numbers in tensors, which it computes with",
    file(`
      const half = step % 10 === 0 ? 1 : 0.5, rate = ops.div(ops.sqrt(ops.scalar(lr)), ops.constant(step)), a = ops.add(ops.zerosLike(gradient), ops.constant(lr));
      return { parameter: ops.sub(parameter, ops.mul(gradient, rate), half), a, b: ops.zerosLike(gradient) };`),
  ],
  [
    "numbers that decide number by number",
    file(`
      const near = ops.lt(ops.abs(gradient), ops.constant(lr)), far = ops.gt(ops.constant(lr), ops.constant(0.003));
      const clamped = ops.op("clamp")(gradient, -lr * 3, step / 20), b = ops.where(far, gradient, ops.mul(gradient, 0.1));
      return { parameter: ops.sub(parameter, ops.where(near, gradient, clamped), lr), a: ops.pow(gradient, ops.constant(2)), b };`),
  ],
];

for (const [title, text] of COMPILED) {
  Deno.test({
    name: `an update is machine code that does what it does op by op, with rates that change: ${title}`,
    ignore: machineIsa() === null,
    fn: inFolder(async (folder) => {
      const path = await written(folder, "own", text),
        plain = await taken(path, false),
        fast = await taken(path, true);
      assertEquals(fast.refused, []);
      assertEquals([plain.loops, fast.loops], [0, STEPS]);
      const parts = await taken(path, true, inParts);
      assertEquals([parts.refused, parts.loops], [[], STEPS]);
      const far = [fast, parts].map(({ values }) => apart(plain.values, values));
      assert(far.every((one) => one < 1e-6), `${far}`);
    }),
  });
}

const STEP = "return { parameter: ops.sub(parameter, gradient, lr) };";
const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  ["reads a number", file(`ops.narrow(gradient, 0, 0, 1).item(); ${STEP}`), /^item hands numbers/],
  ["reads whether tensors are equal", file(`ops.op("equal")(gradient, parameter); ${STEP}`), /^equal hands/],
  [
    "has a tensor of its own",
    file(
      STEP.replace("lr)", "half)").replace("gradient, half", "ops.mul(gradient, half), lr"),
      "const half = keep(ops.scalar(0.5));",
    ),
    /^mul takes a tensor whose numbers come from the program/,
  ],
  [
    "makes a tensor of numbers",
    file(STEP.replace("gradient", "ops.mul(gradient, tensor([0.5]))")),
    /^data hands numbers/,
  ],
  [
    "asks for what has no rule",
    file(STEP.replace("gradient", 'ops.op("remainder.Scalar")(gradient, 2)')),
    /^remainder\.Scalar has no rule/,
  ],
  [
    "asks for a rule that computes with the rate",
    file(STEP.replace("gradient", 'ops.op("celu")(gradient, 0.1 + lr)')),
    /^celu has no rule for these arguments/,
  ],
  [
    "reads a number later",
    file(`if (step === 12 || step === 17) ops.narrow(gradient, 0, 0, 1).item(); ${STEP}`),
    /^in step 12 item hands numbers/,
  ],
  [
    "has powers that change",
    file(STEP.replace("gradient", "ops.pow(ops.abs(gradient), ops.constant(step))")),
    /^an exponent of its powers changes from step to step/,
  ],
];

Deno.test({
  name: "an update runs op by op where it can be no loop, and says why once",
  ignore: machineIsa() === null,
  fn: inFolder(async (folder) => {
    for (const [i, [title, text, why]] of REFUSED.entries()) {
      const path = await written(folder, `own${i}`, text),
        plain = await taken(path, false),
        fast = await taken(path, true);
      assertEquals(fast.refused.length, 1, title);
      assertMatch(fast.refused[0], why);
      assertEquals(fast.loops, title.endsWith("later") ? STEPS - 2 : 0, title);
      assert(apart(plain.values, fast.values) < 1e-6, title);
    }
  }),
});

const RUN =
  "--data-type synthetic --model mlp --hidden-size 160 --layers 3 --train-samples 500 --val-samples 20 --batch-size 10 " +
  "--lr 3e-4 --scheduler sgdr --weight-decay 0.1";

Deno.test({
  name:
    "a compiled run with an optimizer of one's own ends where the ordinary one does, with groups and after a stop",
  ignore: machineIsa() === null,
  fn: inFolder(async (folder) => {
    const own = await written(folder, "own", template("optimizer", "my.ts"));
    const flags = [...RUN.split(" "), "--optimizer", own, "--param-group", "biases: lr=6e-4, weight_decay=0"];
    const go = (name: string, more: readonly string[], opByOp = false) =>
      started(`${folder}/${name}`, [...flags, ...more, "--epochs", "1"], async (run) => {
        assertEquals(run.compiling, []);
        if (opByOp) run.optimizer.groups!.parts!.forEach(({ optimizer }) => optimizer.own!.instead = null);
        const loops = await loopsOf(own, () => trainLoop(run));
        return { loops, values: run.model.root.namedParameters().map(([, t]) => toNumbers(t)) };
      });
    const ordinary = await go("off", ["--no-compile"]), fast = await go("fast", ["--compile=fast"]);
    const half = await go("half", ["--compile=fast"], true);
    assertEquals([ordinary.loops, fast.loops, half.loops], [0, STEPS, 0]);
    const far = [ordinary, half].map(({ values }) => apart(values, fast.values));
    assert(far.every((one) => one > 0 && one < 1e-6), String(far));
    const run = (name: string, most: number, from: string | null = null) =>
      trained(`${folder}/${name}`, [...flags, "--compile=fast", "--epochs=2", `--max-steps=${most}`], from);
    const whole = await run("whole", 30),
      first = await run("first", 12),
      rest = await run("rest", 30, first.path);
    const state = ({ path }: { readonly path: string }) =>
      [...contents(path)].filter(([name]) => /state_dict\/(?!param_groups)/.test(name));
    assertEquals(state(rest), state(whole));
  }),
});
