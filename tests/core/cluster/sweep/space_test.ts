// A file or flags -> a space and a search; and what each reader refuses.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { readAxes } from "../../../../core/cluster/sweep/axes.ts";
import { goalOf } from "../../../../core/cluster/sweep/metric.ts";
import { PARTS } from "../../../../core/parts.ts";
import { nextWords, searchOf, type SearchWords } from "../../../../core/cluster/sweep/search.ts";
import {
  dimensionValue,
  joinedSpace,
  parseSearchFile,
  readSearchFile,
  spaceOfAxes,
  wordOf,
} from "../../../../core/cluster/sweep/space.ts";
import { assertSentence } from "../../../sentences.ts";

const FILE = `
search: tpe
max_runs: 30
metric: accuracy
space:
  lr: {log: [1e-5, 1e-1]}          # a flag's name
  model.hidden_size: {int: [16, 256], log: true}
  model.dropout: {uniform: [0, 0.5]}
  training.batch_size: {int: [8, 64]}
  optimizer: {choice: [adamw, sgd]}
  tf32: {choice: [true, false]}
`;

Deno.test("a file names settings by flag or path, with ranges and choices, and its options are the flags'", () => {
  const { space, options } = parseSearchFile(FILE, "search.yaml");
  assertEquals(options, { search: "tpe", "max-runs": "30", metric: "accuracy" });
  assertEquals(space.map(({ name, before, kind }) => [name, before, kind]), [
    ["lr", "--set=training.optimizer.learning_rate=", "float"],
    ["model.hidden_size", "--set=model.hidden_size=", "int"],
    ["model.dropout", "--set=model.dropout=", "float"],
    ["training.batch_size", "--set=training.batch_size=", "int"],
    ["optimizer", "--set=training.optimizer.type=", "choice"],
    ["tf32", "--set=training.tf32=", "choice"],
  ]);
  const ends = [0, 0.5, 1 - 2 ** -32].map((u) => space.map((one) => wordOf(one, dimensionValue(one, u))));
  assertEquals(ends, [
    ["1e-5", "16", "0", "8", "adamw", "true"],
    ["0.001", "63", "0.25", "36", "sgd", "false"],
    ["0.1", "256", "0.5", "64", "sgd", "false"],
  ]);
});

Deno.test("flags with several values are a space too, beside that of a file", () => {
  const { axes } = readAxes(["--lr=1e-5..1e-2", "--layers=1..4", "--optimizer=adamw,sgd"], "usage");
  const space = spaceOfAxes(axes);
  assertEquals(space.map((one) => [one.kind, one.kind === "choice" ? one.choices : one.log]), [
    ["float", true],
    ["int", false],
    ["choice", ["adamw", "sgd"]],
  ]);
  const { space: file } = parseSearchFile("space: {lr: {log: [1e-5, 1e-1]}}", "f");
  assertThrows(() => joinedSpace(file, space), UserError, "--lr is in the file's space too");
  assertEquals(joinedSpace(file, space.slice(1)).length, 3);
});

Deno.test("a grid goes through all combinations, and random draws are a function of the seed and their number", async () => {
  const { axes } = readAxes(["--optimizer=adamw,sgd", "--layers=1,2,3"], "usage");
  const grid = searchOf({ search: "grid" }, spaceOfAxes(axes), 0);
  assertEquals(grid.maxRuns, 6);
  const wordsOf = async (...asked: Parameters<typeof nextWords>) => (await nextWords(...asked)).join(" ");
  const all = await Promise.all(Array.from({ length: 6 }, (_, i) => wordsOf(grid, i, [])));
  assertEquals(all, ["adamw 1", "adamw 2", "adamw 3", "sgd 1", "sgd 2", "sgd 3"]);
  const { space } = parseSearchFile(FILE, "f");
  const random = searchOf({ search: "random", "max-runs": "5" }, space, 3);
  assertEquals(await wordsOf(random, 4, []), await wordsOf({ ...random, maxRuns: 50 }, 4, []));
  assert(await wordsOf(random, 4, []) !== await wordsOf({ ...random, seed: 4 }, 4, []));
  assertEquals(random.rungs, null);
});

Deno.test("no run is drawn twice, and a space without fractions has no more runs than points", async () => {
  const { space } = parseSearchFile(
    "space: {layers: {int: [1, 4]}, optimizer: {choice: [adamw, sgd, lamb]}}",
    "f",
  );
  for (const kind of ["random", ...Object.keys(PARTS.searches)]) {
    const search = searchOf({ search: kind, "max-runs": "50" }, space, 3);
    assertEquals(search.maxRuns, 12);
    const tried: { words: string[]; state: "done"; value: number; step: number }[] = [];
    for (let i = 0; i < 12; i++) {
      tried.push({ words: await nextWords(search, i, tried), state: "done", value: i, step: 1 });
    }
    assertEquals(new Set(tried.map(({ words }) => words.join())).size, 12, kind);
  }
});

