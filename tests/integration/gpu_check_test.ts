import { assert, assertEquals, assertStringIncludes } from "@std/assert";

const script = new URL("../../scripts/gpu-check", import.meta.url).pathname;

async function gpuCheck(args: string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(script, { args, env, stdin: "null" }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

Deno.test("the GPU check runs all that a CPU can stand in for, and writes what it found", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const { code, out, err } = await gpuCheck(["--device", "cpu", "--quick", "--out", folder]);
    assertEquals(code, 0, out + err);
    assert(/\n(2\d) passed, 0 failed on CPU\n/.test(out), out);
    const found = JSON.parse(Deno.readTextFileSync(`${folder}/gpu-check-cpu.json`));
    assertEquals(found.rows.filter((row: { ok: boolean }) => !row.ok), []);
    assertStringIncludes(Deno.readTextFileSync(`${folder}/gpu-check-cpu.md`), "| device | CPU, libtorch ");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a machine without a GPU is skipped in one sentence, or fails where one was promised", async () => {
  // An empty list hides every device from CUDA, so this holds on a machine that has one too.
  const hidden = { CUDA_VISIBLE_DEVICES: "", HPCTRAIN_REQUIRE_GPU: "" };
  const skipped = await gpuCheck(["--quick"], hidden);
  assertEquals([skipped.code, skipped.out], [0, ""]);
  assert(/^gpu-check: skipped: .+\.\n$/.test(skipped.err), skipped.err);
  const failed = await gpuCheck(["--quick"], { ...hidden, HPCTRAIN_REQUIRE_GPU: "1" });
  assertEquals(failed.code, 7);
  assertStringIncludes(failed.err, "gpu-check: failed: ");
});

Deno.test("an unknown flag of the GPU check is a sentence", async () => {
  const { code, err } = await gpuCheck(["--fast", "yes"]);
  assertEquals(code, 2);
  assertStringIncludes(err, "gpu-check does not know --fast yes. Usage: ");
});
