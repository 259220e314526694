import { assertEquals, assertMatch } from "@std/assert";
import { driversCuda, glibcVersion, isaOf } from "../../ffi/machine.ts";

Deno.test("glibc says its version, as ldd does", () => {
  const { stdout } = new Deno.Command("ldd", { args: ["--version"] }).outputSync();
  const version = /(\d+\.\d+)\s*$/m.exec(new TextDecoder().decode(stdout).split("\n")[0])?.[1];
  assertEquals(glibcVersion(), version);
});

Deno.test("the driver says which CUDA it serves, and a machine without one says nothing", () => {
  const driver = [...Deno.readDirSync("/dev")].some(({ name }) => name === "nvidiactl");
  if (driver) assertMatch(driversCuda()!, /^\d+\.\d+$/);
  else assertEquals(driversCuda(), null);
});

Deno.test("the instruction set is the widest whose flags are all there, and ATEN_CPU_CAPABILITY narrows it", () => {
  const all = new Set(["avx2", "fma", "avx512f", "avx512dq", "avx512vl"]);
  const without = (flag: string) => new Set([...all].filter((one) => one !== flag));
  assertEquals(isaOf(all, undefined), "avx512");
  assertEquals(isaOf(all, "avx2"), "avx2");
  assertEquals(isaOf(all, "default"), null);
  assertEquals(isaOf(without("avx512dq"), undefined), "avx2");
  assertEquals(isaOf(without("fma"), undefined), null);
  assertEquals(isaOf(new Set(), undefined), null);
});
