import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { indexPage } from "../../../../core/outputs/runs/index_page.ts";
import { csvCell, csvLines, footLines, runsJson, tableLines } from "../../../../core/outputs/runs/table.ts";
import { terminalWidthOf } from "../../../../core/base/terminal_text.ts";
import { ASCII, COLOURED, PLAIN } from "../watch/views.ts";
import { madeRow } from "./made.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const LR = "training.optimizer.learning_rate";
const rows = [
  madeRow({ run: "one", settings: { [LR]: "0.001" } }),
  madeRow({
    run: "two",
    best: 0.25,
    state: "failed",
    failure: "memory",
    why: "The GPU has no memory left (exit code 4)",
    settings: { [LR]: "0.003" },
  }),
  madeRow({
    run: "broken-one",
    state: "broken",
    why: "events.jsonl is missing: the run ended before it",
    best: null,
    metric: null,
    goodput: null,
    seconds: null,
    started: null,
  }),
];
const shown = { rows, differ: [LR], now: 1_790_003_600 };

Deno.test("the table says how each run stands, with the settings that differ", () => {
  assertEquals(tableLines(shown, Infinity, PLAIN), [
    "run         state           best val_loss     lr     step    time  goodput  started",
    "one         done                   0.5000  0.001  100/100  1m 00s      90%  1 h ago",
    "two         failed: memory         0.2500  0.003  100/100  1m 00s      90%  1 h ago",
    sentenceNamed("core/outputs/runs/table: broken-one broken events"),
  ]);
  assertEquals(footLines(shown, 5, Infinity, PLAIN), [
    "3 of 5 runs, 1 done, 1 failed, 1 broken",
    "best: two (val_loss 0.2500 at epoch 9)",
    "two: The GPU has no memory left (exit code 4)",
  ]);
});

Deno.test("no run is named best among runs that were validated on different data, and it is said", async () => {
  const on = (data: string, id: string) => ({ data, samples: 64, id });
  const apart = [
    madeRow({ run: "one", validation: on("a.npz", "1") }),
    madeRow({ run: "two", best: 0.25, validation: on("b.npz", "2") }),
  ];
  const why = sentenceNamed("core/outputs/runs/table: run named best");
  assertEquals(footLines({ ...shown, rows: apart }, 2, Infinity, PLAIN), ["2 runs, 2 done", why]);
  const page = await indexPage({ ...shown, rows: apart }, { path: "runs.html", all: 2, top: "." });
  assertStringIncludes(page, why);
  assert(!page.includes('class="badge"') && !page.includes('<b class="good">'));
  // One that has no validation loss does not keep the others from being compared.
  const never = madeRow({ run: "never", best: null, metric: null });
  assertMatch(footLines({ ...shown, rows: [apart[0], never] }, 2, Infinity, PLAIN)[1], /^best: one /);
  const split = [apart[0], madeRow({ run: "two", validation: on("a.npz", "3") })];
  assertSentence(
    "core/outputs/runs/table: different data other",
    footLines({ ...shown, rows: split }, 2, Infinity, PLAIN)[1],
  );
});

