// A start that fails before its first step uses up no name and leaves no W&B run; a finished run that is started once more is
// no attempt at it.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { lineagePath, readLineage } from "../../core/run/lineage.ts";
import { eventsOf, filesIn, inTemp, run, succeed, TINY } from "./program.ts";

/** Fails in its first forward pass, or not at all. */
const net = (broken: boolean) => `
export default function ({ nn, facts, outputs }) {
  class Net extends nn.Module {
    out = this.child("out", new nn.Linear(facts.input.shape[0], outputs));
    forward(x) {
      ${broken ? 'throw new Error("not finished");' : "return this.out.forward(x);"}
    }
  }
  return new Net();
}`;

const runs = (cwd: string) => [...Deno.readDirSync(join(cwd, "logs"))].map(({ name }) => name).sort();
const wandbRuns = (cwd: string) =>
  runs(cwd).includes("wandb") ? [...Deno.readDirSync(join(cwd, "logs/wandb"))] : [];

Deno.test("a start that fails leaves its name to the next one, and no W&B run; its notes stay until then", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--data-type=synthetic", "--model=net.ts", "--run-name=r", "--loss=mse"];
    Deno.writeTextFileSync(join(cwd, "net.ts"), net(true));
    for (let i = 0; i < 2; i++) {
      const { code, stderr } = await run(flags, { cwd });
      assert(code !== 0, "it should fail");
      assertStringIncludes(stderr, "not finished");
      assertEquals(runs(cwd).filter((name) => name !== "wandb"), ["r"]);
      assertEquals(wandbRuns(cwd), []);
      const exit = eventsOf(cwd, "r").at(-1)!;
      assertEquals([exit.kind, exit.step], ["exit", 0]);
      assertEquals(readLineage(join(cwd, "logs/r"))!.attempts.length, 1);
    }
    Deno.writeTextFileSync(join(cwd, "logs/r/notes.txt"), "mine");
    Deno.writeTextFileSync(join(cwd, "net.ts"), net(false));
    await succeed(flags, { cwd });
    assertEquals(runs(cwd), ["r", "wandb"]);
    assertEquals(wandbRuns(cwd).length, 1);
    const { attempts } = readLineage(join(cwd, "logs/r"))!;
    assertEquals(attempts.map(({ ended }) => ended!.why), ["done"]);
    assertEquals(eventsOf(cwd, "r").filter(({ kind }) => kind === "run").length, 1);
    assertEquals(Deno.readTextFileSync(join(cwd, "logs/r/notes.txt")), "mine");
    await succeed(flags, { cwd });
    assertEquals(runs(cwd), ["r", "r-2", "wandb"], "a run that trained keeps its name");
  }));

Deno.test("a finished run that is started once more trains nothing, counts no attempt and lowers no goodput", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--data-type=synthetic", "--model=mlp", "--run-name=r", "--max-steps=3"];
    await succeed(flags, { cwd });
    const lineage = Deno.readTextFileSync(lineagePath(join(cwd, "logs/r"))),
      files = filesIn(join(cwd, "logs"));
    for (const resume of ["--resume=auto", "--resume=checkpoints/r_latest.pt"]) {
      const { stdout } = await succeed([...flags, resume], { cwd });
      assertMatch(stdout, /^Nothing to do \(the run is finished\) after /m);
      assert(!stdout.includes("Attempt 2") && !stdout.includes("Goodput"), stdout);
      assertEquals(Deno.readTextFileSync(lineagePath(join(cwd, "logs/r"))), lineage);
    }
    assertEquals(filesIn(join(cwd, "logs")), files, "no further W&B file either");
    const { stdout } = await succeed([...flags, "--resume=auto", "--max-steps=6"], { cwd });
    assertStringIncludes(stdout, "Attempt 2 of this run");
    assertEquals(readLineage(join(cwd, "logs/r"))!.attempts.length, 2);
  }));
