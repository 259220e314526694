// scripts/build for another architecture than this machine's, with a program that is quick to build.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "paths";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";

const SCRIPTS = fromFileUrl(new URL("../../scripts", import.meta.url));
const OWN = Deno.build.arch;
/** The number of an ELF file's machine. */
const MACHINES = { x86_64: 62, aarch64: 183 } as const;
const OTHER = OWN === "x86_64" ? "aarch64" : "x86_64";

/** A checkout with these scripts. Its caches are this machine's, where Deno and its stubs lie. */
async function checkout(
  folder: string,
): Promise<(...args: string[]) => Promise<{ code: number; said: string }>> {
  Deno.mkdirSync(join(folder, "checkout"));
  const copied = await new Deno.Command("cp", { args: ["-r", SCRIPTS, join(folder, "checkout/scripts")] })
    .output();
  assert(copied.success);
  Deno.writeTextFileSync(join(folder, "checkout/main.ts"), 'console.log("ran on", Deno.build.arch);');
  Deno.writeTextFileSync(join(folder, "checkout/deno.json"), "{}");
  return async (...args) => {
    const build = join(folder, "checkout/scripts/build");
    const { code, stderr } = await new Deno.Command(build, { args, stdin: "null", stdout: "null" }).output();
    return { code, said: new TextDecoder().decode(stderr) };
  };
}

function machineOf(path: string): number {
  using file = Deno.openSync(path);
  const head = new Uint8Array(64);
  file.readSync(head);
  assertEquals(new TextDecoder().decode(head.subarray(1, 4)), "ELF");
  return new DataView(head.buffer).getUint16(18, true);
}

Deno.test("an executable for another architecture is built beside this machine's own, which a second build leaves", () =>
  inTemp(async (folder) => {
    const build = await checkout(folder), dist = join(folder, "checkout/dist");
    const crossed = await build("--target", OTHER);
    assertEquals(crossed.code, 0, crossed.said);
    assertEquals([...Deno.readDirSync(dist)].map(({ name }) => name), [`hpctrain-${OTHER}`]);
    assertEquals(machineOf(join(dist, `hpctrain-${OTHER}`)), MACHINES[OTHER]);
    assertEquals((await build("--target", OWN)).code, 0);
    assertEquals(machineOf(join(dist, "hpctrain")), MACHINES[OWN as keyof typeof MACHINES]);
    const { stdout } = await new Deno.Command(join(dist, "hpctrain")).output();
    assertEquals(new TextDecoder().decode(stdout), `ran on ${OWN}\n`);
    assertEquals(await build("--target", OTHER), { code: 0, said: "" });
    assertEquals([...Deno.readDirSync(dist)].map(({ name }) => name).sort(), [
      "hpctrain",
      `hpctrain-${OTHER}`,
    ]);
  }));

Deno.test("another target than the two, and other words, are refused", () =>
  inTemp(async (folder) => {
    const build = await checkout(folder);
    for (const words of [["--target", "riscv64"], ["--target"], ["aarch64"]]) {
      const { code, said } = await build(...words);
      assertEquals(code, 2);
      assertMatch(said, /takes --target x86_64 or --target aarch64/);
    }
  }));
