// Scaling and normalising against PyTorch and torchvision, to the last bit; what the settings may and may not say.
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { givenIn, valuesOf } from "../../../../core/data/transforms/values.ts";
import type { Normalisation } from "../../../../core/data/source/source.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { ones, tensor, toNumbers, zeros } from "../../../../ffi/make.ts";
import { setThreads } from "../../../../ffi/context.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { askPeer } from "../../../peer.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();
setThreads(1);

interface Case {
  shape: number[];
  scaling: "none" | "log" | "asinh";
  softening: number;
  normalisation: Normalisation | null;
}

const IMAGENET = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
const CASES: Case[] = [
  { shape: [5, 3, 8, 7], scaling: "none", softening: 1, normalisation: IMAGENET },
  { shape: [5, 3, 8, 7], scaling: "log", softening: 1, normalisation: null },
  { shape: [5, 3, 8, 7], scaling: "log", softening: 0.3, normalisation: IMAGENET },
  {
    shape: [9, 4],
    scaling: "asinh",
    softening: 2.5,
    normalisation: { mean: [1, 0, -1, 3], std: [1, 2, 3, 0.1] },
  },
  { shape: [9, 4], scaling: "asinh", softening: 1, normalisation: { mean: [0.5], std: [0.25] } },
  { shape: [4, 2, 6], scaling: "none", softening: 7, normalisation: { mean: [0, 1], std: [0.3] } },
];
const random = uniform(key(4, "values test"));
const valuesFor = ({ shape, scaling }: Case) =>
  Array.from(
    { length: shape.reduce((a, b) => a * b, 1) },
    (_, i) => Math.fround((scaling === "log" ? 0 : -5) + 10 * random(i)),
  );
const theirs = await askPeer<number[][]>(
  "values.py",
  CASES.map((c) => {
    const { mean = null, std = null } = c.normalisation ?? {};
    const wide = (row: readonly number[] | null) =>
      row && (row.length === 1 ? Array(c.shape[1]).fill(row[0]) : row);
    return { ...c, values: valuesFor(c), mean: wide(mean), std: wide(std) };
  }),
);

CASES.forEach((c, i) => {
  const { shape, scaling, normalisation } = c;
  const what = `${scaling} of [${shape.join(", ")}] by ${c.softening}${normalisation ? ", normalised," : ""}`;
  Deno.test(`${what} has PyTorch's bits`, () => {
    scope(() => {
      const values = valuesOf(c, shape.slice(1), normalisation)!;
      const x = tensor(Float32Array.from(valuesFor(c)), shape);
      const before = [...toNumbers(x)];
      assertEquals(Array.from(toNumbers(values(x))), theirs[i]);
      assertEquals([...toNumbers(x)], before, "the batch itself was changed");
    });
  });
});

const plain = { scaling: "none", softening: 1 } as const;

Deno.test("nothing asked for is nothing done", () => {
  assertEquals(valuesOf(plain, [3, 8, 8], null), null);
});

Deno.test("a channel that never varies is centred, and a note says so", () => {
  const notes: string[] = [];
  const values = valuesOf(plain, [3], { mean: [1, 2, 3], std: [0, 2, 0] }, notes)!;
  scope(() => assertEquals([...toNumbers(values(tensor([4, 4, 4], [1, 3])))], [3, 1, 1]));
  assertEquals(notes, [sentenceNamed("core/data/transforms/values: channels counted never")]);
});

Deno.test("a batch leaves no tensor behind but the result", () => {
  const values = valuesOf({ scaling: "asinh", softening: 3 }, [3], { mean: [1], std: [2] })!;
  const once = () => scope(() => void values(ones([2, 3])));
  once();
  const before = liveTensors();
  once();
  assertEquals(liveTensors(), before);
});

Deno.test("what the settings give is read as numbers, and what is left out changes nothing", () => {
  assertEquals(givenIn({ mean: ["0.5", " 1e-3"], std: [] }), { mean: [0.5, 0.001], std: [1] });
  assertEquals(givenIn({ mean: [], std: ["2"] }), { mean: [0], std: [2] });
});

Deno.test("the logarithm of values at or below minus the softening is refused with another scaling", () => {
  scope(() => {
    const log = (values: number[], softening: number) =>
      toNumbers(valuesOf({ scaling: "log", softening }, [2], null)!(tensor(values, [1, 2])));
    const error = assertThrows(() => log([3, -2], 2), UserError);
    assertEquals(error.kind, "data");
    assertSentence("core/data/transforms/values: values low finite", error.message);
    assertEquals([...log([0, -2], 2.5)].every(Number.isFinite), true);
  });
});

for (
  const [title, act, said] of [
    ["text for a mean", () => givenIn({ mean: ["0.5", "half"], std: [] }), 'data.mean (--mean) has "half"'],
    ["an empty deviation", () => givenIn({ mean: [], std: [" "] }), 'data.std (--std) has " "'],
    ["a deviation of 0", () => givenIn({ mean: [], std: ["1", "0"] }), "data.std (--std) has 0"],
    ["a deviation below 0", () => givenIn({ mean: [], std: ["-1"] }), "must be above 0"],
    [
      "two means for three channels",
      () => valuesOf(plain, [3, 8, 8], { mean: [1, 2], std: [1] }),
      sentenceNamed("core/data/transforms/values: samples channels values"),
    ],
    [
      "ImageNet's figures for one channel",
      () => valuesOf(plain, [1, 8, 8], IMAGENET),
      "have 1 channel, but there are 3 values of mean",
    ],
    [
      "scaled tokens",
      () =>
        scope(() => valuesOf({ scaling: "log", softening: 1 }, [8], null)!(zeros([2, 8], { dtype: "i64" }))),
      "i64[2, 8] can't be scaled",
    ],
  ] as const
) {
  Deno.test(`${title}: refused`, () => {
    const error = assertThrows(() => void act(), UserError);
    assertEquals(error.kind, "usage");
    assertStringIncludes(error.message, said);
  });
}
