// The data's columns and the inputs of an exported program: who takes what, and what is refused.
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { openExported } from "../../../../core/models/exported/archive.ts";
import { fitSizes, warningsOf } from "../../../../core/models/exported/check.ts";
import {
  readRequestedColumns,
  unpackFor,
  type UserInput,
} from "../../../../core/models/exported/signature.ts";
import type { Facts, InputColumn } from "../../../../core/models/model.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { reshape } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { open } from "../../train/rig.ts";
import { assertSentence } from "../../../sentences.ts";
import { inFolder, python } from "../../checkpoint/python.ts";

open();
let slot = 0;
const input = (label: string, sizes: (number | string)[], dtype: DType = "f32", name = label): UserInput => ({
  name,
  label,
  slot: slot++,
  meta: { dtype, sizes: ["s0", ...sizes], strides: [], offset: 0, requiresGrad: false },
});
const column = (name: string, shape: number[], layout = shape, whole = false): InputColumn => ({
  name,
  shape,
  layout,
  whole,
});

const columns = [
  column("map", [2, 2], [1, 2, 2]),
  column("t", [], [1]),
  column("kind", [], [1], true),
  column("row", [3]),
];
const flat: Facts = {
  task: "regression",
  input: { shape: [9], dtype: "f32", columns, flat: true },
  outputs: 1,
};
const joined = {
  ...flat,
  input: {
    shape: [3, 2, 2],
    dtype: "f32" as const,
    columns: [column("uv", [2, 2, 2]), column("p", [2, 2], [1, 2, 2])],
  },
};

/** Each input's shape and numbers, of two samples that count upwards. */
function taken(inputs: UserInput[], asked: string[], facts = flat) {
  const size = 2 * facts.input.shape.reduce((product, side) => product * side, 1);
  return scope(() => {
    const features = reshape(tensor(Float32Array.from({ length: size }, (_, i) => i)), [
      2,
      ...facts.input.shape,
    ]);
    const unpack = unpackFor("m.pt2", inputs, readRequestedColumns("m.pt2", asked), null, facts)!;
    return unpack(features).map((t) => [t.shape, [...toNumbers(t)]]);
  });
}

Deno.test("columns go to the inputs of their names, in the shapes that the graph wants", () => {
  assertEquals(
    taken([input("row", [3]), input("kind", [], "i64"), input("map", [2, 2]), input("t", [1])], []),
    [
      [[2, 3], [6, 7, 8, 15, 16, 17]],
      [[2], [5, 14]],
      [[2, 2, 2], [0, 1, 2, 3, 9, 10, 11, 12]],
      [[2, 1], [4, 13]],
    ],
  );
});

Deno.test("columns without such names go to as many inputs in their order, those of a dict by their keys", () => {
  const inputs = [input("a", [1, 2, 2]), input("b", [1]), input("c", [1]), input("d", ["s1"])];
  assertEquals(taken(inputs, []).map(([shape]) => shape), [[2, 1, 2, 2], [2, 1], [2, 1], [2, 3]]);
  assertEquals(taken([input("t", [1], "f32", "batch_t")], ["t=t"]), [[[2, 1], [4, 13]]]);
});

Deno.test("one input can take several columns side by side, and one column can go to two", () => {
  assertEquals(taken([input("x", [4]), input("again", [])], ["x=row", "t", "again=t"]), [
    [[2, 4], [6, 7, 8, 4, 15, 16, 17, 13]],
    [[2], [4, 13]],
  ]);
  assertEquals(taken([input("p", [2, 2]), input("uv", [2, 2, 2])], [], joined as Facts), [
    [[2, 2, 2], [8, 9, 10, 11, 20, 21, 22, 23]],
    [[2, 2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19]],
  ]);
});

Deno.test("what does not fit is told with the input, the column and both shapes", () => {
  const said = (inputs: UserInput[], asked: string[] = [], facts = flat) =>
    assertThrows(() => taken(inputs, asked, facts), UserError).message;
  const row = input("row", [3]), map = input("map", [2, 2]);
  assertSentence("core/models/exported/inputs: data lacks input", said([row, input("mask", [2])]));
  assertSentence("core/models/exported/inputs: input rows inputs", said([row, map], ["rows=row"]));
  assertSentence("core/models/exported/inputs: input row take", said([row, map], ["row=raw"]));
  assertSentence("core/models/exported/inputs: takes samples shape", said([row, map], ["row=map"]));
  assertStringIncludes(said([row, map], ["row=row", "map"]), "can't take row [3] and map [2, 2] together");
  assertSentence("core/models/exported/inputs: input row whole", said([input("row", [3], "i64"), map]));
  assertStringIncludes(said([row, map], ["row"]), '--inputs begins with "row": say which input');
  assertStringIncludes(said([row, map], ["row=t", "row=row"]), "--inputs names the input row of m.pt2 twice");
  assertStringIncludes(said([row, map], ["row="]), "--inputs gives row of m.pt2 no column");
  assertSentence("core/models/exported/inputs: takes tensor data", said([input("x", [9])]));
  const bare: Facts = { task: "regression", input: { shape: [9], dtype: "f32" }, outputs: 1 };
  assertSentence("core/models/exported/inputs: forward takes tensors", said([row, map], [], bare));
  const large = {
    ...flat,
    input: { ...flat.input, columns: columns.map((one) => ({ ...one, large: one.name === "kind" })) },
  };
  const all = (kind: DType) => [row, input("kind", [], kind), map, input("t", [1])];
  assertMatch(
    said(all("i64"), [], large),
    /the column kind has some from 16,777,216/,
  );
  assertEquals(taken(all("f32"), [], large).length, 4);
});

Deno.test("dimensions of 1 are put in or left out, all others must be the same", () => {
  const cases = [
    [[3], [3], [3]],
    [[1], [], []],
    [[], [1], [1]],
    [[3], [1, 3], [1, 3]],
    [[1, 4, 5], ["h", "w"], [4, 5]],
    [[4, 1, 5], [4, 5, 1], [4, 5, 1]],
    [[1, 1], ["h", 1], [1, 1]],
    [[3], [4], null],
    [[3, 4], [3], null],
    [[12], [3, 4], null],
  ] as const;
  for (const [shape, sizes, fitted] of cases) {
    assertEquals(fitSizes(shape, sizes), fitted as number[] | null, `${shape} -> ${sizes}`);
  }
});

Deno.test({
  name: "one example tensor for two inputs is warned of, since the graph then reads one of them alone",
  sanitizeResources: false, // schemas of operations are looked up in libraries that stay open
  fn: inFolder((folder) => {
    python(
      `import sys, torch
class Two(torch.nn.Module):
    def forward(self, a, b): return a + 2 * b
class Last(torch.nn.Module):
    def forward(self, a, b): return 2 * b
x, y, z = torch.randn(2, 4), torch.randn(2, 4), torch.randn(2, 3)
for name, model, inputs in (("once", Two(), (x, y)), ("twice", Two(), (x, x)), ("other", Last(), (z, x))):
    torch.export.save(torch.export.export(model, inputs), f"{sys.argv[1]}/{name}.pt2")`,
      folder,
    );
    const warned = (name: string) => {
      using archive = openExported(`${folder}/${name}.pt2`);
      return warningsOf(archive);
    };
    assertEquals([warned("once"), warned("other")], [[], []]);
    const [warning, ...more] = warned("twice");
    assertEquals(more, []);
    assertSentence("core/models/exported/inputs: never reads input", warning);
  }),
});
