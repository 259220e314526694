// Ops with numbers by their C++ functions: found by their names, called with registers, and refused without an end of the
// process.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { operator, schemaText } from "../../ffi/operators.ts";
import { NativeError, UseAfterFree } from "../../ffi/errors.ts";
import { callsThird, LOADER } from "../../ffi/arm_calls.ts";
import { callSymbol, guardedCall, handsOn } from "../../ffi/scalar_calls.ts";
import { STACKER } from "../../ffi/stack_calls.ts";
import { tensor, toNumbers } from "../../ffi/make.ts";
import { toDtype } from "../../ffi/ops.ts";
import { Num } from "../../ffi/scalar.ts";
import { parseSchema, type Schema } from "../../ffi/schema.ts";
import { liveTensors, scope, type Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";
import { registered } from "./registry.ts";

const lib = useLibtorch();
operator("aten::add", "Tensor"); // opens what is opened once

const schemas: Schema[] = registered().filter(({ namespace }) => namespace === "aten").flatMap((found) => {
  const text = schemaText(`aten::${found.name}`, found.overload);
  try {
    const schema = parseSchema(text!.slice("aten::".length));
    // A dimension's name is no text in C++.
    return schema.args.some(({ base }) => base === "Scalar") && !/dimname/i.test(schema.overload)
      ? [schema]
      : [];
  } catch {
    return [];
  }
});
const functional = schemas.filter(({ args }) => args.every(({ memory }) => memory !== "written"));

const call = (name: string, overload: string, ...args: unknown[]): Tensor => {
  const text = schemaText(`aten::${name}`, overload)!;
  return guardedCall(parseSchema(text.slice("aten::".length)))!(...args) as Tensor;
};
const float = (value: number) => new Num(value, "float"), int = (value: number) => new Num(value, "int");
call("histc", "", tensor([1]));
operator("aten::multi_margin_loss", "");

Deno.test("the linker's name of each op with a number is made from its schema", () => {
  const names = schemas.map((schema) => callSymbol(schema)).filter((name) => name !== null);
  assert(names.length > 390, `${names.length} names`);
  const wanted = names.map((
    name,
  ) => [name, { parameters: [], result: "void" as const, optional: true as const }]);
  const library = Deno.dlopen(`${lib.dir}/libtorch_cpu.so`, Object.fromEntries(wanted));
  const missing = names.filter((name) => library.symbols[name] === null);
  library.close();
  assertEquals(missing, []);
});

Deno.test({
  name: "numbers, lists, optional values and several results go through registers and back",
  fn() {
    scope(() => {
      const x = tensor([1, 2, 3, -4]), ones = tensor([1, 1, 1, 1]);
      const values = (t: Tensor) => [...toNumbers(t)];
      assertEquals(values(call("add", "Tensor", x, ones, float(0.5))), [1.5, 2.5, 3.5, -3.5]);
      assertEquals(values(call("clamp", "", x, float(-1), null)), [1, 2, 3, -1]);
      assertEquals(values(call("clamp", "", x, null, int(2))), [1, 2, 2, -4]);
      assertEquals(values(call("histc", "", x, 4, int(-4), int(4))), [1, 0, 1, 2]);
      assertEquals(
        values(call("index_add", "", x, 0, tensor(BigInt64Array.of(1n)), tensor([10]), float(0.5))),
        [
          1,
          7,
          3,
          -4,
        ],
      );
      assertEquals(values(call("norm", "ScalarOpt_dim", tensor([3, 4], [1, 2]), int(1), [-1], false)), [7]);
      assertEquals(values(call("mul", "Scalar", x, new Num(1, "bool"))), [1, 2, 3, -4]);
      // A number has no type of its own: what it is added to keeps its bits, also where that has no dimensions.
      const half = toDtype(tensor([1], []), "bf16");
      const sum = call("add", "Scalar", half, float(0.00390625 * 1.5), float(1));
      assertEquals([sum.dtype, sum.item()], ["bf16", 1.0078125]);
    });
  },
});

Deno.test({
  name: "what an op refuses is an error with its own words, of every op that takes a number",
  fn() {
    const [before, refusals] = [liveTensors(), [] as string[]];
    let called = 0;
    for (const schema of functional) {
      const fn = guardedCall(schema);
      if (!fn) continue;
      called++;
      scope(() => {
        const odd = tensor(Uint8Array.of(1, 2, 3), [3, 1]),
          given = schema.args.map(({ base, list }) => {
            if (list) return [7, -9];
            const plain: Record<string, unknown> = { Tensor: odd, Scalar: float(NaN), int: -3, float: -1 };
            return Object.hasOwn(plain, base) ? plain[base] : base === "ScalarType" ? "i8" : null;
          });
        try {
          fn(...given);
        } catch (error) {
          if (!(error instanceof NativeError)) throw error;
          assert(error.native !== "" && error.native !== "libtorch gave no reason", schema.text);
          refusals.push(schema.name);
        }
      });
    }
    assert(called > 120, `${called} called`);
    assert(refusals.length > called / 3, `${refusals.length} refused of ${called}`);
    assertEquals(liveTensors(), before);
    scope(() => {
      const x = tensor([1]);
      x.free();
      assertThrows(() => call("clamp", "", x, float(0), null), UseAfterFree);
    });
  },
});

Deno.test("a seventh integer of x86-64 lies on the stack, and no half of a list", () => {
  scope(() => {
    const x = tensor([0.5, 0.25, 1], [1, 3]), label = tensor(BigInt64Array.of(2n));
    const losses = [0, 2].map((reduction) =>
      call("multi_margin_loss", "", x, label, int(1), int(1), null, reduction)
    );
    assertEquals(losses.map(({ shape }) => shape), [[1], []]);
    assertEquals(losses.map((loss) => loss.item()), [0.25, 0.25]);
    assertThrows(
      () => call("multi_margin_loss", "", x, tensor(BigInt64Array.of(3n)), int(1), int(1), null, 1),
      NativeError,
    );
  });
  const { text } = schemas.find(({ name, overload }) => name === "scatter" && overload === "value_reduce")!;
  assertEquals([callSymbol(parseSchema(text)) === null, guardedCall(parseSchema(text))], [false, null], text);
  assertEquals(STACKER.toHex(), "488b473848894424" + "08ff6708"); // mov 56(%rdi),%rax; mov %rax,8(%rsp); jmp *8(%rdi)
});

/** How the verb begins in the wheels of 2.10 to 2.15, up to its call. */
const BEGINNINGS = [
  "415455534881ec900100004885ff0f84c57274fb488b07ff5010", // 2.10.0
  "554889e5415641 54534881ec080200004885ff0f84fa2171fb488b07ff5010", // 2.11.0, 2.12.0
  "4154555 34883ec204885ff0f84f1b288fb488b07ff5010", // 2.13.0, 2.14.0
  "55534883ec284885ff7415488b07ff5010", // 2.15.0
].map((code) => code.replaceAll(" ", ""));

Deno.test("the verb's code is known in each libtorch from 2.10 to 2.15, and none that touches an argument's register is", () => {
  for (const code of BEGINNINGS) {
    assertEquals(handsOn(code + "31c0"), true, code);
    assertEquals(handsOn(code.replace("4885ff", "4889f74885ff")), false); // mov %rsi,%rdi
    assertEquals(handsOn(code.replace("488b07", "31f6488b07")), false); // xor %esi,%esi
    assertEquals(handsOn(code.replace("ff5010", "ff5018")), false); // another of its functions
  }
});

const words = (text: string) => Uint32Array.from(text.split(" "), (word) => Number.parseInt(word, 16));

/** How the verb begins in aarch64's wheels of 2.10 and 2.15, up to its call. */
const ARM_BEGINNINGS = [
  "a9a47bfd 910003fd a90153f3 b4000100 f9400006 f94008c6 d63f00c0", // 2.10.0
  "a9bc7bfd 910003fd a90153f3 b4000100 f9400006 f94008c6 d63f00c0", // 2.15.0
].map(words);

Deno.test("the verb's code for aarch64 is known, and none that calls another function or from another place is", () => {
  for (const code of ARM_BEGINNINGS) {
    assertEquals(callsThird(code), true);
    const changed = (at: number, to: number) => callsThird(code.with(at, to));
    const end = code.length;
    assertEquals(changed(end - 2, 0xf9400cc6), false); // ldr x6, [x6, #24]: the fourth
    assertEquals(changed(end - 3, 0xf9400026), false); // ldr x6, [x1]
    assertEquals(changed(end - 1, 0xd63f00e0), false); // blr x7
    assertEquals(changed(end - 4, 0xaa0103e0), false); // mov x0, x1
    assertEquals(callsThird(code.subarray(0, end - 1)), false);
  }
  assertEquals(callsThird(new Uint32Array(8)), false);
});

Deno.test("registers of aarch64 are loaded by the instructions that GNU's assembler makes", () => {
  const [move, target, result, d01, ...rest] = LOADER;
  assertEquals(move, 0xaa0003f1); // mov x17, x0
  assertEquals(target, 0xf9400630); // ldr x16, [x17, #8]
  assertEquals(result, 0x91024228); // add x8, x17, #144
  assertEquals(d01, 0x6d450620); // ldp d0, d1, [x17, #80]
  assertEquals(rest.slice(3, 5), [0xa9410620, 0xa9420e22]); // ldp x0, x1, [x17, #16]; ldp x2, x3, [x17, #32]
  assertEquals(rest.at(-1), 0xd61f0200); // br x16
  assertEquals(LOADER.length, 12);
});
