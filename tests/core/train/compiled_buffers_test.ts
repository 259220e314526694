// Compiled steps and what a model keeps beside its weights: whether plans are used or refused, buffers, the optimizer's state
// and the generator are those of ordinary steps.
import { Buffer } from "node:buffer";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { block, type Facts, type Model, model } from "../../../core/models/model.ts";
import { BatchNorm } from "../../../core/models/nn/norms.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import { Group, Module } from "../../../core/models/nn/module.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import type { Choice, Mode, TimedWay } from "../../../core/train/compiler.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { op } from "../../../core/models/user/op.ts";
import { batchNorm, mul, randint, randn, relu } from "../../../ffi/ops.ts";
import { add, readBytes, sub, toNumbers, zeros } from "../../../ffi/make.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { exportedModel } from "../../../core/models/exported/model.ts";
import { EXACT_RULES } from "../../../core/compile/lower/exact.ts";
import { RULES } from "../../../core/compile/lower/lower.ts";
import type { LoweringRule } from "../../../core/compile/lower/lowering.ts";
import { CASES } from "../models/zoo_cases.ts";
import { nudge } from "../compile/programs.ts";
import { trainedInPython } from "../models/exported/training.ts";
import { open, rig, rows, run } from "./rig.ts";
import { spoilt } from "./spoilt.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const PROGRAMS = ["resnet18", "encoder", "gpt_by_hand", "gru", "graph", "statistics"];
const exported = await trainedInPython(PROGRAMS, folder, 1);
for (const { path } of exported) exportedModel(path).root.free(); // the libraries that they open stay open
const isa = machineIsa(), ignore = isa === null;
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

type Forward = (x: Tensor) => Tensor;

/** A linear layer, and what is made of its result beside a norm. */
function made(forward: (z: Tensor, norm: BatchNorm, kept: Kept) => Tensor): Model {
  const first = new Linear(7, 6), norm = new BatchNorm(6), last = new Linear(6, 1), kept = new Kept();
  const root = new Group({ first, norm, last, kept });
  const all: Forward = (x) => last.forward(relu(forward(first.forward(x), norm, kept)));
  return model("made", root, [block("all", root, (x) => all(x as Tensor))], { layers: "2" });
}

/** A metric that adds up, and a buffer that follows another one a step late. */
class Kept extends Module {
  readonly total = this.buffer("total", zeros([6]));
  readonly late = this.buffer("late", zeros([6]));

  add(z: Tensor): void {
    noGrad(() => {
      op("add_.Tensor")(this.total, op("mean.dim")(z, [0]));
    });
  }
  follow(mean: Tensor): void {
    noGrad(() => void op("copy_")(this.late, mean));
  }
}

const norms = (z: Tensor, norm: BatchNorm, momentum: number): Tensor => {
  const [mean, variance] = norm.statistics;
  return batchNorm(z, norm.weight, norm.bias, mean, variance, true, momentum, 1e-5, true);
};

const MADE: Readonly<Record<string, () => Model>> = {
  "a norm whose result nobody needs": () => made((z, norm) => (norm.forward(z), z)),
  "a running mean that is read before its norm": () =>
    made((z, norm) => {
      const y = sub(z, norm.statistics[0]);
      return add(y, norm.forward(y));
    }),
  "a running mean that is read behind its norm": () =>
    made((z, norm) => (norm.forward(z), sub(z, norm.statistics[0]))),
  "running statistics that are read before and behind, and slopes that are products with them": () =>
    made((z, norm) => {
      const [mean, variance] = norm.statistics, y = norm.forward(sub(z, mean));
      return add(mul(y, norm.weight!), sub(z, variance));
    }),
  "a norm that goes twice over a step, each time with another share": () =>
    made((z, norm) => add(norms(z, norm, 0.1), norms(relu(z), norm, 0.3))),
  "a metric that adds up": () => made((z, norm, kept) => (kept.add(z), norm.forward(z))),
  "a buffer that takes another one's numbers before they move": () =>
    made((z, norm, kept) => {
      kept.follow(norm.statistics[0]);
      return norm.forward(add(z, zeros([6])));
    }),
};

