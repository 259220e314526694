import { assertEquals, assertMatch } from "@std/assert";
import { driversCuda, glibcVersion } from "../../ffi/machine.ts";

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
