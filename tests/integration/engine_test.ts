// The JavaScript engine: the address space that it reserves before anything of ours runs, and how it collects garbage.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { EXE, inTemp, ROOT, run, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const GIB_IN_KIB = 2 ** 20;
const limited = (gib: number) => ["bash", "-c", `ulimit -v ${gib * GIB_IN_KIB} && exec "$0" "$@"`];

Deno.test({
  name:
    "within 66 GiB of address space a run trains and every start succeeds; within 30 the engine doesn't start",
  ignore: EXE === null, // deno itself reserves other amounts
  fn: () =>
    inTemp(async (cwd) => {
      const { code, stderr } = await run(TINY, { cwd, through: limited(66) });
      assertEquals(code, 0, stderr);
      for (let start = 0; start < 20; start++) {
        const enough = await run(["--version"], { cwd, through: limited(66) });
        assertEquals(enough.code, 0, enough.stderr);
      }
      // Should an engine ever do with less, then job scripts and the manual ask for too much.
      const less = await run(["--version"], { cwd, through: limited(30) });
      assert(less.code !== 0 && /CagedHeap reservation/.test(less.stderr), less.stderr);
    }),
});

Deno.test("scripts/hpctrain says what is wrong where the address space is limited", async () => {
  const { code, stderr } = await new Deno.Command("bash", {
    args: ["-c", `ulimit -v ${30 * GIB_IN_KIB} && exec "$0" --version`, join(ROOT, "scripts/hpctrain")],
    stderr: "piped",
  }).output();
  assertEquals(code, 7);
  assertSentence("integration/engine: address space limited", new TextDecoder().decode(stderr));
});

// What it prevents happens once in 60 runs that save at every step: `scripts/storm saves` looks for it.
Deno.test({
  name: "the executable marks garbage without tasks, in which an event loop can wait for ever",
  ignore: EXE === null,
  fn: async () => {
    const { stdout } = await new Deno.Command("grep", { args: ["-ao", '"v8_flags":[^]]*]', EXE!] }).output();
    assertMatch(new TextDecoder().decode(stdout), /"--no-incremental-marking-task"/);
  },
});
