// A forecast from the command line: one split by years for training, resuming and judging, on one rank or two.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { askPeer } from "../peer.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const DATA = ["--data-path=maps.nc", "--features=wind,ice", "--targets=ice", "--history=3", "--lead=1..3"];
const YEARS = ["--validate-on=2002", "--test-on=2003.."];
const MODEL = [
  "--model=mlp",
  "--hidden-size=8",
  "--batch-size=60",
  "--threads=1",
  "--device=cpu",
  "--no-wandb",
];

const lastJson = (stdout: string) => JSON.parse(stdout.trim().split("\n").at(-1)!);

/** Of each start of a run. */
const orders = (cwd: string, run: string): string[] =>
  Deno.readTextFileSync(`${cwd}/logs/${run}/events.jsonl`).trim().split("\n").map((line) => JSON.parse(line))
    .filter(({ kind }) => kind === "run").map(({ sample_orders }) => JSON.stringify(sample_orders));

Deno.test("eval --on test takes the test years of the run, a resumed run has the same split, and two ranks that stream agree with one", () =>
  inTemp(async (cwd) => {
    const { baselines } = await askPeer<
      { baselines: { maps: { persistence: number[]; climatology: number[] } } }
    >("data/windows.py", cwd);
    const train = ["train", ...MODEL, ...DATA, ...YEARS];
    const first = await succeed([...train, "--epochs=2", "--run-name=r"], { cwd });
    assertMatch(
      first.stdout,
      /Split of samples: training 570 \(time 2000-03-16\.\.2001-09-16\), validation \d+ \(time 2002/,
    );
    assertMatch(first.stdout, /No sample crosses a gap in time/);
    const path = "checkpoints/r_latest.pt";

    const test = lastJson((await succeed(["eval", path, "--on", "test", "--json"], { cwd })).stdout);
    assertEquals([test.on, test.samples], ["test", 30 * (14 - 5)]);
    const named = Object.keys(test.metrics).filter((name) => name.startsWith("rmse/"));
    assertEquals(named, ["rmse/ice+1", "rmse/ice+2", "rmse/ice+3"]);
    const { metrics } = test;
    const root = Math.hypot(...[1, 2, 3].map((lead) => metrics[`rmse/ice+${lead}`])) / Math.sqrt(3);
    assertAlmostEquals(metrics.rmse, root, 1e-5, "over all leads, which have as many points each");
    const skill = (lead: number) => metrics[`skill_persistence/ice+${lead}`];
    assertAlmostEquals(skill(1), 1 - metrics["rmse/ice+1"] / baselines.maps.persistence[0], 1e-5);
    const climate = 1 - metrics["rmse/ice+3"] / baselines.maps.climatology[2];
    assertAlmostEquals(metrics["skill_climatology/ice+3"], climate, 1e-5);
    const said = (await succeed(["eval", path, "--on=test"], { cwd })).stdout;
    assertMatch(said, /Test Skill over persistence: 0\.\d+ \| Test Skill over climatology: /);
    const all = await succeed(["predict", path, "--all", "--out=all.csv"], { cwd });
    assertMatch(all.stdout, new RegExp(`of ${570 + 30 + 270} samples`));
    const parts = Deno.readTextFileSync(`${cwd}/all.csv`).trim().split("\n").slice(1).map((line) =>
      line.split(",")[1]
    );
    assertEquals([...new Set(parts)], ["train", "val", "test"]);
    assertMatch(
      (await succeed(["predict", path, "--on=test", "--out=test.nc"], { cwd })).stdout,
      /ice \[forecast_reference_time=9, lead=3, /,
    );
    const changed = await succeed(["eval", path, "--on=test", "--test-on=2001"], { cwd });
    assertSentence("integration/forecast: divided otherwise run", changed.stderr);
    const val = lastJson((await succeed(["eval", path, "--json"], { cwd })).stdout);
    const events = eventsOf(cwd, "r").filter(({ kind }) => kind === "eval");
    assertAlmostEquals(val.val_loss, Number(events.at(-1)!.val_loss), 1e-6);
    assertMatch(
      (await succeed(["eval", path, "--on", "train"], { cwd })).stdout,
      /^Train Loss: .* 570 samples/m,
    );

    await succeed([...train, "--epochs=3", "--resume", path], { cwd });
    const [seen, seenAgain] = orders(cwd, "r");
    assertEquals(seenAgain, seen);
    const other = await run([...train, "--epochs=4", "--resume", path, "--test-on=2004.."], { cwd });
    assertEquals(other.code, 8);
    assertMatch(other.stderr, /data\.test_on 2003\.\. -> 2004\.\./);

    const same = [...train, "--epochs=2", "--deterministic=world", "--global-batch-size=120"];
    await succeed([...same, "--run-name=one"], { cwd });
    await succeed(["launch", "-n", "2", "--", ...same, "--in-memory=no", "--run-name=two"], {
      cwd,
    });
    assertEquals(orders(cwd, "two"), [seen]);
    const losses = ["one", "two"].map((name) =>
      eventsOf(cwd, name).filter(({ kind }) => kind === "eval").map(({ val_loss }) => val_loss)
    );
    assertEquals([losses[0].length, losses[1]], [2, losses[0]]);
  }));

Deno.test("a forecast predicts the steps after the last one, whose targets nobody has", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    await succeed(["train", ...MODEL, ...DATA, "--epochs=1", "--run-name=r"], { cwd });
    Deno.copyFileSync(`${cwd}/maps.nc`, `${cwd}/now.nc`);
    const predict = ["predict", "checkpoints/r_latest.pt", "--data-path=now.nc", "--out=p.csv"];
    assertMatch((await succeed([...predict, "--no-targets"], { cwd })).stdout, /\[1320, 3\]/); // (28 + 16) * 30 points
    const csv = Deno.readTextFileSync(`${cwd}/p.csv`).trim().split("\n");
    assert(csv.at(-1)!.startsWith(`${48 * 30 - 1},`), csv.at(-1));
    const other = ["eval", "checkpoints/r_latest.pt", "--data-path=now.nc", "--on=all", "--json"];
    const all = lastJson((await succeed(other, { cwd })).stdout);
    assertEquals([all.on, all.samples], ["all", (25 + 13) * 30]);
    assertEquals(typeof all.metrics.skill_persistence, "number");
    assertEquals(all.metrics.skill_climatology, undefined); // it would know the years that are judged
    const missing = await run(["eval", "checkpoints/r_latest.pt", "--on=test"], { cwd });
    assertEquals(missing.code, 3);
    assertMatch(missing.stderr, /kept no samples for a test: train with --test-on/);
    const typo = await run(["eval", "checkpoints/r_latest.pt", "--on=tset"], { cwd });
    assertMatch(typo.stderr, /Did you mean "test"/);
  }));

