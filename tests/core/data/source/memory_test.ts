// Sources in memory: gathering, scopes, and what they refuse.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { batchOf, plainPart } from "../../../../core/data/source/source.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { tensor, toNumbers, zeros } from "../../../../ffi/make.ts";
import { liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { assertRefusal } from "../../../sentences.ts";

useLibtorch();

const numbers = (input: Tensor, target: Tensor) =>
  memorySource({ name: "numbers", task: "regression", outputs: 1, description: "", input, target });

Deno.test("a batch is the samples asked for, in that order, repeated where asked", () => {
  scope(() => {
    const source = numbers(tensor([0, 1, 10, 11, 20, 21], [3, 2]), tensor([5, 6, 7], [3, 1]));
    assertEquals(source.length, 3);
    assertEquals(source.input, { name: "input", shape: [2], dtype: "f32" });
    const { input, target } = batchOf(source, plainPart([2, 0, 2]));
    assertEquals([...toNumbers(input)], [20, 21, 0, 1, 20, 21]);
    assertEquals([...toNumbers(target)], [7, 5, 7]);
    assertEquals([...toNumbers(batchOf(source, plainPart(Int32Array.of(1))).target)], [6]);
  });
});

Deno.test("a batch belongs to the caller's scope and leaves nothing else behind", () => {
  const source = scope(() => numbers(tensor([1, 2, 3], [3, 1]), tensor([5, 6, 7], [3, 1])));
  const before = liveTensors();
  for (let i = 0; i < 10; i++) scope(() => void batchOf(source, plainPart([0, 1])));
  assertEquals(liveTensors(), before);
  const { input, target } = batchOf(source, plainPart([1]));
  assertEquals(liveTensors(), before + 2);
  input.free();
  target.free();
});

Deno.test("raw rows are gathered into memory that is given for them", () => {
  scope(() => {
    const source = numbers(tensor([0, 1, 10, 11, 20, 21], [3, 2]), tensor([5, 6, 7], [3, 1]));
    const into = { input: zeros([2, 2]), target: zeros([2, 1]) };
    const { input, target } = source.raw(plainPart([2, 1]), into);
    assert(input === into.input && target === into.target);
    assertEquals([...toNumbers(into.input)], [20, 21, 10, 11]);
    assertEquals([...toNumbers(into.target)], [7, 6]);
  });
});

for (const [what, bad] of [["NaN", NaN], ["infinity", -Infinity]] as const) {
  Deno.test(`${what} in a field is refused with the number of samples and the first of them`, () => {
    scope(() => {
      const error = assertRefusal(
        "data",
        "core/data/source/memory: numbers input nan",
        assertThrows(
          () => numbers(tensor([1, 2, 3, bad, bad, bad, 7, 8], [4, 2]), tensor([5, 6, 7, 8], [4, 1])),
          UserError,
        ),
      );
      assertEquals(error.kind, "data");
      assertRefusal(
        "data",
        "core/data/source/memory: target nan infinity",
        assertThrows(() => numbers(tensor([1, 2], [2, 1]), tensor([5, bad], [2, 1])), UserError),
      );
    });
  });
}
