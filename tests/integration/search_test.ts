// `hpctrain sweep --search` from outside: killed and gone on with, with runs that fail, with losers stopped early, and
// looked at by the real optuna-dashboard.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { optunaPython } from "../core/cluster/sweep/optuna_peer.ts";
import { eventsOf, inTemp, run as hpctrain, start, succeed, TINY, until } from "./program.ts";

const MLP = ["--model=mlp", ...TINY, "--no-wandb"];

interface Row {
  readonly run: string;
  readonly state: string;
  readonly metric: number | null;
  readonly values: Record<string, string>;
}

async function rowsIn(cwd: string, verb = "status"): Promise<Row[]> {
  return JSON.parse((await succeed(["sweep", verb, "--json"], { cwd })).stdout).runs;
}

Deno.test("a search that is killed goes on where it was: no run is lost, and none is trained twice", () =>
  inTemp(async (cwd) => {
    const long = ["--train-samples=16384", "--epochs=16", "--save-interval=1000steps"];
    const words = [
      "sweep",
      ...MLP,
      ...long,
      "--lr=1e-4..1e-1",
      "--search=tpe",
      "--max-runs=3",
      "--parallel=2",
      "--local",
    ];
    const first = start(words, { cwd });
    const under = (run: string) => eventsOf(cwd, run).some(({ kind }) => kind === "save");
    await until("two runs have saved", () => under("sweep-000") && under("sweep-001"));
    first.kill("SIGKILL");
    await first.status;
    const before = await rowsIn(cwd);
    assertEquals(before.length, 2);
    const { stdout } = await succeed(words, { cwd });
    assertMatch(stdout, /^Sweep sweep in sweeps\/sweep: [23] of 3 runs not done yet$/m);
    assertMatch(stdout, /^3 runs: 3 done$/m);
    const rows = await rowsIn(cwd);
    assertEquals(rows.map(({ state }) => state), ["done", "done", "done"]);
    assertEquals(rows.slice(0, 2).map(({ values }) => values), before.map(({ values }) => values));
    for (const { run } of rows) {
      const events = eventsOf(cwd, run), steps = events.filter(({ kind }) => kind === "epoch");
      assertEquals(steps.map(({ epoch }) => epoch), Array.from({ length: 16 }, (_, i) => i + 1), run);
      assertEquals(events.filter(({ kind, code }) => kind === "exit" && code === 0).length, 1, run);
    }
    assert(eventsOf(cwd, "sweep-000").some(({ kind }) => kind === "resume"), "it began anew");
    await first.stdout.cancel();
    await first.stderr.cancel();
    assertMatch((await succeed(words, { cwd })).stdout, /0 of 3 runs not done yet/);
    const more = words.map((word) => word === "--max-runs=3" ? "--max-runs=4" : word);
    assertMatch((await succeed(more, { cwd })).stdout, /^\[4\/4\] sweep-003 is done/m);
  }));

Deno.test("runs that fail are counted and shown, and end a search only where all of them do", () =>
  inTemp(async (cwd) => {
    const some = await hpctrain(["sweep", ...MLP, "--search=grid", "--loss=mse,dice", "--local"], {
      cwd,
    });
    assertEquals(some.code, 0, some.stderr);
    assertMatch(some.stdout, /^\[2\/2\] sweep-001 failed with code 2/m);
    assertMatch(some.stdout, /^2 runs: 1 done, 1 failed$/m);
    assertEquals((await rowsIn(cwd)).map(({ state }) => state), ["done", "failed"]);
    const none = await hpctrain(["sweep", ...MLP, "--search=grid", "--loss=dice,spectral", "--local"], {
      cwd,
    });
    assertEquals(none.code, 2);
    assertMatch(none.stdout, /^Sweep sweep-2 in [\s\S]*^2 runs: 2 failed$/m);
  }));

Deno.test("losers are stopped early with a whole checkpoint, and the real optuna-dashboard shows it all", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(
      join(cwd, "search.yaml"),
      "search: grid\nparallel: 1\nfirst_rung: 1ep\nreduce: 2\nspace: {lr: {choice: [1e-2, 1e-7]}}\n",
    );
    const long = ["--train-samples=16384", "--epochs=40"], journal = join(cwd, "sweeps/sweep/optuna.log");
    Deno.mkdirSync(join(cwd, "sweeps/sweep"), { recursive: true });
    Deno.writeTextFileSync(journal, ""); // the dashboard takes a while to start, and reads what comes later
    await using dashboard = startDashboard(journal);
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
    const { study_summaries: [study] } = await dashboard.get("studies");
    assertEquals([study.study_name, study.directions], ["sweep", ["minimize"]]);
    const { trials } = await dashboard.get(`studies/${study.study_id}?after=0`);
    assertEquals(trials.map(({ state }: { state: string }) => state), ["Complete", "Pruned"]);
    assertEquals(trials[0].values, [kept.metric]);
    assertEquals(trials[0].intermediate_values.length, 40);
    assertEquals(trials[1].params[0].param_external_value, "1e-7");
  }));

function startDashboard(journal: string) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 }), { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const program = ["-c", "from optuna_dashboard._cli import main; main()"]; // its script may name a folder it was moved from
  const args = [...program, journal, "--host", "127.0.0.1", "--port", String(port), "--server", "wsgiref"];
  const child = new Deno.Command(optunaPython(), { args, stdout: "null", stderr: "null" }).spawn();
  return {
    // deno-lint-ignore no-explicit-any
    async get(path: string): Promise<any> {
      const response = await asked(`http://127.0.0.1:${port}/api/${path}`);
      assertEquals(response.status, 200, await response.clone().text());
      return await response.json();
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
    },
  };
}

/** Until the server is there. */
async function asked(url: string): Promise<Response> {
  for (let tries = 0;; tries++) {
    try {
      return await fetch(url);
    } catch (error) {
      if (tries > 600) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

Deno.test("what a search lacks is told in a sentence", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "s.yaml"), "space: {lr: {log: [1e-4, 1e-1]}}\n");
    Deno.mkdirSync(join(cwd, "logs/old-000"), { recursive: true });
    Deno.writeTextFileSync(join(cwd, "logs/old-000/events.jsonl"), "");
    const cases = [
      [["statsu"], /"statsu" is no file of a search and no flag\. Did you mean "status"/],
      [["s.yaml", "--lr=1e-4..1e-3", "--search=tpe", "--max-runs=3"], /--lr is in the file's space too/],
      [["s.yaml"], /lr is a range, and a grid has lists/],
      [["--lr=1,2", "--max-runs=3"], /--max-runs belongs to a search/],
      [["--lr=1,2", "--search=tpe", "--max-runs=3", "--random=3"], /--random N is short for a search/],
      [["--lr=1,2", "--search=tpe", "--max-runs=3", "--goal=up"], /--goal should be minimize or maximize/],
      [
        ["--lr=1,2", "--search=tpe", "--max-runs=3", "--local", "--parallel=0"],
        /--parallel should be a whole number/,
      ],
      [
        ["--lr=1,2", "--search=grid", "--layout=task-per-node", "--ntasks-per-node=2"],
        /leave --layout task-per-node out/,
      ],
      [["report", "nowhere"], /nowhere is no sweep/],
      [["s.yaml", "--search=tpe", "--max-runs=3", "--name=old"], /is of another sweep of the name old/],
    ] as const;
    for (const [words, says] of cases) {
      const { code, stderr } = await hpctrain(["sweep", ...words], { cwd });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, says);
    }
  }));
