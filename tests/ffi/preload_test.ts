import { assertEquals, assertThrows } from "@std/assert";
import { LibraryError } from "../../ffi/errors.ts";
import { openLibtorch } from "../../ffi/library.ts";
import { loadBeside } from "../../ffi/preload.ts";

const program = new URL("beside_program.ts", import.meta.url).pathname;

Deno.test("libtorch is loaded beside what the program does meanwhile, and computes once it is opened", async () => {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--no-check", "--quiet", program, Deno.env.get("HPCTRAIN_LIBTORCH")!],
  }).output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), {
    before: false,
    after: true,
    went: true,
    sum: [2, 4, 6],
  });
});

// A library that was opened stays open for the life of the process.
const staysOpen = { sanitizeResources: false };

Deno.test("what is no library is left for the opening of it to complain about", staysOpen, async () => {
  const dir = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${dir}/libtorch_cpu.so`, "not a library");
    const fake = { dir, version: [2, 15, 0] as const, versionText: "2.15.0", gpu: null, from: "a test" };
    await loadBeside(fake);
    assertThrows(() => openLibtorch(fake), LibraryError, `${dir}/libtorch_cpu.so can't be loaded: `);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
