// Records as what the server is to get.
import { assert, assertEquals } from "@std/assert";
import { encodeRecord, recordItems, type WandbRecord } from "../../../../../core/outputs/wandb/records.ts";
import { type Contents, openContents } from "../../../../../core/outputs/wandb/sync/contents.ts";
import { textOfJson } from "../../../../../core/outputs/wandb/sync/json_text.ts";
import { keyed } from "./random_bytes.ts";

const RUN: WandbRecord = { kind: "run", id: "r", startTime: 100.25, config: recordItems({ lr: 1e-3 }) };

function contentsOf(...records: WandbRecord[]): Contents {
  const contents = openContents("hpctrain test");
  records.forEach((record, i) => assert(contents.take(encodeRecord(record, i + 1).slice())));
  contents.end();
  return contents;
}

const row = (values: Record<string, unknown>): WandbRecord => ({
  kind: "history",
  items: recordItems(values),
  step: 0,
});

const stepsOf = ({ history }: Contents): number[] => history.rows.map(({ step }) => step);

Deno.test("steps rise: one that is not above the last becomes the next, and one that is missing too", () => {
  const contents = contentsOf(
    RUN,
    row({ _step: 0 }),
    row({ _step: 0 }),
    row({ _step: 5 }),
    row({ _step: 3 }),
    row({ x: 1 }),
  );
  assertEquals(stepsOf(contents), [0, 1, 5, 6, 7]);
  assertEquals(contents.steps, { first: 0, last: 7 });
  assertEquals(contents.summary.get("_step"), "7");
});

Deno.test("steps begin where the run's record or the server says", () => {
  assertEquals(stepsOf(contentsOf({ ...RUN, startingStep: 10 } as WandbRecord, row({ _step: 2 }))), [10]);
  const contents = openContents("");
  contents.take(encodeRecord(RUN, 1).slice());
  contents.startAt(7);
  contents.take(encodeRecord(row({ _step: 1 }), 2).slice());
  assertEquals(stepsOf(contents), [7]);
});

Deno.test("values pass as they were written: NaN, infinities, 64 bits, names with dots, slashes and emoji", () => {
  const items = [
    { key: ["nan"], json: "NaN" },
    { key: ["inf"], json: "-Infinity" },
    { key: ["big"], json: "9007199254740993" },
    { key: ["a.b/c 🙂"], json: '"x"' },
    { key: ["n".repeat(10_000)], json: "1" },
    { key: ["deep", "er"], json: '{"x":2}' },
  ];
  const { history: { rows: [{ text }] } } = contentsOf(RUN, { kind: "history", items, step: 0 });
  assertEquals(
    text,
    `{"nan":NaN,"inf":-Infinity,"big":9007199254740993,"a.b/c 🙂":"x","${"n".repeat(10_000)}":1,` +
      `"deep":{"er":{"x":2}},"_step":0}`,
  );
});

Deno.test("a value that is no JSON is left out and counted, the rest of its row stays", () => {
  const items = [{ key: ["bad"], json: "{" }, { key: ["good"], json: "1" }];
  const contents = contentsOf(RUN, { kind: "history", items, step: 0 });
  assertEquals(contents.history.rows[0].text, '{"good":1,"_step":0}');
  assertEquals(contents.counts.unreadable, 1);
});

Deno.test("the summary has the last values, without those that were removed or are null", () => {
  const contents = contentsOf(
    RUN,
    { kind: "summary", update: recordItems({ a: 1, b: 2, c: 3 }) },
    { kind: "summary", update: recordItems({ b: { x: 1 }, c: null }), remove: [{ key: ["a"], json: "" }] },
  );
  assertEquals(textOfJson(contents.summary), '{"b":{"x":1}}');
});

Deno.test("samples of the machine get their prefix, and their time since the run began", () => {
  const { events } = contentsOf(RUN, {
    kind: "stats",
    t: 102.75,
    items: recordItems({ cpu: 12.5, "gpu.0.temp": 60 }),
  });
  assertEquals(events.texts, [
    '{"_wandb":true,"_timestamp":102.75,"_runtime":2.5,"system.cpu":12.5,"system.gpu.0.temp":60}',
  ]);
});

Deno.test("what comes before the run's record or after the exit's is dropped, as W&B drops it", () => {
  const exit: WandbRecord = { kind: "exit", code: 4, runtime: 1 };
  const contents = contentsOf(row({ _step: 0 }), RUN, row({ _step: 1 }), exit, row({ _step: 2 }));
  assertEquals(stepsOf(contents), [1]);
  assertEquals(contents.exit?.code, 4);
});

Deno.test("output gets its time and is marked as an error's where it is one", () => {
  const { output, printed } = contentsOf(
    RUN,
    { kind: "output", stream: "stdout", t: 1_700_000_000.25, text: "one\ntw" },
    { kind: "output", stream: "stderr", t: 1_700_000_001, text: "bad\n" },
  );
  assertEquals(output.texts, [
    "2023-11-14T22:13:20.250000 one",
    "2023-11-14T22:13:20.250000 tw",
    "ERROR 2023-11-14T22:13:21.000000 bad",
  ]);
  assertEquals(printed, ["one", "tw", "bad"]);
});

Deno.test("a configuration is never without what tells W&B that the run has begun", () => {
  const own = contentsOf(RUN).fullConfig().get("_wandb");
  assertEquals(textOfJson(own!), '{"t":{"12":"hpctrain test"},"m":[]}');
});

Deno.test("records with any bytes in them are read or refused, and nothing else", () => {
  for (let seed = 0; seed < 3000; seed++) {
    const contents = openContents("");
    contents.take(encodeRecord(RUN, 1).slice());
    const sound = encodeRecord(
      seed % 3 === 0
        ? row({ _step: 1, loss: 0.5 })
        : seed % 3 === 1
        ? { kind: "stats", t: 5, items: recordItems({ cpu: 1 }) }
        : { kind: "environment", host: "h", args: ["a"], memoryBytes: 5, slurm: { a: "b" }, startedAt: 3.5 },
      2,
    ).slice();
    const random = keyed(seed);
    for (let times = 0; times < 3; times++) sound[random(sound.length)] = random(256);
    contents.take(sound);
    contents.take(Uint8Array.from({ length: random(60) }, () => random(256)));
    contents.end();
    contents.fullConfig();
    contents.metadata();
  }
});
