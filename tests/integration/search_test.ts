// `hpctrain sweep --search` from outside: killed and gone on with, and with runs that fail.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { rowsIn } from "./sweep_rows.ts";
import { eventsOf, inTemp, run as hpctrain, start, succeed, TINY, until } from "./program.ts";

const MLP = ["--model=mlp", ...TINY, "--no-wandb"];

Deno.test("a search that is killed goes on where it was: no run is lost, and none is trained twice", () =>
  inTemp(async (cwd) => {
    const long = ["--train-samples=16384", "--epochs=16", "--save-interval=1000steps"];
    const words = [
      "sweep",
      ...MLP,
      ...long,
      "--lr=1e-4..1e-1",
      "--search=random",
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

Deno.test("runs that begin at once are different ones, and each is said to begin and to end once", () =>
  inTemp(async (cwd) => {
    const words = [
      "sweep",
      ...MLP,
      "--lr=1e-4..1e-1",
      "--search=random",
      "--max-runs=4",
      "--parallel=4",
      "--local",
    ];
    const { stdout } = await succeed(words, { cwd });
    const of = (said: RegExp) => [...stdout.matchAll(said)].map(([, run]) => run).sort();
    const four = ["sweep-000", "sweep-001", "sweep-002", "sweep-003"];
    assertEquals(of(/^\[\d\/4\] (\S+) begins/gm), four, stdout);
    assertEquals(of(/^\[\d\/4\] (\S+) is done/gm), four, stdout);
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

Deno.test("what a search lacks is told in a sentence", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "s.yaml"), "space: {lr: {log: [1e-4, 1e-1]}}\n");
    Deno.mkdirSync(join(cwd, "logs/old-000"), { recursive: true });
    Deno.writeTextFileSync(join(cwd, "logs/old-000/events.jsonl"), "");
    const cases = [
      [["statsu"], /"statsu" is no file of a search and no flag\. Did you mean "status"/],
      [["s.yaml", "--lr=1e-4..1e-3", "--search=random", "--max-runs=3"], /--lr is in the file's space too/],
      [["s.yaml"], /lr is a range, and a grid has lists/],
      [["--lr=1,2", "--max-runs=3"], /--max-runs belongs to a search/],
      [["--lr=1,2", "--search=random", "--max-runs=3", "--random=3"], /--random N is short for a search/],
      [["--lr=1,2", "--search=random", "--max-runs=3", "--goal=up"], /--goal should be minimize or maximize/],
      [
        ["--lr=1,2", "--search=random", "--max-runs=3", "--local", "--parallel=0"],
        /--parallel should be a whole number/,
      ],
      [
        ["--lr=1,2", "--search=grid", "--layout=task-per-node", "--ntasks-per-node=2"],
        /leave --layout task-per-node out/,
      ],
      [["report", "nowhere"], /nowhere is no sweep/],
      [["s.yaml", "--search=random", "--max-runs=3", "--name=old"], /is of another sweep of the name old/],
    ] as const;
    for (const [words, says] of cases) {
      const { code, stderr } = await hpctrain(["sweep", ...words], { cwd });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, says);
    }
  }));
