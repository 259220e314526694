// What a recorded step may do, and what keeps it from being compiled.
import { assertEquals } from "@std/assert";
import { backward, noGrad, requireGrad } from "../../../ffi/autograd.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { add, constant, scalar, scale, tensor, zeros } from "../../../ffi/make.ts";
import * as ops from "../../../core/models/user/ops.ts";
import { op } from "../../../core/models/user/op.ts";
import { tape } from "../../../ffi/tape.ts";
import { record } from "../../../ffi/trace.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { lower, type Lowered, sameStep } from "../../../core/compile/lower/lower.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { useLibtorch } from "../../libtorch.ts";
import { compared, SEED_OF_DRAWS } from "./compiled.ts";
import { sentenceNamed } from "../../sentences.ts";

useLibtorch();
setThreads(1);
constant(0), constant(0.5), constant(2), constant(3);
scope(() => op("add_.Tensor")(zeros([1]), zeros([1]))); // opens the libraries
const arange = op("arange");
scope(() => arange(3));

const mean = zeros([3]), spread = zeros([3]), rows = (x: Tensor) => ops.view(x, [1, 3, 2]);

/** The step's loss is the sum of what `forward` makes of an input and a parameter, [2, 3] each. */
function outcome(forward: (x: Tensor, w: Tensor) => Tensor, repeats = false): string {
  return scope(() => {
    const input = ops.randn([2, 3]), target = zeros([1]), w = requireGrad(ops.randn([2, 3]));
    const made = compared({
      input,
      target,
      parameters: [w],
      repeats,
      pass() {
        const output = forward(input, w);
        return { output, loss: ops.sum(output) };
      },
    });
    return "reason" in made ? sentenceOf(made) : made.worst < 1e-6 ? "alike" : `differs by ${made.worst}`;
  });
}

const buffer = tensor([[1, 2, 3], [4, 5, 6]]), count = tensor(BigInt64Array.of(0n), [1]);
const from = tensor(BigInt64Array.of(0n, 1n, 2n)), to = tensor(BigInt64Array.of(0n, 2n, 1n));
/** As graph networks leave out what is an edge to itself. */
const edgesThatGoOn = () => ops.ne(from, to);
const chosen = (isChosen: (x: Tensor) => Tensor) => (x: Tensor, w: Tensor) => {
  const columns = op("index.Tensor")(to, [isChosen(x)]);
  return ops.mul(ops.indexSelect(x, 1, columns), ops.indexSelect(w, 1, columns));
};
const places = tensor(BigInt64Array.of(0n)), ones = tensor(BigInt64Array.of(1n));

