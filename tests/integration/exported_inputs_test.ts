// Exported programs that take several columns of a file, and ones that give their own loss, from the command line.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { bits } from "../core/models/exported/training.ts";
import { mpich } from "../mpi.ts";
import { askPeer } from "../peer.ts";
import { run, succeed } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Record<string, string[]> }>("export_judged.py", {
  folder,
  steps: 1,
});

const FLAGS =
  "--data-path fields.npz --batch-size 8 --no-shuffle --validation-split 0 --optimizer sgd --lr 0.01 --set " +
  "training.optimizer.momentum=0.9 --weight-decay 0 --scheduler constant --log-interval 1 --no-wandb --threads 1";

const train = (name: string, run: string, ...more: string[]) =>
  succeed(["--model", `${name}.pt2`, ...FLAGS.split(" "), "--epochs", "2", "--run-name", run, ...more], {
    cwd: folder,
  });

/** The bits of the loss of each step. */
function losses(run: string): string[] {
  const lines = Deno.readTextFileSync(join(folder, "logs", run, "events.jsonl")).trim().split("\n");
  return lines.map((line) => JSON.parse(line)).filter(({ kind }) => kind === "step").map(({ loss }) =>
    bits(loss)
  );
}

Deno.test("images, numbers, classes and masks reach the inputs of their names, with PyTorch's loss bits", async () => {
  const { stdout } = await train("fields", "named");
  assertStringIncludes(stdout, "Inputs: image, tab, kind, mask");
  assertEquals(losses("named"), answers.fields);
});

Deno.test("--inputs says which column goes where, in memory or read a sample at a time", async () => {
  const features = ["--features", "kind,mask,image,tab", "--targets", "y"];
  await train("fields", "asked", ...features, "--inputs", "image=image,tab=tab,kind=kind,mask=mask");
  assertEquals(losses("asked"), answers.fields);
  await train("fields", "streamed", ...features, "--in-memory", "no", "--num-workers", "1");
  assertEquals(losses("streamed"), answers.fields);
});

Deno.test("a loss in the graph trains, goes on, is evaluated and predicts from the command line", async () => {
  const { stdout } = await train("fields_judged", "whole");
  assertSentence("integration/exported_inputs: graph loss own", stdout);
  assertEquals(losses("whole"), answers.fields_judged);
  const begun = [...FLAGS.split(" "), "--model", "fields_judged.pt2", "--run-name", "parts"];
  await succeed([...begun, "--epochs", "1"], { cwd: folder });
  const path = join("checkpoints", "parts_latest.pt");
  await succeed([...begun, "--epochs", "2", "--resume", path], { cwd: folder });
  assertEquals(losses("parts"), answers.fields_judged);
  const held = ["--validation-split", "0.25"];
  assertStringIncludes(
    (await succeed(["eval", path, ...held], { cwd: folder })).stdout,
    "Val Loss",
  );
  await succeed(["predict", path, "--all", "--out", "predicted.npz"], { cwd: folder });
  assert(Deno.statSync(join(folder, "predicted.npz")).size > 0);
});

Deno.test("labels of [samples, 1, height, width] are classes of pixels, whole or floating, for cross_entropy", async () => {
  const flags = FLAGS.split(" ").slice(2);
  for (const data of ["maps", "floating"]) {
    const path = ["--data-path", `${data}.npz`, "--features", "image", "--targets", "label"];
    const start = ["--model", "maps.pt2", ...path, ...flags, "--epochs", "2", "--run-name", data];
    await succeed([...start, "--loss", "cross_entropy"], { cwd: folder });
    assertEquals(losses(data), answers.maps, data);
    await succeed(
      ["predict", join("checkpoints", `${data}_latest.pt`), "--all", "--out", `${data}-told.npz`],
      {
        cwd: folder,
      },
    );
  }
  const path = ["--data-path", "floating.npz", "--features", "image", "--targets", "label"];
  const { code, stderr } = await run(["--model", "maps.pt2", ...path, ...flags], { cwd: folder });
  assertEquals(code, 3);
  assertSentence("integration/exported_inputs: say loss cross_entropy", stderr);
});

Deno.test("predict warns of what it draws, and draws the same for a sample in any batch", async () => {
  const path = ["--data-path", "rows.npz", "--features", "x", ...FLAGS.split(" ").slice(2), "--epochs", "1"];
  const predicted = async (name: string, ...more: string[]) => {
    const out = `${name}-${more.length}.csv`;
    const { stderr } = await succeed(
      ["predict", join("checkpoints", `${name}_latest.pt`), "--all", "--out", out, ...more],
      { cwd: folder },
    );
    const lines = Deno.readTextFileSync(join(folder, out)).trim().split("\n").slice(1);
    return { stderr, rows: lines.map((line) => line.split(",").map(Number)) };
  };
  for (const name of ["vae", "noisy"]) {
    await succeed(["--model", `${name}.pt2`, ...path, "--run-name", name], { cwd: folder });
  }
  const eight = await predicted("vae"), five = await predicted("vae", "--batch-size", "5");
  assertSentence("integration/exported_inputs: vae draws random", eight.stderr);
  const far = eight.rows.flatMap((row, i) => row.map((value, at) => Math.abs(value - five.rows[i][at])));
  assert(far.length > 32 && Math.max(...far) < 1e-5, `${Math.max(...far)}`);
  assertEquals((await predicted("noisy")).stderr.includes("draws random numbers"), false);
});

Deno.test("two ranks have the loss in the graph, and --gradient-checkpointing its bits", async () => {
  await train("fields_judged", "twice", "--gradient-checkpointing");
  assertEquals(losses("twice"), answers.fields_judged);
  const flags = ["--model", "fields_judged.pt2", ...FLAGS.split(" "), "--batch-size", "4", "--epochs", "1"];
  const PATH = `${join(mpich().folder, "bin")}:${Deno.env.get("PATH")}`;
  const { stdout } = await succeed(["launch", "-n", "2", "--", ...flags], { cwd: folder, env: { PATH } });
  assertStringIncludes(stdout, "[Epoch 1/1]");
});

Deno.test("what does not fit is told before training: an input that the data lacks, a change of all columns alike", async () => {
  for (
    const [says, ...flags] of [
      [sentenceNamed("integration/exported_inputs: data lacks input"), "--features", "image,tab,kind"],
      [sentenceNamed("integration/exported_inputs: normalise would change"), "--normalise", "measured"],
      [sentenceNamed("integration/exported_inputs: loss graph takes"), "--loss", "graph"],
    ]
  ) {
    const { code, stderr } = await run(["--model", "fields.pt2", ...FLAGS.split(" "), ...flags], {
      cwd: folder,
    });
    assert(code === 2 || code === 3, `${code}: ${stderr}`);
    assertStringIncludes(stderr, says);
  }
});
