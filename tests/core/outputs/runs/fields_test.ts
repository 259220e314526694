import { assertEquals, assertThrows } from "@std/assert";
import { differing, filtered, shortNames, sorted } from "../../../../core/outputs/runs/fields.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { madeRow } from "./made.ts";
import { sentenceNamed } from "../../../sentences.ts";

const LR = "training.optimizer.learning_rate";
const settings = (lr: string, name = "gpt") => ({
  [LR]: lr,
  "model.name": name,
  "training.optimizer.type": "adamw",
  "training.scheduler.type": "cosine",
  "output.run_name": lr,
});
const ROWS = [
  madeRow({ run: "r-2", best: 0.3, started: 300, seconds: 50, settings: settings("0.001") }),
  madeRow({
    run: "r-10",
    best: 0.2,
    started: 100,
    seconds: 5000,
    settings: settings("3e-4", "unet"),
    model: "unet",
  }),
  madeRow({ run: "bad", state: "failed", best: NaN, started: 200, goodput: 12, settings: settings("0.01") }),
  madeRow({
    run: "new",
    state: "running",
    best: 1.5,
    metric: "loss",
    started: 400,
    metrics: {},
    settings: settings("0.001"),
  }),
  madeRow({
    run: "none",
    state: "broken",
    best: null,
    metric: null,
    started: null,
    seconds: null,
    metrics: {},
    model: null,
  }),
];
const named = (filters: string[]) => filtered(ROWS, filters).map(({ run }) => run);
const order = (word: string, reverse = false) => sorted(ROWS, word, reverse).map(({ run }) => run);

Deno.test("filters compare state, best value, settings and metrics, and all of them must be true", () => {
  assertEquals(named(["state=failed"]), ["bad"]);
  assertEquals(named(["state=finished"]), ["r-2", "r-10"]);
  assertEquals(named(["state!=done"]), ["bad", "new", "none"]);
  assertEquals(named(["val_loss<0.3"]), ["r-10"]);
  assertEquals(named(["val_loss<=0.3", "model=gpt"]), ["r-2"]);
  assertEquals(named(["best>1"]), ["new"]);
  assertEquals(named(["loss>1"]), ["new"]);
  assertEquals(named(["run=R-*"]), ["r-2", "r-10"]);
  assertEquals(named(["accuracy>=0.9"]), ["r-2", "r-10", "bad"]);
  assertEquals(named(["val_accuracy>=0.9", "time>1h"]), ["r-10"]);
  assertEquals(named(["goodput<50%"]), ["bad"]);
  assertEquals(named(["started>=1970-01-01"]).length, 4);
  assertEquals(named([]).length, 5);
});

Deno.test("a setting is named by its path, its end or its flag, and numbers are equal as numbers", () => {
  for (const word of [LR, "learning_rate", "lr", "learning-rate"]) {
    assertEquals(named([`${word}=1e-3`]), ["r-2", "new"], word);
    assertEquals(named([`${word}>0.0005`, "state!=running"]), ["r-2", "bad"], word);
  }
  assertEquals(named(["model.name=un*"]), ["r-10"]);
});

Deno.test("a filter that means nothing is a sentence with what would", () => {
  const refused = (filter: string, said: string) => assertThrows(() => named([filter]), UserError, said);
  refused("logs", "is no filter. Write NAME=VALUE");
  refused("sate=done", 'No run here has a "sate". Did you mean "state"?');
  refused("type=adamw", sentenceNamed("core/outputs/runs/fields: type may training"));
  refused("val_loss<good", "good can't be compared with val_loss");
  refused("time>2ep", "2ep can't be compared with time");
  refused("best=", "nothing can't be compared with best");
});

Deno.test("runs sort by best, start, state, a setting and their name; those without a value stay last", () => {
  assertEquals(order("best"), ["r-10", "r-2", "new", "bad", "none"]);
  assertEquals(order("best", true), ["new", "r-2", "r-10", "bad", "none"]);
  assertEquals(order("started"), ["new", "r-2", "bad", "r-10", "none"]);
  assertEquals(order("state"), ["new", "bad", "none", "r-2", "r-10"]);
  assertEquals(order("lr"), ["r-10", "new", "r-2", "bad", "none"]);
  assertEquals(order("run"), ["bad", "new", "none", "r-2", "r-10"]);
  assertEquals(order("time", true), ["r-10", "bad", "new", "r-2", "none"]);
  assertThrows(() => order("bets"), UserError, 'Did you mean "best"?');
  const judged = [0.7, 0.9, 0.8].map((best) =>
    madeRow({ run: String(best), best, metric: "val_r2", mode: "max" })
  );
  assertEquals(sorted(judged, "best", false).map(({ run }) => run), ["0.9", "0.8", "0.7"]);
});

Deno.test("settings that differ come in the order of how much they do, without those that always do", () => {
  assertEquals(differing(ROWS), [LR, "model.name"]);
  assertEquals(differing(ROWS.slice(0, 1)), []);
  assertEquals([...shortNames([LR, "model.name", "a.type", "b.type"]).values()], [
    "lr",
    "model",
    "a.type",
    "b.type",
  ]);
});