interface Task {
  readonly make: () => Model;
  readonly facts: Facts;
  input(): Tensor;
  target(): Tensor;
}

interface Left {
  readonly tensors: ReadonlyMap<string, { readonly dtype: string; readonly bytes: Uint8Array<ArrayBuffer> }>;
  readonly drawn: readonly number[];
  readonly told: string;
}

interface Way {
  readonly mode: Mode | null;
  readonly repeats?: boolean;
  readonly micro?: number;
  readonly optimizer?: string;
  readonly checkpointing?: boolean;
  readonly choice?: Choice;
  /** Weights begin so far off. */
  readonly more?: number;
}

const STEPS = 3;
const MODES: readonly Mode[] = ["exact", "fast"];
/** Adam makes a step of a gradient's rounding where that is all it has, as of a bias before a norm. */
const OPTIMIZERS = { exact: "adamw", fast: "sgd" };

/** What some steps leave: weights, buffers, the optimizer's state, and what the generator draws next. */
function left(
  { make, facts, input, target }: Task,
  { mode, repeats = true, micro = 1, optimizer: type = "adamw", checkpointing = false, choice, more = 0 }:
    Way,
): Left {
  manualSeed(0n);
  const net = make(), lines: string[] = [], tell = (text: string) => void lines.push(text);
  const flags = ["--optimizer", type], plain = rig(net, facts, { flags, checkpointing });
  const compiled = mode &&
    openCompiledPass(plain.arena, mode, () => ({ line: tell, warn: tell }), choice ?? null, repeats);
  if (more !== 0) nudge(plain.arena.flat, more);
  manualSeed(1n);
  const batches = Array.from({ length: 2 * micro }, () => ({ input: input(), target: target() }));
  for (let number = 0; number < STEPS; number++) {
    const own = batches.slice(number % 2 * micro, (number % 2 + 1) * micro);
    run({ ...plain, step: { ...plain.step, compiled } }, own, { number, lr: 1e-2 });
  }
  const state = [...plain.step.optimizer.slots].flatMap(([name, slot]) =>
    slot.map((t, i): [string, Tensor] => [`${name} of ${plain.arena.names[i]}`, t])
  );
  const named = [...net.root.namedParameters(), ...net.root.namedState(), ...state];
  const tensors = new Map(named.map(([name, t]) => [name, { dtype: t.dtype, bytes: readBytes(t) }]));
  const drawn = scope(() => [...toNumbers(randn([3]))]);
  for (const one of batches) one.input.free(), one.target.free();
  net.root.free();
  return { tensors, drawn, told: lines.join("\n") };
}

const far = (one: Uint8Array<ArrayBuffer>, other: Uint8Array<ArrayBuffer>): number => {
  const [a, b] = [one, other].map(({ buffer }) => new Float32Array(buffer));
  return Math.sqrt(b.reduce((sum, value, i) => sum + (a[i] - value) ** 2, 0));
};

/** Fast plans round otherwise, and training amplifies that as it does with weights that begin a little off. */
const ROUNDING = 1e-4, AMPLIFIED = 20;

/** One of an image's many values may be so close to ReLU's corner that rounding decides, as for the program's own check. */
const CORNERS = 2e-2, isOfImages = ({ facts }: Task): boolean => facts.input.shape.length > 2;

/** The same bits; or about the same numbers, where steps are as far from ordinary ones as these are. */
function compare(own: Left, plain: Left, moved: Left | null = null, rounding = ROUNDING): void {
  assertEquals([...own.tensors.keys()], [...plain.tensors.keys()]);
  for (const [name, { dtype, bytes }] of plain.tensors) {
    const ours = own.tensors.get(name)!.bytes;
    if (moved === null || dtype !== "f32") {
      assert(Buffer.compare(ours, bytes) === 0, `${name} has other bits: ${own.told}`);
      continue;
    }
    const error = far(ours, bytes), size = far(bytes, new Uint8Array(bytes.length));
    const most = rounding * size + AMPLIFIED * far(moved.tensors.get(name)!.bytes, bytes) + 1e-6;
    assert(error <= most, `${name}: ${error} of ${size}`);
  }
  assertEquals(own.drawn, plain.drawn, "the generator");
}

