import { assertEquals, assertThrows } from "@std/assert";
import { loadCode, type MachineCode, pagesOfFile, pagesOfProcess } from "../../ffi/machine_code.ts";
import { tensor, toNumbers } from "../../ffi/make.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { load } from "../core/compile/x86/harness.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
pagesOfProcess(Uint8Array.of(0)); // opens what is opened once

// Slot 0's first number becomes the next f32.
const ADD_ONE = Deno.build.arch === "x86_64"
  ? Uint8Array.of(0x48, 0x8b, 0x07, 0x83, 0x00, 0x01, 0xc3) // mov rax, [rdi]; add dword ptr [rax], 1; ret
  // ldr x1, [x0]; ldr w2, [x1]; add w2, w2, #1; str w2, [x1]; ret
  : new Uint8Array(Uint32Array.of(0xf9400001, 0xb9400022, 0x11000442, 0xb9000022, 0xd65f03c0).buffer);
const code = {
  bytes: ADD_ONE,
  entries: [0],
  constants: new Uint8Array(),
  constantsSlot: 1,
  scratchBytes: 0,
  symbols: [],
};
const NEXT = 1 + 2 ** -23;

const first = (t: Tensor, at = 0): number => scope(() => toNumbers(t)[at]);

for (
  const [name, pages] of [["the process's pages", pagesOfProcess], ["a file's pages", pagesOfFile]] as const
) {
  Deno.test(`code runs from ${name}, on the tensor that its slot names, and they are never writable and executable`, () => {
    const both: string[] = [];
    const loaded = loadCode(code, (bytes) => {
      const at = pages(bytes);
      const hex = at!.toString(16);
      both.push(
        ...Deno.readTextFileSync("/proc/self/maps").split("\n").filter((line) => line.startsWith(hex)),
      );
      return at;
    }) as MachineCode;
    const one = tensor([1, 1]), other = tensor([1, 1]);
    loaded.setSlot(0, one);
    loaded.run();
    loaded.setSlot(0, other, 4);
    loaded.run();
    assertEquals([first(one), first(one, 1), first(other), first(other, 1)], [NEXT, 1, 1, NEXT]);
    loaded.free();
    loaded.free();
    assertThrows(() => loaded.run(), Error, "freed");
    assertEquals(both.map((line) => line.split(" ")[1]), ["r-xp"]);
    one.free();
    other.free();
  });
}

Deno.test("a machine without executable pages, and a libtorch without a function, are facts", () => {
  assertEquals(loadCode(code, () => null), { refused: "memory", name: "mprotect" });
  const lacking = { ...code, symbols: ["sgemm_", "no_such_function"] };
  assertEquals(loadCode(lacking), { refused: "symbol", name: "no_such_function" });
});

Deno.test("a slot that code does not have is refused", () => {
  const loaded = load(code), t = tensor([1]);
  assertThrows(() => loaded.setSlot(1, t), Error, "no slot 1");
  loaded.free();
  t.free();
});