const OUTCOMES: readonly [string, (x: Tensor, w: Tensor) => Tensor, string][] = [
  ["a step that reads a buffer", (x, w) => ops.mul(ops.add(x, buffer), w), "alike"],
  ["a write to what the step made", (x, w) => ops.relu_(ops.mul(x, w)), "alike"],
  ["a write through a view that is used no more", (x, w) => ops.relu_(ops.view(ops.mul(x, w), [6])), "alike"],
  [
    "a write beside a view that is used later",
    (x, w) => {
      const y = ops.mul(x, w), view = ops.view(y, [6]);
      ops.relu_(y);
      return ops.mul(ops.view(y, [6]), ops.detach(view));
    },
    "alike",
  ],
  [
    "a write to a parameter",
    (x, w) => (noGrad(() => ops.mul_(w, constant(0.5))), ops.mul(x, w)),
    sentenceNamed("core/compile/recording: mul writes tensor"),
  ],
  [
    "a number that the program reads",
    (x, w) => ops.sum(x).item() > 0 ? ops.mul(x, w) : ops.add(x, w),
    sentenceNamed("core/compile/recording: item hands numbers"),
  ],
  [
    "numbers that the program makes",
    (x, w) => ops.mul(w, ops.mul(x, tensor([1, 2, Date.now() % 7]))),
    sentenceNamed("core/compile/recording: data hands numbers"),
  ],
  ["random numbers", (x, w) => ops.mul(w, ops.mul(x, ops.rand([3]))), "rand draws random numbers"],
  [
    "random numbers of several kinds behind a seed",
    (x, w) => {
      manualSeed(SEED_OF_DRAWS);
      tape.recorder?.seeds(0);
      const kept = ops.dropout(ops.mul(x, w), 0.5, true), spread = op("exponential_")(op("empty_like")(x), 2);
      const places = op("randint.low")(0, 3, [2, 3]);
      return ops.add(ops.mul(kept, op("randn_like")(spread)), ops.mul(ops.gather(w, 1, places), spread));
    },
    "alike",
  ],
  ["dropout", (x, w) => ops.dropout(ops.mul(x, w), 0.5, true), "dropout draws random numbers"],
  ["dropout of nothing", (x, w) => ops.dropout(ops.mul(x, w), 0, true), "alike"],
  ["an op without a rule", (x, w) => op("cumprod")(ops.mul(x, w), 1), "alike"],
  [
    "an op without a rule on constants",
    (x, w) => ops.mul(ops.mul(x, w), ops.asinh(ops.toDtype(arange(3), "f32"))),
    "alike",
  ],
  [
    "a mask that is filled piece by piece",
    (x, w) => {
      const mask = ops.zeros([2, 3]), corner = ops.narrow(mask, 1, 1, 2);
      op("fill_.Tensor")(ops.narrow(corner, 0, 0, 1), constant(2));
      op("fill_.Tensor")(corner, constant(3));
      return ops.mul(ops.mul(x, w), mask);
    },
    "alike",
  ],
  [
    "a mask that gets the step's own numbers",
    (x, w) => {
      const mask = ops.zeros([2, 3]);
      op("copy_")(ops.narrow(mask, 1, 1, 1), ops.narrow(x, 1, 1, 1));
      return ops.mul(ops.mul(x, w), mask);
    },
    "alike",
  ],
  [
    "a mask that is filled without gradients, through a view",
    (x, w) => {
      const mask = noGrad(() => {
        const zeros = ops.zeros([2, 3]);
        op("copy_")(ops.narrow(zeros, 1, 1, 1), ops.mul(ops.narrow(x, 1, 1, 1), ops.narrow(w, 1, 0, 1)));
        return zeros;
      });
      return ops.mul(ops.mul(x, w), mask);
    },
    "alike",
  ],
  [
    "a write without gradients to what a parameter gave, through a view",
    (x, w) => {
      const y = ops.mul(x, w);
      noGrad(() => ops.mul_(ops.narrow(y, 1, 1, 1), constant(2)));
      return ops.mul(y, x);
    },
    sentenceNamed("core/compile/recording: mul writes tensor"),
  ],
  ["places where a table is true", chosen(edgesThatGoOn), "index.Tensor has no rule for these arguments"],
  ["what the loss does not need", (x, w) => (op("cumprod")(x, 1), ops.mul(x, w)), "alike"],
  [
    "doubles",
    (x, w) => ops.toDtype(ops.mul(ops.toDtype(x, "f64"), w), "f32"),
    "alike",
  ],
  ["what is made without a gradient", (x, w) => ops.mul(noGrad(() => ops.mul(w, x)), w), "alike"],
  ["numbers in the code", (x, w) => ops.mul(scale(x, 2), add(w, scalar(3))), "alike"],
  [
    "tables of constants",
    (x, w) => ops.mul(ops.mul(x, w), ops.toDtype(ops.gt(arange(3), constant(0)), "f32")),
    "alike",
  ],
  [
    "a table that is changed after it was made",
    (x, w) => {
      const table = ops.toDtype(arange(3), "f32"), wide = ops.add(table, 1);
      ops.mul_(wide, constant(2));
      return ops.mul(ops.mul(x, w), wide);
    },
    "alike",
  ],
  ["a count that it adds to", (x, w) => (op("add_.Tensor")(count, ones), ops.mul(x, w)), "alike"],
  [
    "running statistics that nobody needs, of an op that has no rule for them",
    (x, w) => (op("instance_norm")(rows(x), null, null, mean, spread, true, 0.1, 1e-5, true), ops.mul(x, w)),
    "instance_norm has no rule for these arguments",
  ],
  [
    "an op that writes to more than one buffer",
    (x, w) => (op("_native_batch_norm_legit")(x, null, null, mean, spread, true, 0.1, 1e-5), ops.mul(x, w)),
    sentenceNamed("core/compile/recording: writes tensor step"),
  ],
  [
    "a count that the step keeps",
    (x, w) => (ops.scatterAdd_(count, 0, places, ones), ops.mul(x, w)),
    "alike",
  ],
  [
    "a count that it keeps and reads",
    (x, w) => (ops.scatterAdd_(count, 0, places, ones), ops.mul(ops.mul(x, w), ops.toDtype(count, "f32"))),
    sentenceNamed("core/compile/recording: scatter_add writes tensor"),
  ],
];

Deno.test("each step has autograd's gradients as a graph, or is refused by its op", () => {
  for (const [what, forward, expected] of OUTCOMES) assertEquals(outcome(forward), expected, what);
});

Deno.test("places where a table is true are found once where the program keeps nothing, unless the batch chooses them", () => {
  assertEquals(outcome(chosen(edgesThatGoOn), true), "alike");
  const refused = "index.Tensor has no rule for these arguments";
  assertEquals(outcome(chosen((x) => ops.lt(ops.sumDim(x, [0]), constant(100))), true), refused);
  const written = chosen(() => (op("copy_")(to, to), edgesThatGoOn()));
  assertEquals(outcome(written, true) === "alike", false);
});

Deno.test("a recording and its graph give back all that they hold", () => {
  const before = liveTensors();
  for (const [, forward] of OUTCOMES) outcome(forward);
  assertEquals(liveTensors(), before);
});

const graphOf = (factor: number, held: Tensor): Lowered =>
  scope(() => {
    const input = zeros([2, 3]), target = zeros([1]), w = requireGrad(zeros([2, 3]));
    const { result: { output, loss }, recording } = record(() => {
      const output = ops.mul(ops.mul(ops.add(input, held), w), constant(factor)), table = arange(3);
      const loss = ops.sum(ops.mul(output, ops.toDtype(table, "f32")));
      backward(loss);
      return { output, loss };
    });
    const lowered = lower(recording, { input, target, parameters: [w], output, loss });
    if ("reason" in lowered) throw new Error(sentenceOf(lowered));
    return lowered;
  });

Deno.test("equal steps have equal graphs, and a number that changes shows", () => {
  const other = tensor([[1, 2, 3], [4, 5, 7]]);
  const [first, ...others] = [
    graphOf(2, buffer),
    graphOf(2, buffer),
    graphOf(3, buffer),
    graphOf(2, other),
  ];
  assertEquals(others.map((one) => sameStep(first, one)), [true, false, false]);
  for (const one of [first, ...others]) one.free();
  other.free();
});