/** Which of an image's values rounding carries over a corner is chance, so one way to begin a little off may show too little. */
const NUDGES = [1e-7, -1e-7, 3e-7, -3e-7];

function compareNear(own: Left, plain: Left, moved: readonly (() => Left)[], rounding: number): void {
  const [first, ...more] = moved;
  if (first === undefined) return compare(own, plain);
  try {
    compare(own, plain, first(), rounding);
  } catch (error) {
    if (more.length === 0) throw error;
    compareNear(own, plain, more, rounding);
  }
}

const numbers = (make: () => Model): Task => ({
  ...{ make, facts: rows },
  input: () => randn([8, 7]),
  target: () => randn([8, 1]),
});

for (const [what, make] of Object.entries(MADE)) {
  Deno.test({
    name: `compiled steps move buffers as ordinary ones do: ${what}`,
    ignore,
    fn() {
      for (const micro of [1, 2]) {
        for (const mode of MODES) {
          const how = { micro, optimizer: OPTIMIZERS[mode] };
          const plain = left(numbers(make), { ...how, mode: null });
          const moved = mode === "exact" ? null : left(numbers(make), { ...how, mode: null, more: 1e-7 });
          for (const repeats of [true, false]) {
            const compiled = left(numbers(make), { ...how, mode, repeats });
            assertMatch(compiled.told, /^Steps are compiled: [^\n]*$/);
            compare(compiled, plain, moved);
          }
        }
      }
    },
  });
}

interface Numbers {
  readonly shape: readonly number[];
  readonly below?: number;
}
const random = ({ shape, below }: Numbers): Tensor => below ? randint(0, below, shape, "i64") : randn(shape);

function taskOf(
  make: () => Model,
  task: Facts["task"],
  input: Numbers,
  target: Numbers,
  outputs: number,
): Task {
  const dtype = input.below ? "i64" : "f32";
  return {
    ...{ make, facts: { task, input: { shape: input.shape.slice(1), dtype }, outputs } },
    input: () => random(input),
    target: () => random(target),
  };
}

/** Maps of 181 x 360 and the deepest networks show nothing that others do not. */
const LARGE = /181 x 360|resnet(34|50|101)|one channel|channels last/;
const TASKS = new Map<string, Task>([
  ...CASES.filter(({ title }) => !LARGE.test(title)).map(({ title, make, task, input, target }) => {
    const outputs = target.below ?? (task === "regression" ? target.shape[1] : 1);
    return [title, taskOf(make, task, input, target, outputs)] as const;
  }),
  ...exported.map(({ path, task, input, target, outputs }, i) =>
    [
      `the exported program ${PROGRAMS[i]}`,
      taskOf(() => exportedModel(path), task, input, target, outputs),
    ] as const
  ),
]);

/** Losses of plans are twice as large, so each is found wrong. */
function refused<R>(body: () => R): R {
  const tables = [RULES, EXACT_RULES] as Record<string, LoweringRule>[],
    names = ["mse_loss", "cross_entropy_loss"];
  const right = tables.map((rules) => names.map((name) => rules[name]));
  tables.forEach((rules, i) =>
    names.forEach((name, k) => {
      const rule = right[i][k];
      if (rule) rules[name] = (g, ...args) => g.b.pointwise("mul", rule(g, ...args) as number, g.b.number(2));
    })
  );
  try {
    return body();
  } finally {
    tables.forEach((rules, i) => names.forEach((name, k) => right[i][k] && (rules[name] = right[i][k])));
  }
}

const COMPILED = /^Steps are compiled: [^\n]*$/,
  OP_BY_OP = /^(Steps are not compiled:|Compiled steps) [^\n]*$/;
