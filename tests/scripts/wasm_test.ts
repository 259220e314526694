// The committed WebAssembly is what its source compiles to.
import { assert, assertEquals } from "@std/assert";

Deno.test("scripts/wasm --check finds that each .wasm and its source belong together", async () => {
  const script = new URL("../../scripts/wasm", import.meta.url).pathname;
  const { code, stderr } = await new Deno.Command(script, { args: ["--check"] }).output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  for (const name of ["codecs/fast_jpeg", "augment/pixels"]) {
    assert(Deno.statSync(new URL(`../../core/data/${name}.wasm`, import.meta.url)).size < 20_000, name);
  }
});
