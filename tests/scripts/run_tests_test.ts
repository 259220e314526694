// The test runner on a small tree of its own: what it counts, and that a crash or a skip can't pass for success.

import { assertEquals, assertMatch } from "@std/assert";
import { dirname, fromFileUrl, join } from "paths";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";

const RUNNER = fromFileUrl(new URL("../../scripts/lib/run_tests.ts", import.meta.url));

async function write(folder: string, path: string, text: string): Promise<void> {
  await Deno.mkdir(dirname(join(folder, path)), { recursive: true });
  await Deno.writeTextFile(join(folder, path), text);
}

async function run(folder: string, filter: string[] = [], env: Record<string, string> = {}) {
  await write(folder, "deno.json", '{ "tasks": { "fmt": "true", "lint": "false", "check": "true" } }');
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--no-check", "--quiet", "--no-config", RUNNER, ...filter],
    cwd: folder,
    env: { CI: "", HPCTRAIN_LIBTORCH_OLDEST: "", NO_COLOR: "1", ...env },
  }).output();
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  return { code, last: lines.at(-1), lines };
}

const STEPS = `Deno.test("two", async (t) => { await t.step("part", () => {}); });`;
const passing = (name: string) => `Deno.test("${name}", () => {});\n`;

Deno.test("the last line counts checks, passes, failures and skips, and the exit code follows", () =>
  inTemp(async (folder) => {
    await write(folder, "tests/core/a_test.ts", passing("one") + STEPS);
    await write(folder, "tests/core/b_test.ts", `Deno.test("no", () => { throw new Error("no"); });`);
    await write(folder, "tests/ffi/c_test.ts", `Deno.test({ name: "later", ignore: true }, () => {});`);
    await write(folder, "extensions/d/tests/d_test.ts", passing("of an extension"));
    assertEquals(await run(folder).then(({ code, last }) => [code, last]), [
      1,
      "5 passed, 2 failed, 1 skipped",
    ]);
    const one = await run(folder, ["core/a"]);
    assertEquals([one.code, one.last], [0, "2 passed, 0 failed"]);
    assertMatch(one.lines.join("\n"), /^It took [\d.]+ minutes, and \d+ seconds of processors\.$/m);
    const named = await run(folder, ["two"]);
    assertEquals([named.code, named.last], [0, "1 passed, 0 failed"]);
    const none = await run(folder, ["nothing like it"]);
    assertEquals([none.code, none.last], [1, "0 passed, 0 failed"]);
  }));

Deno.test("a test process that is killed counts as a failure and leaves the other groups their results", () =>
  inTemp(async (folder) => {
    await write(folder, "tests/core/a_test.ts", passing("one"));
    await write(folder, "tests/ffi/b_test.ts", `Deno.test("crash", () => Deno.kill(Deno.pid, "SIGKILL"));`);
    const { code, last, lines } = await run(folder, ["_test.ts"]);
    assertEquals([code, last], [1, "1 passed, 1 failed"]);
    assertMatch(lines.join("\n"), /the test process of ffi, which ended with SIGKILL/);
  }));

Deno.test("with CI=true a skip is a failure, unless it needs a GPU", () =>
  inTemp(async (folder) => {
    const skip = (name: string) => `Deno.test({ name: "${name}", ignore: true }, () => {});\n`;
    await write(folder, "tests/core/a_test.ts", passing("one") + skip("streams overlap (needs a GPU)"));
    const ci = { CI: "true" };
    assertEquals((await run(folder, ["core"], ci)).last, "1 passed, 0 failed, 1 skipped");
    await write(folder, "tests/core/b_test.ts", skip("needs a peer"));
    const both = await run(folder, ["core"], ci);
    assertEquals([both.code, both.last], [1, "1 passed, 1 failed, 1 skipped"]);
  }));

Deno.test("the native tests run once more on the oldest libtorch", () =>
  inTemp(async (folder) => {
    await write(
      folder,
      "tests/ffi/a_test.ts",
      `Deno.test("a", () => console.log(Deno.env.get("HPCTRAIN_LIBTORCH")));`,
    );
    const { last, lines } = await run(folder, ["ffi"], {
      HPCTRAIN_LIBTORCH: "new",
      HPCTRAIN_LIBTORCH_OLDEST: "old",
    });
    assertEquals(last, "2 passed, 0 failed");

    assertEquals(lines.filter((line) => /^(new|old)$/.test(line)).sort(), ["new", "old"]);
  }));

Deno.test("what groups print at the same time stays apart, and each test is told with its group", () =>
  inTemp(async (folder) => {
    const slow = (word: string) =>
      `Deno.test("${word}", async () => {
        for (let i = 0; i < 5; i++) { console.log("${word}"); await new Promise((next) => setTimeout(next, 50)); }
      });`;
    await write(folder, "tests/integration/a_test.ts", slow("aa"));
    await write(folder, "tests/integration/b_test.ts", slow("bb"));
    const { last, lines } = await run(folder, ["_test.ts"]);
    assertEquals(last, "2 passed, 0 failed");
    const said = lines.filter((line) => /^(aa|bb)$|^== /.test(line)).join(" ");
    const a = "== integration/a_test.ts aa aa aa aa aa", b = "== integration/b_test.ts bb bb bb bb bb";
    assertEquals(said, said.startsWith(a) ? `${a} ${b}` : `${b} ${a}`);
  }));

Deno.test("tests find no scheduler of the machine's, and all other programs beside it", () =>
  inTemp(async (folder) => {
    const bin = join(folder, "bin"), calls = join(folder, "calls");
    const program = (name: string) =>
      write(folder, `bin/${name}`, `#!/bin/sh\necho "${name} $*" >>"${calls}"\nexit 1\n`);
    for (const name of ["sbatch", "squeue", "scontrol", "qsub", "qstat", "other"]) await program(name);
    for (const { name } of Deno.readDirSync(bin)) await Deno.chmod(join(bin, name), 0o755);
    const asks = ["sbatch", "squeue", "scontrol", "qsub", "qstat", "other"].map((name) =>
      `Deno.test("${name}", () => { new Deno.Command("${name}", { args: ["ping"] }).outputSync(); });`
    );
    await write(folder, "tests/core/a_test.ts", asks.join("\n"));
    const { last, lines } = await run(folder, ["core/a"], { PATH: `${bin}:${Deno.env.get("PATH")}` });
    assertEquals([last, Deno.readTextFileSync(calls)], ["1 passed, 5 failed", "other ping\n"]);
    assertEquals(lines.filter((line) => /error.*NotFound/.test(line)).length, 5);
  }));