const REFUSED = /^Compiled steps (don't have the bits of|give other gradients than) /;

/** Others may have an op without a rule, or other bits on some processors. */
const ALWAYS = /^mlp|^unet$|statistics$/;

/** A plan that is used leaves what ordinary steps leave, and so does one that is refused. */
function leavesNoTrace(title: string, task: Task, checkpointing: boolean): void {
  for (const mode of MODES) {
    const how = { optimizer: OPTIMIZERS[mode], checkpointing }, plain = left(task, { ...how, mode: null });
    const used = left(task, { ...how, mode }), compiled = COMPILED.test(used.told);
    if (!compiled) assertMatch(used.told, ALWAYS.test(title) ? COMPILED : OP_BY_OP);
    const rounds = compiled && mode === "fast";
    const moved = rounds ? NUDGES.map((more) => () => left(task, { ...how, mode: null, more })) : [];
    compareNear(used, plain, moved, isOfImages(task) ? CORNERS : ROUNDING);
    const wrong = refused(() => left(task, { ...how, mode }));
    assertMatch(wrong.told, compiled ? REFUSED : OP_BY_OP);
    compare(wrong, plain);
  }
}

/** Some of several blocks, with norms and dropout, go twice through each, too. */
const TWICE = /^mlp with dropout|^vit$|^unet of volumes with everything|statistics$/;

for (const [title, task] of TASKS) {
  for (const checkpointing of TWICE.test(title) ? [false, true] : [false]) {
    Deno.test({
      name: "plans that are used and plans that are refused leave what ordinary steps leave: " + title +
        (checkpointing ? ", checkpointed" : ""),
      ignore,
      fn: () => leavesNoTrace(title, task, checkpointing),
    });
  }
}

Deno.test({
  name: "a run that times both ways and goes on op by op has what ordinary steps leave",
  ignore,
  fn() {
    const reading = numbers(() => made((z, norm) => (norm.forward(z), sub(z, norm.statistics[0]))));
    for (const task of [reading, TASKS.get("mlp with dropout")!]) {
      const plain = left(task, { mode: null, optimizer: "sgd" });
      const moved = left(task, { mode: null, optimizer: "sgd", more: 1e-7 });
      for (const mode of MODES) {
        for (const repeats of [true, false]) {
          let timed = 0;
          const choice = {
            compiled: true,
            compare(...ways: readonly TimedWay[]) {
              for (const { run } of ways) scope(run);
              timed++;
              choice.compiled = false;
            },
          };
          const chosen = left(task, { mode, repeats, choice, optimizer: "sgd" });
          compare(chosen, plain, mode === "fast" ? moved : null); // a fast plan may have computed the first step
          assertEquals(timed, 1);
        }
      }
    }
  },
});

Deno.test({
  name:
    "a plan that moves a buffer otherwise is found out by the buffer's name, and leaves what ordinary steps leave",
  ignore,
  async fn() {
    const task = numbers(() => made((z, norm) => norm.forward(z)));
    const farther: (right: LoweringRule) => LoweringRule = (right) => (g, ...args) => {
      const [y, mean, variance] = right(g, ...args) as readonly number[];
      return [y, g.b.pointwise("mul", mean, g.b.number(1.05)), variance];
    };
    for (const mode of MODES) {
      for (const repeats of [true, false]) {
        const plain = left(task, { mode: null });
        const wrong = await spoilt(
          "batch_norm",
          farther,
          () => Promise.resolve(left(task, { mode, repeats })),
        );
        if (mode === "exact") assertSentence("core/train/compiled_buffers: bits ordinary ones", wrong.told);
        else {assertMatch(
            wrong.told,
            /give other buffers than the ordinary ones \(norm\.running_mean: [\d.]+% of its change\)/,
          );}
        compare(wrong, plain);
      }
    }
  },
});

Deno.test({
  name: "a step that adds up in a tensor of the program's own is not tried, and counts once",
  ignore,
  fn() {
    for (const mode of MODES) {
      for (const repeats of [true, false]) {
        const sums = [null, mode].map((mode) => {
          const own = new Kept(),
            told = left(numbers(() => made((z) => (own.add(z), z))), { mode, repeats }).told;
          const sum = [...toNumbers(own.total)];
          own.free();
          return { sum, told };
        });
        assertEquals(sums[1].sum, sums[0].sum);
        assertSentence("core/train/compiled_buffers: steps compiled write", sums[1].told);
      }
    }
  },
});