Deno.test("whether more is better follows from the metric, or is said", () => {
  assertEquals(["val_loss", "mae", "train_loss"].map((name) => goalOf(name)), Array(3).fill("minimize"));
  assertEquals(
    ["accuracy", "val_r2", "train_accuracy"].map((name) => goalOf(name)),
    Array(3).fill("maximize"),
  );
  assertEquals(goalOf("val_loss", "maximize"), "maximize");
  assertThrows(() => goalOf("val_loss", "max"), UserError, "minimize or maximize");
});

Deno.test("what a file or a flag can't mean is refused in a sentence", () => {
  const file = (text: string) => assertThrows(() => parseSearchFile(text, "f.yaml"), UserError).message;
  const lr = (text: string) => file(`space: {lr: ${text}}`);
  for (
    const [said, expected] of [
      [file(""), /^f\.yaml: a search file begins with "space:"/],
      [file("- a"), /begins with "space:"/],
      [file("space: ["), /^f\.yaml:1:9: not readable as YAML/],
      [file("space: 3"), /space should hold settings/],
      [file("space: {}"), /space should hold settings/],
      [file("spaec: {lr: {log: [1, 2]}}"), /unknown key "spaec"\. Did you mean "space"/],
      [file("epochs: 3\nspace: {lr: {log: [1, 2]}}"), /unknown key "epochs"\. It is a setting of the runs/],
      [file("metric: [a]"), /metric should be one word or number/],
      [file("space: {lrr: {log: [1, 2]}}"), /unknown setting "lrr"/],
      [file("space: {run_name: {choice: [a, b]}}"), /each run is named by its values/],
      [file("space: {time: {choice: ['1', '2']}}"), /it is about the job/],
      [
        file("space: {lr: {log: [1e-3, 1e-2]}, training.optimizer.learning_rate: {log: [1e-3, 1e-2]}}"),
        /has training\.optimizer\.learning_rate twice: as lr and as/,
      ],
      [lr("3"), /should be one of \{log: \[LOW, HIGH\]\}/],
      [lr("{}"), /should have one of log, uniform, int, choice, but has 0/],
      [lr("{log: [1e-3, 1e-2], uniform: [0, 1]}"), /but has 2/],
      [lr("{lgo: [1e-3, 1e-2]}"), /unknown key "lgo"\. Did you mean "log"/],
      [
        lr("{log: [1e-3, 1e-2], when: {optimizer: sgd}}"),
        /conditional spaces are not searched: make one search for each/,
      ],
      [file("space: {optimizer: {choice: [{sgd: {lr: 1}}, adamw]}}"), /conditional spaces are not searched/],
      [lr("{log: [1e-3]}"), /should have two numbers/],
      [lr("{log: [1e-3, fast]}"), /should have two numbers/],
      [lr("{log: [1e-2, 1e-3]}"), /from a smaller to a larger/],
      [lr("{log: [0, 1e-3]}"), /a logarithmic range begins above 0/],
      [lr("{uniform: [-1, 1]}"), /space\.lr: .*must be a number/],
      [file("space: {layers: {int: [1.5, 3]}}"), /between whole numbers/],
      [file("space: {layers: {uniform: [1, 2.5]}}"), /between whole numbers/],
      [file("space: {optimizer: {log: [1, 2]}}"), /is no number, so it has no range/],
      [file("space: {optimizer: {choice: [adamw]}}"), /two choices or more/],
      [file("space: {optimizer: {choice: [adamw, adamw]}}"), /the choice adamw twice/],
      [file("space: {optimizer: {choice: [adamw, sgdd]}}"), /space\.optimizer: .*Did you mean "sgd"/],
    ] as const
  ) assertMatch(said, expected);
  assertThrows(() => readSearchFile("/nowhere.yaml"), UserError, "/nowhere.yaml");

  const { space } = parseSearchFile(FILE, "f");
  const search = (words: SearchWords) => assertThrows(() => searchOf(words, space, 0), UserError).message;
  assertSentence("core/cluster/sweep/space: search should grid", search({ search: "randon" }));
  assertMatch(search({ search: "grid" }), /lr is a range, and a grid has lists/);
  assertMatch(search({ search: "random" }), /say how many with --max-runs N/);
  assertMatch(search({ search: "random", "max-runs": "0" }), /--max-runs should be a whole number/);
});