Deno.test("files of their own are validated and tested with, by the checkpoint's word, and predicted on their own grid", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const own = ["--validation-path=years/2001.nc", "--test-path=years/{2003,2004}.nc"];
    const data = ["--data-path=years/2000.nc,years/2002.nc", ...DATA.slice(1)];
    const { stdout } = await succeed(["train", ...MODEL, ...data, ...own, "--epochs=1", "--run-name=r"], {
      cwd,
    });
    assertMatch(stdout, /210 samples of years\/2001.nc to validate with \(--validation-path\)/);
    const path = "checkpoints/r_latest.pt";
    const test = lastJson((await succeed(["eval", path, "--on=test", "--json"], { cwd })).stdout);
    assertEquals([test.on, test.samples], ["test", 30 * (14 - 5)]);
    const predicted = await succeed(["predict", path, "--on=test", "--out=test.nc"], { cwd });
    assertMatch(predicted.stdout, /ice \[forecast_reference_time=9, lead=3, /);
    const whole = ["--data-path=maps.nc", "--validation-split=0.3"]; // a share of it, and not the run's own file
    const others = await succeed(["eval", path, ...whole, "--json"], { cwd });
    assertEquals(lastJson(others.stdout).samples, 30 * (14 - 5));
    const mixed = await run(["predict", path, "--all", "--out=all.nc"], { cwd });
    assertEquals(mixed.code, 2);
    assertSentence("integration/forecast: files their own", mixed.stderr);
  }));
