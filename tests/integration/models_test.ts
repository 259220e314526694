// `hpctrain models`: the zoo, one model block by block, and how large a batch fits.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { inTemp, ROOT, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const shown = async (...args: string[]) => JSON.parse((await succeed(["models", ...args, "--json"])).stdout);

Deno.test("the page of models says what the program says, and GPT-2 is what it is", async () => {
  const { models } = await shown();
  assert(models.length >= 10);
  const page = await Deno.readTextFile(`${ROOT}/docs/models.md`);
  const rows = new Map(
    [...page.matchAll(/^\| `([^`]+)` +\| +([\d,]+) +\|/gm)].map(([, name, count]) => [name, count]),
  );
  for (const { name, parameters } of models) {
    assertEquals(rows.get(name), parameters.toLocaleString("en-US"), name);
  }
  const sizes = ["--layers=12", "--heads=12", "--embed=768"];
  const gpt2 = await shown("gpt", ...sizes, "--set=model.vocab_size=50257", "--set=model.context=8");
  assertEquals(gpt2.parameters + (1024 - 8) * 768, 124_439_808); // it has a context of 1024: a row for each position
  assertStringIncludes(page, "124,439,808");
});

Deno.test("a batch that fits is larger on a larger GPU, and none fits where the weights don't", async () => {
  const batch = async (gpu: string) =>
    (await shown("resnet18", "--set=model.image_size=64", "--gpu", gpu)).fit.ways[0].batch;
  const [small, large] = [await batch("8GiB"), await batch("80GiB")];
  assert(small > 0 && large > 10 * small, `${small}, ${large}`);
  assertEquals(await batch("1GB"), 0);
  const { stdout } = await succeed(["models", "mlp", "--gpu=24GB"]);
  assertMatch(stdout, /^block +gives +parameters +FLOPs +memory$/m);
  assertMatch(stdout, /--gradient-checkpointing +batches of up to \d+ +\d+ in captured steps/);
  assertMatch(stdout, /\nThere fp32 products are TF32 \(--no-tf32\)\.\n$/);
  const there = async (name: string) =>
    (await succeed(["models", name, "--gpu=24GB"])).stdout.trimEnd().split("\n").at(-1)!;
  assertMatch(await there("simple-convnet"), /; images lie channels last \(--no-channels-last\)\.$/);
  assertSentence("integration/models: libtorch chooses kernel", await there("vit"));
});

Deno.test("with data its own sizes hold; a user's file and a wrong name are told of", () =>
  inTemp(async (cwd) => {
    const table = Array.from({ length: 20 }, (_, i) => `${i},${i % 3},${i % 5},${i % 7}.5\n`).join("");
    await Deno.writeTextFile(`${cwd}/t.csv`, `a,b,c,y\n${table}`);
    const data = ["--data-path=t.csv", "--features=a,b,c", "--targets=y"];
    const rows = JSON.parse(
      (await succeed(["models", "mlp", "--hidden-size=8", ...data, "--json"], { cwd })).stdout,
    );
    assertEquals([rows.input.shape, rows.parameters], [[3], 3 * 8 + 8 + 8 * 8 + 8 + 8 + 1]);
    const images = await run(["models", "resnet18", ...data], { cwd });
    assertEquals(images.code, 2);
    assertStringIncludes(images.stderr, "the model resnet18 needs images");
    const wrong = await run(["models", "resnet19"], { cwd });
    assertEquals(wrong.code, 2);
    assertStringIncludes(wrong.stderr, "resnet18");
    const size = await run(["models", "mlp", "--gpu=lots"], { cwd });
    assertEquals(size.code, 2);
    assertStringIncludes(size.stderr, "takes a GPU's memory");
    await Deno.writeTextFile(
      `${cwd}/mine.ts`,
      `export default ({ nn, outputs }) => new (class extends nn.Module {
         layer = this.child("layer", new nn.Linear(5, outputs));
         forward(x) { return this.layer.forward(x); }
       })();`,
    );
    const asked = await run(["models", "mine.ts"], { cwd });
    assertEquals(asked.code, 2);
    assertStringIncludes(asked.stderr, "--input-size");
    const mine = await succeed(["models", "mine.ts", "--input-size=5", "--json"], { cwd });
    assertEquals(JSON.parse(mine.stdout).parameters, 6);
    assertEquals(JSON.parse(mine.stdout).flops, 10);
  }));

Deno.test("a kind of data that is named gives the model its sizes", async () => {
  assertEquals((await shown("mlp", "--data-type=fields")).input.shape, [1, 32, 32]);
});
