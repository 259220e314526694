// `hpctrain runs` from outside: its table in pipes and terminals, its page in a real browser, and its time.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join, toFileUrl } from "paths";
import { childrenSeconds } from "../cpu_time.ts";
import { makeRun } from "../core/run/made_run.ts";
import { CHROMIUM, needsChromium, onPage, type Page, type Size } from "./browser.ts";
import { COMMAND, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";
import { inTerminal, terminalTest } from "./terminal.ts";

const HOSTILE = `<img src=x onerror=alert(1)>"'=1`;

/** Runs of several kinds, some of them broken. */
function makeRuns(folder: string): void {
  const now = Date.now() / 1000;
  makeRun(folder, { name: "unet-a", steps: 100, model: "unet", learningRate: 1e-3, begun: now - 4000 });
  makeRun(folder, {
    name: "unet-b",
    steps: 100,
    model: "unet",
    learningRate: 3e-3,
    begun: now - 3000,
    seed: 2,
  });
  makeRun(folder, { name: "gpt", steps: 50, epochs: 5, exit: 6, begun: now - 2000, learningRate: 1e-4 });
  makeRun(folder, { name: HOSTILE, steps: 20, exit: 75, begun: now - 1000, learningRate: 2e-3 });
  makeRun(folder, { name: "going", steps: 100, exit: null, begun: now - 10, learningRate: 5e-3 });
  Deno.mkdirSync(join(folder, "logs/empty"));
  Deno.writeTextFileSync(join(folder, "unet-a.html"), "<!doctype html><title>the report</title>");
}

Deno.test("runs that were trained are listed, sorted and filtered, as a table, CSV and JSON, and as wide as COLUMNS says", () =>
  inTemp(async (cwd) => {
    const train = [...TINY, "--epochs=1"];
    await succeed([...train, "--run-name=a", "--hidden-size=8", "--lr=1e-3"], { cwd });
    const diverging = ["--run-name=b", "--hidden-size=16", "--lr=1e6", "--optimizer=sgd"];
    const failed = await run([...TINY, ...diverging, "--epochs=50"], { cwd });
    assertEquals(failed.code, 6, failed.stderr);
    const { stdout } = await succeed(["runs"], { cwd });
    assertMatch(stdout, /^run {2}state +best +\S.*started\n/);
    assertMatch(stdout, /^b {4}failed: numerics /m);
    assertMatch(stdout, /^a {4}done +\d\.\d{4}( \(\w+\))? .* 100%|^a {4}done +\d\.\d{4}/m);
    assertMatch(stdout, /\n2 runs, 1 failed, 1 done\nbest: a \(val_loss /);
    const narrow = await succeed(["runs"], { cwd, env: { COLUMNS: "40" } });
    for (const line of narrow.stdout.split("\n")) assert(line.length <= 40, line);

    const csv = await succeed(["runs", cwd, "--csv", "--sort=hidden_size", "--reverse"], { cwd: "/" });
    const [head, ...lines] = csv.stdout.trimEnd().split("\n");
    assertEquals(lines.map((line) => line.split(",")[0]), ["b", "a"]);
    assertStringIncludes(head, "training.optimizer.learning_rate");
    const json = await succeed(["runs", "--json", "--filter", "state=done", "lr<1"], { cwd });
    const { runs: [one, ...others] } = JSON.parse(json.stdout);
    assertEquals([one.run, one.state, others.length], ["a", "done", 0]);
  }));

Deno.test("a best run is named among runs that validated on the same data alone: in runs, reports and sweeps", () =>
  inTemp(async (cwd) => {
    const trains = async (name: string, ...more: string[]) =>
      await succeed([...TINY, "--max-steps=1", `--run-name=${name}`, ...more], { cwd });
    await trains("a");
    await trains("b", "--lr=1e-2", "--train-samples=48", "--batch-size=8");
    assertMatch((await succeed(["runs"], { cwd })).stdout, /\nbest: [ab] \(val_loss /);
    await trains("c", "--val-samples=24");
    await trains("d", "--seed=5");
    const said = /No run is named best, because they were validated on different data: made-up \S+ of seed/;
    assertMatch((await succeed(["runs"], { cwd })).stdout, said);
    await succeed(["report", "a", "c", "--out=compared.html"], { cwd });
    assertMatch(Deno.readTextFileSync(join(cwd, "compared.html")), said);
    const swept = await succeed(["sweep", ...TINY, "--max-steps=1", "--seed=1,2", "--local"], { cwd });
    assertMatch(swept.stdout, said);
    const searching = ["--val-samples=16,24", "--search=grid", "--max-runs=2", "--name=found", "--local"];
    await succeed(["sweep", ...TINY, "--max-steps=1", ...searching], { cwd });
    for (const name of ["sweep", "found"]) {
      const best = await run(["sweep", "best", name], { cwd });
      assertMatch(best.stderr, said);
      assertEquals(best.code, 2);
    }
  }));

Deno.test("a run that its job's script puts back into the queue is requeued, not stopped", () =>
  inTemp(async (cwd) => {
    const child = start([...TINY, "--epochs=1000000", "--run-name=q"], {
      cwd,
      env: { HPCTRAIN_ENDED: join(cwd, "ended") },
    });
    const ended = finish(child);
    await until("steps", () => fileHas(join(cwd, "logs/q/events.jsonl"), '"kind":"epoch"'));
    child.kill("SIGTERM");
    assertEquals((await ended).code, 75);
    assertMatch((await succeed(["runs"], { cwd })).stdout, /^q +requeued /m);
    assertMatch((await succeed(["status", "q"], { cwd })).stdout, /^state +requeued: /m);
  }));

const fileHas = (path: string, text: string): boolean => {
  try {
    return Deno.readTextFileSync(path).includes(text);
  } catch {
    return false;
  }
};

Deno.test("Python reads the CSV and the JSON, and both say the same of each run", () =>
  inTemp(async (cwd) => {
    makeRuns(cwd);
    for (const kind of ["csv", "json"]) {
      Deno.writeTextFileSync(
        join(cwd, `runs.${kind}`),
        (await succeed(["runs", `--${kind}`], { cwd })).stdout,
      );
    }
    const { code, stderr } = await new Deno.Command("python3", { args: ["-c", READ_BACK], cwd }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
  }));

const READ_BACK = `
import csv, json
rows = list(csv.DictReader(open("runs.csv", newline="")))
runs = json.load(open("runs.json"))["runs"]
assert len(rows) == len(runs) == 6, (len(rows), len(runs))
for row, run in zip(rows, runs):
    assert not row["run"].startswith(("=", "+", "-", "@")), row["run"]
    for name, value in {**run, **run["metrics"], **run["settings"]}.items():
        if name in ("metrics", "settings", "seconds_left", "why"): continue # the clock goes on
        assert row[name] == ("" if value is None else str(value)) or float(row[name]) == float(value), (name, row[name], value)
`;

Deno.test("what can't be listed is a sentence", () =>
  inTemp(async (cwd) => {
    const refused = async (args: string[], said: RegExp) => {
      const { code, stderr } = await run(["runs", ...args], { cwd });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, said);
    };
    await refused([], /^hpctrain: There is no folder logs here\. Name the one/);
    Deno.mkdirSync(join(cwd, "logs"));
    await refused([], /^hpctrain: There is no run below logs/);
    makeRuns(cwd);
    await refused(["nowhere"], /nowhere is no folder/);
    await refused(["logs", "more"], /runs takes one folder, but got 2/);
    await refused(["--json", "--csv"], /--json, --csv and --html exclude each other/);
    await refused(["--filter"], /--filter needs NAME=VALUE/);
    await refused(
      ["--filter", "state=done", "logs"],
      /"logs" is no filter\. .*A folder stands before --filter/,
    );
    await refused(["--sort", "loses"], /No run here has a "loses"\. Did you mean "loss"/);
    await refused(["--html", "/proc/runs.html"], /\/proc\/runs\.html can't be written.*--html FILE/);
  }));

terminalTest(
  "in a terminal of 80 columns no line wraps, states have colours, and NO_COLOR takes them away",
  async (cwd) => {
    makeRuns(cwd);
    const runs = COMMAND.map((word) => `'${word}'`).join(" ") + " runs";
    const size = { width: 80, height: 24 };
    await inTerminal(cwd, { command: `env -u NO_COLOR ${runs}`, ...size }, async (terminal) => {
      await terminal.shows("left with 0");
      for (const line of await terminal.printed()) assert(line.length <= 80, line);
      assertStringIncludes((await terminal.screen(true)).join("\n"), "\x1b[31mfailed: numerics");
    });
    await inTerminal(cwd, { command: `NO_COLOR=1 ${runs} --sort best`, ...size }, async (terminal) => {
      await terminal.shows("left with 0");
      const text = (await terminal.screen(true)).join("\n");
      assert(!text.includes("\x1b") && text.includes("failed: numerics"), text);
    });
  },
);

/** The page of the runs above, opened. */
function opened(size: Size, body: (page: Page, cwd: string) => Promise<void>): Promise<void> {
  return inTemp(async (cwd) => {
    makeRuns(cwd);
    await succeed(["runs", "--html"], { cwd });
    assertMatch(Deno.readTextFileSync(join(cwd, "runs.html")), /^<!doctype html>/i);
    await succeed(["runs", "--html", "pages/all.html"], { cwd });
    await onPage(toFileUrl(join(cwd, "pages/all.html")).href, size, async (page) => {
      await body(page, cwd);
      assertEquals(page.errors, []);
      assertEquals(page.requests, []);
    });
  });
}

function browserTest(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `${name}${needsChromium}`, ignore: !CHROMIUM, fn });
}

const SHOWN = `[...document.querySelectorAll("#runs tbody tr")].filter((row) => row.checkVisibility())
  .map((row) => row.cells[0].dataset.value)`;

Deno.test("the page counts only what there is", () =>
  inTemp(async (cwd) => {
    makeRun(cwd, { name: "alone" });
    await succeed(["runs", "--html"], { cwd });
    const page = Deno.readTextFileSync(join(cwd, "runs.html"));
    const [, counters] = /<dl class="headline">(.*?)<\/dl>/s.exec(page)!;
    assertEquals([...counters.matchAll(/<dt>(.*?)<\/dt>/g)].map(([, name]) => name), [
      "best validation loss",
      "done",
      "time of all",
    ]);
  }));

browserTest(
  "short words of settings are whole, however many columns there are",
  () =>
    opened({ width: 760, height: 900 }, async (page) => {
      await page.evaluate(
        `document.querySelectorAll("#runs .setting").forEach((one) => one.textContent = "l2.parquet")`,
      );
      const broken = await page.evaluate<string[]>(`[...document.querySelectorAll("#runs .setting")]
      .filter((one) => one.textContent.length < 20 && /^\\S+$/.test(one.textContent))
      .filter((one) => one.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(one).fontSize))
      .map((one) => one.textContent)`);
      assertEquals(broken, []);
    }),
);

browserTest(
  "the page sorts, filters, links the reports that are there, and takes names for text",
  () =>
    opened({ width: 1400, height: 900 }, async (page, cwd) => {
      const shown = () => page.evaluate<string[]>(SHOWN);
      const click = (name: string) =>
        page.evaluate(`document.querySelector('th[data-name~="${name}"] button').click()`);
      const filter = (text: string) =>
        page.evaluate(`(() => {
        const input = document.getElementById("filter");
        input.value = ${JSON.stringify(text)};
        input.dispatchEvent(new Event("input"));
      })()`);
      assertEquals(await shown(), ["going", HOSTILE, "gpt", "unet-b", "unet-a", "empty"]);
      const text = await page.evaluate<string>(`document.body.innerText`);
      for (
        const said of [
          HOSTILE,
          "failed: numerics",
          "Stopped on request (exit code 75)",
          "events.jsonl is missing",
        ]
      ) {
        assertStringIncludes(text, said);
      }
      await click("lr");
      assertEquals(await shown(), ["gpt", "unet-a", HOSTILE, "unet-b", "going", "empty"]);
      await click("lr");
      assertEquals((await shown())[0], "going");
      assertEquals(
        await page.evaluate(`document.querySelector('th[aria-sort]').getAttribute("aria-sort")`),
        "descending",
      );
      await filter("unet lr>=0.002");
      assertEquals(await shown(), ["unet-b"]);
      assertEquals(await page.evaluate(`document.getElementById("count").textContent`), "1 of 6 shown");
      await filter("state!=done val_loss<10");
      assertEquals((await shown()).sort(), [HOSTILE, "going", "gpt"].sort());
      for (
        const [typed, of] of [
          ["state=finished model=un*", ["unet-a", "unet-b"]],
          ["learning_rate=1e-3", ["unet-a"]],
          ["training.optimizer.learning_rate>=5e-3", ["going"]],
          ["time>6s val_accuracy>0.1 goodput>50%", ["going", "unet-a", "unet-b"]],
          ["started>=2999-01-01", []],
          ["step=20", [HOSTILE]],
          ["nothing=here", []],
        ] as const
      ) {
        await filter(typed);
        assertEquals((await shown()).sort(), [...of].sort(), typed);
      }
      await filter("");
      await page.evaluate(`document.querySelector('.pick input[value="broken"]').click()`);
      assertEquals((await shown()).includes("empty"), false);

      const links = await page.evaluate<string[]>(
        `[...document.querySelectorAll("#runs a")].map((a) => a.href)`,
      );
      assertEquals(links, [toFileUrl(join(cwd, "unet-a.html")).href]);
      assertEquals(
        await page.evaluate(`document.querySelectorAll("#runs td[data-name=report] .faint").length`),
        5,
      );
      assertEquals(await page.evaluate(`document.querySelectorAll("img, iframe, object").length`), 0);
    }),
);

browserTest(
  "on a phone each run is a card, nothing is wider than it, and dark is dark",
  () =>
    opened({ width: 390, height: 844, mobile: true, dark: true }, async (page) => {
      const { wide, display, order, paper } = await page.evaluate<any>(`({
      wide: document.documentElement.scrollWidth,
      display: getComputedStyle(document.querySelector("#runs tbody tr")).display,
      order: getComputedStyle(document.querySelector("#controls .order")).display,
      paper: getComputedStyle(document.body).backgroundColor,
    })`);
      assertEquals([wide, display, order], [390, "grid", "flex"]);
      assert(paper.match(/\d+/g).every((part: string) => Number(part) < 60), paper);
      await page.evaluate(`(() => {
      const order = document.getElementById("order");
      order.value = [...order.options].find(({ text }) => text === "lr, up").value;
      order.dispatchEvent(new Event("change"));
    })()`);
      assertEquals((await page.evaluate<string[]>(SHOWN))[0], "gpt");
    }),
);

Deno.test("1,000 runs are listed in less than two seconds of work, however long they trained", () =>
  inTemp(async (cwd) => {
    const logs = join(cwd, "logs");
    const lineage = join(makeRun(cwd, { name: "r0", steps: 1500, epochs: 10, attempts: 3 }), "lineage.json");
    const story = JSON.parse(Deno.readTextFileSync(lineage));
    story.attempts[1].best = { loss: 0.1, step: 600, epoch: 4 }; // in the middle, where it has to be looked for
    Deno.writeTextFileSync(lineage, JSON.stringify(story));
    assert(
      Deno.statSync(join(logs, "r0/events.jsonl")).size > 400_000,
      "it should be longer than what is read of it",
    );
    for (let i = 1; i < 1000; i++) {
      Deno.mkdirSync(join(logs, `r${i}`));
      for (const name of ["events.jsonl", "lineage.json"]) {
        Deno.linkSync(join(logs, "r0", name), join(logs, `r${i}`, name));
      }
    }
    const before = childrenSeconds();
    const { stdout } = await succeed(["runs", "--sort=best"], { cwd });
    const seconds = childrenSeconds() - before;
    assertMatch(stdout, /\n1000 runs, 1000 done\n/);
    assert(seconds < 2, `${seconds.toFixed(2)} s`);
  }));
