// The grids of positions that a file may hold; timm's own numbers are in tests/core/models/real_weights_test.ts.
import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { positionGrid, resampledPositions } from "../../../core/checkpoint/positions.ts";
import { memoryStorage, TensorData } from "../../../core/checkpoint/value.ts";

const to = (rows: number, columns: number) => ({ name: "p", rows, columns, others: 1 });

Deno.test("another library's positions are a square; ours have the proportions of the model's images, or are a square", () => {
  assertEquals(positionGrid(196, to(24, 24), false), [14, 14]);
  assertEquals(positionGrid(16, to(2, 8), false), [4, 4]);
  assertEquals(positionGrid(16, to(4, 16), true), [2, 8]);
  assertEquals(positionGrid(32, to(8, 16), false), [4, 8]);
  assertEquals(positionGrid(16, to(3, 5), true), [4, 4]);
  assertEquals(positionGrid(15, to(4, 4), true), null);
});

const tensor = (values: number[], shape: number[]) =>
  new TensorData("f32", shape, memoryStorage(new Uint8Array(Float32Array.from(values).buffer)));

Deno.test("positions that fit stay as they are, equal ones stay equal, and a count that is no grid is refused", () => {
  const from = { path: "a.pt", own: false };
  const numbers = (values: number[]) => () => Float64Array.from(values);
  const four = [9, 1, 1, 1, 1];
  assertEquals(resampledPositions(tensor(four, [1, 5, 1]), numbers(four), to(2, 2), from), null);
  const made = resampledPositions(tensor(four, [1, 5, 1]), numbers(four), to(3, 5), from)!;
  assertEquals(made.tensor.shape, [1, 16, 1]);
  const three = [9, 1, 1, 1];
  const error = assertThrows(
    () => resampledPositions(tensor(three, [1, 4, 1]), numbers(three), to(2, 2), from),
    UserError,
  );
  assertEquals(error.message.startsWith("a.pt: p has 3 positions, which is no square"), true, error.message);
  assertEquals(resampledPositions(tensor([9], [1, 1, 1]), numbers([9]), to(2, 2), from), null); // its shape is refused later
});
