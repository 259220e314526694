// Two processes and one run: they never write one file both.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";
import { assertSentence } from "../sentences.ts";

Deno.test("new runs started at once under one name get a name each", () =>
  inTemp(async (cwd) => {
    const runs = [1, 2, 3].map(() => start([...TINY, "--run-name=r"], { cwd }));
    for (const { code, stderr } of await Promise.all(runs.map((child) => finish(child)))) {
      assertEquals([code, stderr], [0, ""]);
    }
    const files = ["diagnostics.json", "events.jsonl", "lineage.json", "rank-0.log"];
    const logs = ["r", "r-2", "r-3"].flatMap((name) => files.map((file) => `${name}/${file}`));
    const found = filesIn(join(cwd, "logs"));
    assertEquals(found.filter((name) => !name.includes("wandb")), logs.sort());
    assertEquals(found.filter((name) => name.endsWith(".wandb")).length, 3);
    for (const name of ["r", "r-2", "r-3"]) {
      assertEquals(eventsOf(cwd, name).filter(({ kind }) => kind === "run").length, 1, name);
    }
  }));

Deno.test("a run that is under way is not resumed beside itself, and can be once it was killed", () =>
  inTemp(async (cwd) => {
    const args = [...TINY, "--run-name=r", "--epochs=1000000", "--save-interval=1steps", "--resume=auto"];
    const child = start(args, { cwd });
    await until("a save", () => eventsOf(cwd, "r").some(({ kind }) => kind === "save"));
    const { code, stderr } = await run([...args, "--max-steps=1"], { cwd });
    assertEquals(code, 2);
    assertSentence("integration/two_at_once: hpctrain another process", stderr);
    child.kill("SIGKILL");
    await finish(child);
    const { stdout } = await succeed([...args, "--max-steps=1"], { cwd });
    assertMatch(stdout, /Resuming from checkpoints\/r_latest\.pt/);
  }));
