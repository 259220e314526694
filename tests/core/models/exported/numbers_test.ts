// Sizes in a graph: Python's arithmetic, and the expressions that PyTorch writes.
import { assertEquals } from "@std/assert";
import { numberFunction, symbolIn } from "../../../../core/models/exported/operators.ts";

const of = (name: string, ...args: number[]) => numberFunction(name)!(...args);

Deno.test("division and remainder are Python's, also of negative numbers", () => {
  assertEquals(of("_operator.floordiv", -7, 2), -4);
  assertEquals(of("_operator.mod", -7, 3), 2);
  assertEquals(of("operator.truediv", 7, 2), 3.5);
  assertEquals(of("torch.sym_max", 3, 5), 5);
  assertEquals(of("math.trunc", -2.5), -2);
  assertEquals(of("_operator.ge", 2, 2), 1);
  assertEquals(numberFunction("_operator.matmul"), null);
  assertEquals(numberFunction("constructor"), null);
});

Deno.test("a symbol or a multiple of one is read in both ways of writing; what has to be worked out is not", () => {
  assertEquals(symbolIn("s77"), { symbol: "s77", times: 1 });
  assertEquals(symbolIn("2*s77"), { symbol: "s77", times: 2 });
  assertEquals(symbolIn("Symbol('s77', positive=True, integer=True)"), { symbol: "s77", times: 1 });
  assertEquals(symbolIn("Mul(Integer(2), Symbol('s4', integer=True))"), { symbol: "s4", times: 2 });
  assertEquals(symbolIn("s0 + s1"), null);
});
