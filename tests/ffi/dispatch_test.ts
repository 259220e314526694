// Ops by their names: what libtorch's own registry says of them, and what is done with lists, gaps and numbers.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Num, operator, schemaText } from "../../ffi/operators.ts";
import { NativeError, UseAfterFree } from "../../ffi/errors.ts";
import { tensor, toBigInts, toNumbers } from "../../ffi/make.ts";
import { transpose } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { broadcastShape } from "../../ffi/scalar_calls.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
operator("aten::add", "Tensor"); // opens what is opened once
operator("aten::leaky_relu_", "");

const call = (name: string, overload: string, ...args: unknown[]): Tensor => {
  const op = operator(`aten::${name}`, overload)!;
  const numbers = op.schema.args.some(({ base }, i) => base === "Tensor" && args[i] instanceof Num);
  return (numbers ? op.numbers! : op.call!)(...args) as Tensor;
};
const int = (value: number) => new Num(value, "int");
const float = (value: number) => new Num(value, "float");
const values = (t: Tensor): number[] => [...toNumbers(t)];

Deno.test("an op's schema is that of the loaded libtorch; an op that it lacks is null", () => {
  assertEquals(schemaText("aten::relu", ""), "aten::relu(Tensor self) -> Tensor");
  assertStringIncludes(schemaText("aten::conv2d", "")!, "SymInt[2] stride=[1, 1]");
  assertEquals(schemaText("aten::relu_of_tomorrow", ""), null);
  assertEquals(operator("aten::add", "Nothing"), null);
});

Deno.test("what an op writes to and what shares memory with its result is read from its schema", () => {
  const memories = (name: string, overload: string) =>
    operator(`aten::${name}`, overload)!.schema.args.map(({ memory }) => memory);
  assertEquals(memories("relu_", ""), ["written"]);
  assertEquals(memories("add_", "Tensor"), ["written", "own", "own"]);
  assertEquals(memories("slice", "Tensor")[0], "shared");
  assertEquals(memories("split", "Tensor")[0], "shared");
  assertEquals(memories("add", "Tensor"), ["own", "own", "own"]);
  assertEquals(memories("relu", "out"), ["own", "written"]);
});

Deno.test("a name that ends in underscores is no sign of an op in place: and, or, exclusive or, shifts", () => {
  scope(() => {
    const a = tensor(BigInt64Array.of(6n, 3n)), b = tensor(BigInt64Array.of(3n, 1n));
    const found = ["__and__", "__or__", "__xor__", "__lshift__", "__rshift__"].map((name) => {
      const result = call(name, "Tensor", a, b);
      assert(result !== a, name);
      return [...toBigInts(result)];
    });
    assertEquals(found, [[2n, 1n], [7n, 3n], [5n, 2n], [48n, 6n], [0n, 1n]]);
    assertEquals([...toBigInts(a)], [6n, 3n]);
    const low = call("__and__", "Scalar", a, int(1)), place = tensor(new Float32Array(2));
    assertEquals([...toBigInts(low)], [0n, 1n]);
    assert(call("neg", "out", tensor([1, -2]), place) === place); // what was given for the result comes back
    assertEquals(values(place), [-1, 2]);
  });
});

Deno.test("defaults, lists of floats and lists with gaps reach the op", () => {
  scope(() => {
    const x = tensor([1, 2, 3, 4, 5, 6], [2, 3]);
    const rows = tensor(BigInt64Array.of(1n, 0n)), columns = tensor(BigInt64Array.of(2n, 2n));
    assertEquals(values(call("index", "Tensor", x, [rows])), [4, 5, 6, 1, 2, 3]);
    assertEquals(values(call("index", "Tensor", x, [null, columns])), [3, 3, 6, 6]);
    const image = tensor([1, 2, 3, 4], [1, 1, 2, 2]);
    assertEquals(call("upsample_nearest2d", "vec", image, null, [1.5, 2]).shape, [1, 1, 3, 4]);
    assertEquals(values(call("sum", "dim_IntList", x, [1])), [6, 15]);
  });
});

Deno.test("a number leaves the type of what it meets as it is, unless only a float can hold the result", () => {
  scope(() => {
    const whole = tensor(BigInt64Array.of(1n, 2n, 3n)), floats = tensor([1, 2, 3]);
    assertEquals(call("add", "Tensor", whole, int(2)).dtype, "i64");
    assertEquals([...toBigInts(call("add", "Tensor", whole, int(2)))], [3n, 4n, 5n]);
    assertEquals(call("mul", "Tensor", whole, float(0.5)).dtype, "f32");
    assertEquals(call("mul", "Tensor", floats, float(0.1)).dtype, "f32");
    assertEquals(call("mul", "Tensor", call("sum", "", floats), float(0.1)).dtype, "f32");
    assertEquals(call("div", "Tensor", whole, int(2)).dtype, "f32");
    assertEquals(values(call("arange", "start_step", int(1), int(9), int(3))), [1, 4, 7]);
  });
});

Deno.test("integers of unequal shapes are added exactly, which subtract with a floating factor refuses", () => {
  scope(() => {
    const row = tensor(BigInt64Array.of(0n, 1n, 2n), [1, 3]),
      column = tensor(BigInt64Array.of(0n, 10n), [2, 1]);
    assertEquals([...toBigInts(call("add", "Tensor", row, column))], [0n, 1n, 2n, 10n, 11n, 12n]);
    assertEquals([...toBigInts(call("sub", "Tensor", row, column, int(2)))], [0n, 1n, 2n, -20n, -19n, -18n]);
  });
});

Deno.test("shapes that don't go together are an error and not the end of the process", () => {
  scope(() => {
    const [a, b] = [tensor([1, 2, 3]), tensor([1, 2])];
    for (const [name, overload] of [["add", "Tensor"], ["add_", "Tensor"], ["sub", "Tensor"]]) {
      assertThrows(() => call(name, overload, a, b), NativeError);
    }
    assertThrows(() => call("addmm", "", a, a, b), NativeError);
    assertThrows(() => call("addcmul", "", a, a, b), NativeError);
    assertThrows(() => call("leaky_relu", "", tensor(BigInt64Array.of(1n)), float(0.1)), NativeError);
    a.free();
    assertThrows(() => call("add", "Tensor", a, b), UseAfterFree);
    assertThrows(() => call("leaky_relu", "", a, float(0.1)), UseAfterFree);
  });
});

Deno.test("a sum in place is of what was there before, also where both are views of one memory", () => {
  scope(() => {
    const x = tensor([1, 2, 3, 4], [2, 2]);
    assertEquals(values(call("add_", "Tensor", x, transpose(x, 0, 1))), [2, 5, 5, 8]);
    const y = tensor([1, 2, 3, 4]);
    call("add_", "Tensor", y, y, int(1));
    assertEquals(values(y), [2, 4, 6, 8]);
    call("add_", "Tensor", y, float(0.5));
    assertEquals(values(y), [2.5, 4.5, 6.5, 8.5]);
  });
});

Deno.test("shapes are stretched from their ends", () => {
  assertEquals(broadcastShape([2, 1, 3], [4, 1]), [2, 4, 3]);
  assertEquals(broadcastShape([], [5]), [5]);
  assertEquals(broadcastShape([2], [3]), null);
  assert(broadcastShape([0], [1])!.length === 1);
});
