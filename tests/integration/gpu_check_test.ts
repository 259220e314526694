// The command for a machine with a GPU, rehearsed on the CUDA stand-in.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { onStandin, standin, standinEnv } from "../cuda/standin.ts";
import { inTemp } from "./program.ts";

const script = new URL("../../scripts/gpu-check", import.meta.url).pathname;

async function gpuCheck(args: string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(script, { args, env, stdin: "null" }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

interface Found {
  readonly rows: { name: string; ok: boolean | null; figure: string; detail?: { medians?: object } }[];
  readonly left: string[];
}

const foundIn = (folder: string, device: string): Found =>
  JSON.parse(Deno.readTextFileSync(`${folder}/gpu-check-${device}.json`));

/** What the CUDA stand-in can't show: how long things take, and a device that has failed. */
const UNTOLD = [
  "events time work",
  "a pinned copy runs under a matrix product",
  "a value is read without waiting for what was queued behind it",
  "a collective waits for what computes, and what computes for it, while the host goes on",
  "two ranks by NCCL: all-reduce",
  "a device that fails is a sentence and exit code 7",
];

/** PyTorch's Python with the stand-in's libraries, which it takes for NVIDIA's since they are loaded first. */
function pythonOn(libraries: string, folder: string): string {
  const own = [...Deno.readDirSync(libraries)].filter(({ name, isFile }) => isFile && /\.so\.\d/.test(name));
  const path = join(folder, "python");
  const preload = own.map(({ name }) => join(libraries, name)).join(":");
  Deno.writeTextFileSync(
    path,
    `#!/bin/sh\nLD_PRELOAD=${preload} exec ${Deno.env.get("HPCTRAIN_PYTHON")} "$@"\n`,
  );
  Deno.chmodSync(path, 0o755);
  return path;
}

onStandin(
  "the GPU check's rehearsal passes on the CUDA stand-in, PyTorch's side too",
  () =>
    inTemp(async (folder) => {
      const libraries = await standin();
      const env = { ...standinEnv(libraries), HPCTRAIN_PYTHON: pythonOn(libraries, folder) };
      const { out, err } = await gpuCheck(["--quick", "--out", folder], env);
      const found = foundIn(folder, "cuda-stand-in-no-gpu"), { rows, left } = found;
      assertEquals(left, [], out + err);
      assertEquals(rows.filter(({ name, ok }) => ok === false || ok === null && !UNTOLD.includes(name)), []);
      const beside = rows.find(({ name }) => name.startsWith("step time: MLP"));
      assertEquals(
        Object.keys(beside!.detail!.medians!),
        ["captured", "fast", "plain", "eager", "compile"],
        beside!.figure,
      );
      const page = Deno.readTextFileSync(`${folder}/gpu-check-cuda-stand-in-no-gpu.md`);
      assertMatch(page, /\| MLP .*\| [\d.]+ ms \([\d.]+x\), [\d.]+ GiB \|/);
      assertMatch(page, /thousand tokens a second/);
    }),
);

Deno.test("a GPU check that is cut off goes on, and leaves out what cut it off twice", () =>
  inTemp(async (folder) => {
    const args = ["--device", "cpu", "--quick", "--only", "equals the CPU's", "--out", folder];
    const env = { HPCTRAIN_PYTHON: "no-python" };
    const first = await gpuCheck([...args, "--slice", "0.001"], env);
    assertEquals(first.code, 75, first.out + first.err);
    const { rows: [row, ...none], left, ...about } = foundIn(folder, "cpu");
    assertEquals([row.ok, none.length], [true, 0]);
    const begun = { name: left[0], times: 2 };
    const file = `${folder}/gpu-check-cpu.json`;
    Deno.writeTextFileSync(file, JSON.stringify({ ...about, rows: [row], left, begun }));
    const { code, out, err } = await gpuCheck(args, env);
    assertEquals(code, 1, out + err);
    const found = foundIn(folder, "cpu");
    assertEquals([found.rows.length, found.left.length], [1 + left.length, 0]);
    assertEquals(found.rows[0], row);
    assertEquals(found.rows.filter(({ ok }) => !ok).map(({ name }) => name), [left[0]]);
    const page = Deno.readTextFileSync(`${folder}/gpu-check-cpu.md`);
    assertStringIncludes(page, `| ${left[0]} | 2 runs were cut off in it | NO |`.replaceAll(/ +/g, " "));
  }));

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
