// `hpctrain sweep --first-rung` from outside.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { rowsIn } from "../../../tests/integration/sweep_rows.ts";
import { eventsOf, inTemp, succeed, TINY } from "../../../tests/integration/program.ts";

const MLP = ["--model=mlp", ...TINY, "--no-wandb"];

Deno.test("losers are stopped early with a whole checkpoint", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(
      join(cwd, "search.yaml"),
      "search: grid\nparallel: 1\nfirst_rung: 1ep\nreduce: 2\nspace: {lr: {choice: [1e-2, 1e-7]}}\n",
    );
    const long = ["--train-samples=16384", "--epochs=40"];
    const { stdout } = await succeed(["sweep", "search.yaml", ...MLP, ...long, "--local"], { cwd });
    assertMatch(stdout, /^\[1\/2\] sweep-000 is done with val_loss /m);
    assertMatch(stdout, /^\[2\/2\] sweep-001 was stopped early with val_loss /m);
    const [kept, stopped] = await rowsIn(cwd);
    assertEquals([kept.state, stopped.state], ["done", "pruned"]);
    const [exit] = eventsOf(cwd, "sweep-001").filter(({ kind }) => kind === "exit");
    assertEquals(exit.code, 75);
    assert(Number(exit.epoch) < 40);
    const evaluated = await succeed(["eval", "checkpoints/sweep-001_latest.pt"], { cwd });
    assertStringIncludes(evaluated.stdout, "Val Loss");
    assertEquals((await rowsIn(cwd, "best"))[0].run, "sweep-000");
    const other = await succeed(["sweep", "best", "--metric=mae", "--json"], { cwd });
    const { metrics } = eventsOf(cwd, "sweep-000").findLast(({ kind, val_loss }) =>
      kind === "eval" && val_loss === kept.metric
    ) as unknown as { metrics: { mae: number } };
    assertEquals(JSON.parse(other.stdout).runs[0].metric, metrics.mae);
    assertMatch((await succeed(["sweep", "report"], { cwd })).stdout, /^sweep\.html \(\d/);
    const page = Deno.readTextFileSync(join(cwd, "sweep.html"));
    assertStringIncludes(page, "checkpoints/sweep-000_best.pt");
    assertEquals([...page.matchAll(/<tr data-run=/g)].length, 2);
  }));
