import { assert, assertEquals, assertThrows } from "@std/assert";
import { parseSchema } from "../../ffi/schema.ts";

const root = new URL("../../", import.meta.url).pathname;

Deno.test("the signatures derived from schemas accept and refuse what they should", () => {
  const { success, stderr } = new Deno.Command(Deno.execPath(), {
    args: ["check", "--quiet", "tests/ffi/schema_types.ts"],
    cwd: root,
    env: { NO_COLOR: "1" },
  }).outputSync();
  assert(success, new TextDecoder().decode(stderr));
});

Deno.test("a schema is read into name, overload, arguments and results", () => {
  const schema = parseSchema(
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
  );
  assertEquals([schema.name, schema.overload], ["split", "Tensor"]);
  assertEquals(schema.args.map((a) => [a.name, a.base, a.fallback]), [
    ["self", "Tensor", undefined],
    ["split_size", "int", undefined],
    ["dim", "int", "0"],
  ]);
  assertEquals(schema.returns, [{ base: "Tensor", list: true, argument: -1, alias: "a" }]);
});

Deno.test("an op without overload, arguments or results is read", () => {
  const schema = parseSchema("nothing() -> ()");
  assertEquals([schema.overload, schema.args, schema.returns], ["", [], []]);
});

Deno.test("a default that is a list is not split at its comma", () => {
  const [, stride, groups] = parseSchema("f(Tensor x, int[2] stride=[1, 1], int groups=1) -> Tensor").args;
  assertEquals([stride.fallback, stride.list, stride.length], ["[1, 1]", true, 2]);
  assertEquals(groups.fallback, "1");
});

Deno.test("optional, list and optional list are told apart", () => {
  const args = parseSchema("f(Tensor? a, Tensor[] b, int[1]? c, Tensor(x!)[] d, Tensor(y!) e) -> ()").args;
  assertEquals(args.map((a) => [a.optional, a.list]), [
    [true, false],
    [false, true],
    [true, true],
    [false, true],
    [false, false],
  ]);
});

Deno.test("the star that begins keyword arguments is no argument", () => {
  const { args } = parseSchema('gelu(Tensor self, *, str approximate="none") -> Tensor');
  assertEquals(args.map((a) => a.name), ["self", "approximate"]);
});

Deno.test("named and aliased results keep their types", () => {
  const { returns } = parseSchema("f(Tensor x) -> (Tensor(a!) values, Tensor indices, int)");
  assertEquals(returns.map((r) => r.base), ["Tensor", "Tensor", "int"]);
});

Deno.test("a result that is an argument again is known by its mark, whatever the op is called", () => {
  const again = (text: string) => parseSchema(text).returns.map(({ argument }) => argument);
  assertEquals(again("add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"), [0]);
  assertEquals(again("__and__.Tensor(Tensor self, Tensor other) -> Tensor"), [-1]);
  assertEquals(again("f.out(Tensor x, *, Tensor(a!) u, Tensor(b!) v) -> (Tensor(b!), Tensor(a!))"), [2, 1]);
  assertEquals(again("view(Tensor(a) self, SymInt[] size) -> Tensor(a)"), [-1]);
});

Deno.test("a text that is no schema is refused, naming it", () => {
  assertThrows(() => parseSchema("relu(Tensor self)"), Error, "not an ATen schema: relu(Tensor self)");
  assertThrows(() => parseSchema("relu(Tensor) -> Tensor"), Error, 'argument "Tensor"');
});
