import { assertEquals, assertThrows } from "@std/assert";
import { native } from "../../ffi/abi.ts";
import { LibraryError } from "../../ffi/errors.ts";
import { cAbi, mangledC10, mangledTorch, need, openedLibtorch, openLibtorch } from "../../ffi/library.ts";
import { libraryNamed } from "../../ffi/libraries/elf.ts";
import { useLibtorch } from "../libtorch.ts";
import { sentenceNamed } from "../sentences.ts";

Deno.test("using libtorch before it was opened is a bug that says so", () => {
  assertThrows(() => openedLibtorch(), Error, "internal: libtorch is used before it was opened");
});

// A library that was opened stays open for the life of the process.
const staysOpen = { sanitizeResources: false };

Deno.test("a file that is no library is refused with its path and the loader's reason", staysOpen, () => {
  const dir = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${dir}/libtorch_cpu.so`, "not a library");
    const fake = { dir, version: [2, 15, 0] as const, versionText: "2.15.0", gpu: null, from: "a test" };
    assertThrows(() => openLibtorch(fake), LibraryError, `${dir}/libtorch_cpu.so can't be loaded: `);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("libtorch opens once; the same again is nothing, another is a bug that says so", staysOpen, () => {
  const lib = useLibtorch();
  openLibtorch(lib);
  assertEquals(openedLibtorch().dir, lib.dir);
  assertThrows(() => openLibtorch({ ...lib, dir: "/elsewhere" }), Error, `open already, from ${lib.dir}`);
});

Deno.test("every symbol, mangled ones too, is in this libtorch", () => {
  const lib = useLibtorch();
  const unbound = Object.keys({ ...cAbi, ...mangledTorch, ...mangledC10 })
    .filter((name) => !native[name as keyof typeof native]);
  // One function of torch.vmap has another signature since 2.12.
  const otherSignature = lib.version[1] < 12 ? "initAndPushLevel" : "initAndPushLevel210";
  assertEquals(unbound, [otherSignature], lib.versionText);
});

Deno.test("the version that libtorch reports is the one that its files name", () => {
  const [major, minor] = useLibtorch().version;
  const bits = native.abiVersion();
  assertEquals([bits >> 56n, (bits >> 48n) & 0xffn], [BigInt(major), BigInt(minor)]);
});

Deno.test("a symbol that a libtorch lacks is a sentence with the loss and the way out", () => {
  const { setThreads } = native;
  native.setThreads = null;
  try {
    const error = assertThrows(() => need("setThreads", "set the number of threads"), LibraryError);
    assertEquals(error.message.includes(sentenceNamed("ffi/library: lacks symbol needed")), true);
    assertEquals(error.message.includes("hpctrain libtorch install"), true);
  } finally {
    native.setThreads = setThreads;
  }
});

Deno.test("a loaded library is found by the beginning of its name", () => {
  const { dir } = useLibtorch();
  assertEquals(Deno.realPathSync(libraryNamed("libc10.so")), Deno.realPathSync(`${dir}/libc10.so`));
  assertEquals(libraryNamed("libnothing.so"), "libnothing.so");
});
