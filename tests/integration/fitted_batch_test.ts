// --batch-size auto: how many samples a rank takes at once is measured, and the training is the same.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { findStateDict } from "../../core/checkpoint/state_dict.ts";
import { tensorBytes } from "../../core/checkpoint/value.ts";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const RUN = "--data-type synthetic --train-samples 240 --val-samples 20 --threads 1 --device cpu --no-wandb"
  .split(" ");
const CONVNET = [...RUN, "--model=simple-convnet", "--scheduler=constant", "--epochs=2", "--seed=3"];

/** Weights and settings of a run's last checkpoint. */
function saved(cwd: string, name: string): { weights: string; training: Record<string, unknown> } {
  const path = `${cwd}/checkpoints/${name}_latest.pt`;
  using file = openCheckpoint(path);
  const weights = [...findStateDict(file.root, path).tensors].map(([name, t]) =>
    `${name} ${tensorBytes(t).toBase64()}`
  );
  const root = file.root as Map<string, Map<string, Map<string, unknown>>>;
  return { weights: weights.join("\n"), training: Object.fromEntries(root.get("config")!.get("training")!) };
}

const chosen = (stdout: string): number => Number(/^A rank takes (\d+) samples? at once/m.exec(stdout)![1]);

Deno.test("the run is that of the batch it chose, with a preset's samples a step, and goes on with the same bits", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed([...CONVNET, "--preset=cpu", "--batch-size=auto", "--run-name=auto"], {
      cwd,
    });
    const size = chosen(stdout);
    assertMatch(stdout, /at once \(--batch-size auto\): the fastest that fits \(64 make \d+ samples\/s/);
    assertMatch(
      stdout,
      new RegExp(`^Batch: ${size} x 1 rank x ${64 / size} accumulated = 64 samples a step`, "m"),
    );
    const own = saved(cwd, "auto");
    assertEquals([own.training.batch_size, own.training.global_batch_size], [size, 64]);
    const given = async (size: number) => {
      const flags = [
        "--preset=cpu",
        `--batch-size=${size}`,
        "--global-batch-size=64",
        "--eval-batch-size=64",
      ];
      await succeed([...CONVNET, ...flags, `--run-name=given${size}`], { cwd });
      return saved(cwd, `given${size}`).weights;
    };
    assert(await given(size) === own.weights, "measuring left a trace");

    const half = [...CONVNET, "--preset=cpu", "--batch-size=auto", "--run-name=half"];
    const first = await succeed([...half, "--epochs=1"], { cwd });
    const again = await succeed([...half, "--resume=auto"], { cwd });
    assertEquals(chosen(again.stdout), chosen(first.stdout));
    assertMatch(again.stdout, /at once, as this run did before \(--batch-size auto\)$/m);
    assert(saved(cwd, "half").weights === await given(chosen(first.stdout)), "other bits");
  }));

Deno.test("ranks choose one batch for all of them, and their step has the samples of --global-batch-size", () =>
  inTemp(async (cwd) => {
    const flags = [
      ...RUN,
      "--model=mlp",
      "--epochs=1",
      "--batch-size=auto",
      "--global-batch-size=60",
      "--run-name=r",
    ];
    const { code, stdout, stderr } = await launch(cwd, mpich(), ["-n", "2", "--", ...flags]).result;
    assertEquals(code, 0, stderr);
    const size = chosen(stdout);
    assert([30, 15, 8, 4, 2, 1].includes(size), stdout);
    assertMatch(
      stdout,
      new RegExp(`^Batch: ${size} x 2 ranks x ${Math.ceil(30 / size)} accumulated = 60 samples`, "m"),
    );
  }));

Deno.test("batch norms see as many samples as without it, and --deterministic heeds no clock", () =>
  inTemp(async (cwd) => {
    const resnet = [...RUN, "--model=resnet18", "--max-steps=2", "--grad-accum=2"];
    const norms = await succeed([...resnet, "--batch-size=auto", "--run-name=norms"], { cwd });
    assertMatch(
      norms.stdout,
      /^A rank takes 64 samples at once \(--batch-size auto\): batch norms see them together/m,
    );
    assertMatch(norms.stdout, /^Batch: 64 x 1 rank x 2 accumulated = 128 samples a step/m);
    await succeed([...resnet, "--run-name=plain"], { cwd });
    assert(
      saved(cwd, "norms").weights === saved(cwd, "plain").weights,
      "measuring left a trace in batch norms",
    );
    const sure = await succeed([
      ...RUN,
      "--model=mlp",
      "--max-steps=1",
      "--batch-size=auto",
      "--deterministic",
    ], { cwd });
    assertMatch(
      sure.stdout,
      /^A rank takes 64 samples at once \(--batch-size auto\): the most that fit, whatever/m,
    );
    const { stderr } = await run([...RUN, "--model=mlp", "--batch-size=automatic"], { cwd });
    assertSentence("integration/fitted_batch: must whole number", stderr);
  }));
