// Data that can't be used: a sentence, exit code 3, and nothing written.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { gzipSync } from "node:zlib";
import { eventsOf, filesIn, inTemp, run, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const IMAGES = "train-images-idx3-ubyte", LABELS = "train-labels-idx1-ubyte";
const MNIST = [...TINY, "--model=mlp", "--data-type=mnist", "--data-path=digits"];

/** An idx file; `claimed` is what the header says where that is not the truth. */
function idx(dims: number[], value = 0, claimed = dims): Uint8Array {
  const header = new Uint8Array(4 + 4 * dims.length), view = new DataView(header.buffer);
  view.setUint32(0, 0x0800 + dims.length);
  claimed.forEach((size, i) => view.setUint32(4 + 4 * i, size));
  return new Uint8Array([...header, ...new Uint8Array(dims.reduce((a, b) => a * b, 1)).fill(value)]);
}

const GOOD = { [IMAGES]: idx([80, 4, 4]), [LABELS]: idx([80], 3) };

async function refused(
  files: Record<string, Uint8Array | "a folder"> | null,
  says: RegExp,
  { args = MNIST, code: expected = 3 } = {},
): Promise<void> {
  await inTemp(async (cwd) => {
    if (files) Deno.mkdirSync(join(cwd, "digits"));
    for (const [name, content] of Object.entries(files ?? {})) {
      const path = join(cwd, "digits", name);
      if (content === "a folder") Deno.mkdirSync(path);
      else Deno.writeFileSync(path, content);
    }
    const before = filesIn(cwd);
    const { code, stdout, stderr } = await run(args, { cwd });
    assertMatch(stderr, says);
    assertEquals([code, stdout], [expected, ""], stderr);
    assertMatch(stderr, /^hpctrain: [^\n]+[.?]\n$/, "one line, a whole sentence");
    assertEquals(filesIn(cwd), before);
  });
}

const without = (name: string) => Object.fromEntries(Object.entries(GOOD).filter(([key]) => key !== name));
const cases: [name: string, files: Parameters<typeof refused>[0], says: RegExp][] = [
  ["a data path that is missing", null, /No MNIST in digits.*There is no such folder/],
  ["an empty folder", {}, /No MNIST in digits.*The folder is empty/],
  ["a folder of something else", { "notes.txt": idx([1]) }, /Found there: notes\.txt/],
  ["images without labels", without(LABELS), /train-labels-idx1-ubyte is not: put it beside it/],
  ["an empty file", { ...GOOD, [IMAGES]: new Uint8Array() }, /train-images\S+ is empty/],
  [
    "a truncated file",
    { ...GOOD, [IMAGES]: idx([50, 4, 4], 0, [80, 4, 4]) },
    /is truncated: 1296 bytes expected.*816 found/,
  ],
  [
    "a truncated gzip file",
    { [LABELS]: GOOD[LABELS], [`${IMAGES}.gz`]: gzipSync(GOOD[IMAGES]).subarray(0, 30) },
    /damaged or truncated gzip/,
  ],
  [
    "a file of another format",
    { ...GOOD, [IMAGES]: new TextEncoder().encode("PK\x03\x04 a zip, really") },
    /no idx file of images.*a zip file: unpack it/,
  ],
  ["labels of another data set", { ...GOOD, [LABELS]: idx([60], 3) }, /80 images, but .* has 60 labels/],
  [
    "a label out of range",
    { ...GOOD, [LABELS]: idx([80], 12) },
    /label of sample 0 .* is 12, outside 0 to 9/,
  ],
  ["a header that claims far more than there is", {
    ...GOOD,
    [IMAGES]: idx([1, 4, 4], 0, [0xffffffff, 0xffff, 0xffff]),
  }, /is truncated/],
];
for (const [name, files, says] of cases) {
  Deno.test(`${name} ends with a sentence and nothing written`, () => refused(files, says));
}

Deno.test("a file that the system will not read ends with its reason", async () => {
  // Not even root may read this one.
  await inTemp(async (cwd) => {
    Deno.mkdirSync(join(cwd, "digits"));
    Deno.writeFileSync(join(cwd, "digits", LABELS), GOOD[LABELS]);
    Deno.symlinkSync("/proc/self/mem", join(cwd, "digits", IMAGES));
    const { code, stdout, stderr } = await run(MNIST, { cwd });
    assertMatch(stderr, /^hpctrain: .*train-images\S+ can't be read: .*\.\n$/);
    assertEquals([code, stdout], [3, ""], stderr);
  });
});

Deno.test("a data path whose kind can't be told is refused, and so is one that is not there", async () => {
  const args = [...TINY, "--data-path=digits"];
  await refused(
    { "notes.txt": idx([1]) },
    /digits doesn.t say by its name what kind of data it is: files end in .*--data-type/,
    {
      args,
    },
  );
  await refused(null, /There is no digits\. Check data\.data_path \(--data-path\)/, { args });
});

Deno.test("a batch larger than the data is all of it, and the run says so", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await run([...TINY, "--batch-size=500", "--epochs=1"], { cwd });
    assertEquals(code, 0, stderr);
    assertSentence("integration/bad_data: samples step step", stdout);
    assertMatch(stdout, /1 epoch, 1 step\./);
  }));

Deno.test("a loss that stops being a number ends the run with code 6, and the last checkpoint is kept", () =>
  inTemp(async (cwd) => {
    const args = [...TINY, "--run-name=r", "--optimizer=sgd", "--momentum=0", "--save-interval=1steps"];
    const { code, stdout, stderr } = await run([...args, "--lr=1e6", "--scheduler=constant", "--epochs=9"], {
      cwd,
    });
    assertEquals(code, 6, stdout + stderr);
    assertMatch(stderr, /^hpctrain: The loss became (NaN|-?Infinity) at step \d+ \(first tensor/m);
    const [, step] = /at step (\d+)/.exec(stderr)!;
    const [found] = eventsOf(cwd, "r").filter(({ kind }) => kind === "non_finite");
    assertEquals(found.step, Number(step));
    assertMatch(`${found.of} ${found.parameter}`, /^(gradient|weight) \d\.(weight|bias)$/);
    assertEquals(filesIn(join(cwd, "checkpoints")).includes("r_latest.pt"), true);
    assertEquals((await run(["eval", "checkpoints/r_latest.pt"], { cwd })).code, 0);
  }));
