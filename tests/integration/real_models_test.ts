// Models as libraries have them, from export to prediction.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { startPython } from "../real_models/python.ts";
import { type Row, STEPS, tryModel } from "../real_models/trial.ts";
import { join } from "paths";
import { PAGE, pageOf, readResults, SUMMARY, summaryOf, totalsOf } from "../real_models/page.ts";
import { eventsOf, ROOT, run } from "./program.ts";

const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const rows = new Map<string, Row>();
{
  await using python = startPython(["own"], null);
  for (const named of await python.names()) rows.set(named[0], await tryModel(python, named, folder));
}

const SHAPES = {
  series: "samples of [time, features] reach the one input that takes them so",
  tagger:
    "classes of each token, the last of the scores, are learnt from whole numbers of an npz; -100 does not count",
  signal: "classes of each moment, the second of the scores, are learnt as PyTorch's cross_entropy has them",
  quarter: "scores at a quarter of the labels' size are brought to it",
  denoiser: "a loss in the graph that takes no targets needs none in the data",
};

for (const [name, sentence] of Object.entries(SHAPES)) {
  Deno.test(`${sentence}: trained, resumed, checkpointed, in bf16 and predicted beside PyTorch`, () => {
    const { equal, resumed, checkpointed, half, predicted, misses } = rows.get(name)!;
    assertEquals(misses, []);
    assertEquals({ equal, resumed, checkpointed }, { equal: STEPS, resumed: true, checkpointed: true });
    assert(half !== null && predicted !== null);
  });
}

Deno.test("of classes of positions the accuracy counts those that count", async () => {
  const args = [
    "eval",
    "checkpoints/tagger-whole_latest.pt",
    "--validation-split",
    "0.25",
    "--json",
  ];
  const { code, stdout, stderr } = await run(args, { cwd: folder });
  assertEquals(code, 0, stderr);
  assertStringIncludes(stdout, "accuracy");
  assert(eventsOf(folder, "tagger-whole").some(({ kind }) => kind === "epoch"));
});

Deno.test("data without targets is refused where nothing judges without them", async () => {
  for (
    const [model, features, why, ...more] of [
      ["tagger", "input_ids,attention_mask,target", "tagger.pt2 has no loss of its own"],
      ["denoiser", "x", "--loss mse judges by targets", "--loss", "mse"],
    ]
  ) {
    const data = ["--data-path", `${model}.npz`, "--features", features, "--no-wandb"];
    const { code, stderr } = await run(["--model", `${model}.pt2`, ...data, ...more], { cwd: folder });
    assertEquals(code, 3, stderr);
    assertStringIncludes(stderr, why);
  }
});

Deno.test("the pages of real models are the file of their results, and each that does not hold says why", async () => {
  const results = readResults(), { rows, totals } = results;
  assertEquals(totals, totalsOf(rows));
  assertEquals(await Deno.readTextFile(join(ROOT, PAGE)), `${pageOf(results)}\n`);
  const words = (text: string) => text.replaceAll(/\s+/g, " ").replaceAll("\\", "");
  assertStringIncludes(words(await Deno.readTextFile(join(ROOT, SUMMARY))), words(summaryOf(results)));
  for (const { name, equal, resumed, checkpointed, half, predicted, misses } of rows) {
    const held = equal === STEPS && resumed === true && checkpointed === true && half !== null &&
      predicted !== null;
    assert(held || misses.length > 0, `${name} says no reason`);
  }
});