Deno.test("no line is wider than the terminal, whatever runs are called, and run, state and best stay longest", () => {
  const hostile = [
    ...rows,
    madeRow({ run: "名前".repeat(60), settings: { [LR]: "x".repeat(300) } }),
    madeRow({ run: "a\x1b[2J\x07\u202eb", settings: { [LR]: "\x1b]0;title\x07" } }),
  ];
  for (const width of [1, 7, 20, 40, 60, 80, 100, 132, 250]) {
    for (const style of [PLAIN, COLOURED, ASCII]) {
      const given = { ...shown, rows: hostile };
      for (const line of [...tableLines(given, width, style), ...footLines(given, 5, width, style)]) {
        assert(terminalWidthOf(line) <= width, `${width}: ${JSON.stringify(line)}`);
        // deno-lint-ignore no-control-regex
        assert(!/[\x00-\x1a\x1c-\x1f\u202e]|\x1b(?!\[\d+m)/.test(line), JSON.stringify(line));
        if (!style.colour) assert(!line.includes("\x1b"));
      }
    }
  }
  assertMatch(tableLines(shown, 44, PLAIN)[2], /^two {9}failed: memory {9}0\.2500$/);
  assertStringIncludes(tableLines(shown, 80, COLOURED)[2], "\x1b[31mfailed: memory\x1b[0m");
});

Deno.test("two runs of one name are told apart by their folders", () => {
  const twice = [madeRow({ folder: "a/logs/made" }), madeRow({ folder: "b/logs/made" })];
  const lines = tableLines({ ...shown, rows: twice, differ: [] }, 80, PLAIN);
  assertMatch(lines[1], /^a\/logs\/made /);
  assertMatch(lines[2], /^b\/logs\/made /);
});

Deno.test("CSV and JSON have the same names, and no cell of a CSV is a formula", () => {
  const [head, one] = csvLines(shown).map((line) => line.split(","));
  assertEquals(head.slice(0, 4), ["run", "folder", "state", "why"]);
  assertEquals(head.slice(-2), ["accuracy", LR]);
  assertEquals(one.slice(-2), ["0.9", "0.001"]);
  const { runs, differing } = JSON.parse(
    runsJson({ ...shown, rows: [madeRow({ best: NaN, settings: { [LR]: "1" } })] }),
  );
  assertEquals(differing, [LR]);
  assertEquals(Object.keys(runs[0]).filter((name) => !head.includes(name)), ["metrics", "settings"]);
  assertEquals([runs[0].best, runs[0].settings[LR]], [null, "1"]);

  assertEquals(csvCell("=1+2"), "'=1+2");
  assertEquals(csvCell("@SUM(A1)"), "'@SUM(A1)");
  assertEquals(csvCell("-2+3"), "'-2+3");
  assertEquals(csvCell("-1e-4"), "-1e-4");
  assertEquals(csvCell(-0.5), "-0.5");
  assertEquals(csvCell(NaN), "nan");
  assertEquals(csvCell(null), "");
  assertEquals(csvCell('=HYPERLINK("x","y")'), `"'=HYPERLINK(""x"",""y"")"`);
  assertEquals(csvCell("two\nlines"), '"two\nlines"');
});

Deno.test("numbers that no run can have are no crash", async () => {
  const odd = madeRow({
    started: 1e300,
    seen: -1e300,
    seconds: -5,
    goodput: NaN,
    step: NaN,
    steps: Infinity,
    best: Infinity,
  });
  const given = { ...shown, rows: [odd, madeRow()], differ: [] };
  const lines = [...tableLines(given, 80, PLAIN), ...csvLines(given), ...footLines(given, 2, 80, PLAIN)];
  assertEquals(lines.length, 8);
  assertEquals(JSON.parse(runsJson(given)).runs[0].started, null);
  assertStringIncludes(
    await indexPage(given, { path: "/tmp/runs.html", all: 2, top: "logs" }),
    "<!doctype html>",
  );
});

Deno.test("a training loss is told from a validation loss", () => {
  const mixed = [madeRow({ run: "val" }), madeRow({ run: "train", best: 0.1, metric: "loss" })];
  const text = tableLines({ ...shown, rows: mixed, differ: [] }, 100, PLAIN).join("\n");
  assertStringIncludes(text, "0.1000 (last step)");
  const alone = { ...shown, rows: [mixed[1], madeRow({ run: "b", best: 0.2, metric: "loss" })], differ: [] };
  assertMatch(tableLines(alone, 100, PLAIN)[0], /^run +state +loss, last step /);
  assertMatch(footLines(alone, 2, 100, PLAIN)[1], /^best: train \(training loss, last step: 0\.1000/);
  assertMatch(footLines({ ...shown, rows: mixed }, 2, 100, PLAIN)[1], /^best: val \(val_loss 0\.5000/);
});
