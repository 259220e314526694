// Sums of losses, losses of targets and metrics by name as a run tells them: lines, events and the best checkpoint, on ranks, too.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { openMpi } from "../mpi.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";
import { train, trained } from "./ranks.ts";

type Metrics = Record<string, number>;

const TABLE = Array.from({ length: 96 }, (_, i) => {
  const x = Math.sin(i), y = Math.cos(3 * i);
  return [x, y, x + y * y, x > y ? 1 : 0].join(",");
});

const table = (cwd: string) =>
  Deno.writeTextFileSync(join(cwd, "t.csv"), ["x,y,wind,rain", ...TABLE].join("\n") + "\n");

const of = (cwd: string, name: string) => eventsOf(cwd, name).filter(({ kind }) => kind === "epoch").at(-1)!;

const FLAGS = ["--no-wandb", "--epochs=2", "--batch-size=8", "--validation-split=0.25"];

Deno.test("each target's loss is in the epoch's line and events, adds up to the loss, and can be monitored", () =>
  inTemp(async (cwd) => {
    table(cwd);
    const loss = "wind: huber(0.5), rain: 0.5*bce";
    const flags = [
      "--data-path=t.csv",
      "--targets=wind,rain",
      `--loss=${loss}`,
      "--model=mlp",
      "--run-name=a",
    ];
    const { stdout } = await succeed([...flags, ...FLAGS, "--monitor=loss/rain", "--metrics=pearson"], {
      cwd,
    });
    assertMatch(stdout, /\| loss\/wind: \S+, val \S+ \| loss\/rain: \S+, val \S+ \| pearson: val \S+ \|/);
    assertStringIncludes(stdout, "Best loss/rain:");
    const { loss: total, val_loss: judged, metrics, val_metrics: val } = of(cwd, "a") as unknown as {
      loss: number;
      val_loss: number;
      metrics: Metrics;
      val_metrics: Metrics;
    };
    assertAlmostEquals(total, metrics["loss/wind"] + 0.5 * metrics["loss/rain"], 1e-6);
    assertAlmostEquals(judged, val["loss/wind"] + 0.5 * val["loss/rain"], 1e-6);
    assert(Math.abs(val.pearson) <= 1 && "pearson/wind" in val, JSON.stringify(val));
    const { stdout: again } = await succeed(["eval", "checkpoints/a_latest.pt"], { cwd });
    assertStringIncludes(again, "pearson");
    const { stdout: further } = await succeed(["eval", "checkpoints/a_latest.pt", "--metrics=spearman"], {
      cwd,
    });
    assertMatch(further, /Val spearman: \S+/);
    const { code, stderr } = await run(["eval", "checkpoints/a_latest.pt", "--metrics=kappa"], { cwd });
    assertEquals(code, 2);
    assertStringIncludes(stderr, "explained_variance");
  }));

Deno.test("a sum's terms and metrics are the same on 1 and 2 ranks, and labels that don't count are refused there", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const flags = [
      ...[
        "--model=unet",
        "--set=model.width=4",
        "--set=model.image_size=16",
        "--loss=cross_entropy + 0.5*dice",
      ],
      ...["--train-samples=32", "--val-samples=16", "--metrics=kappa, dice", "--no-wandb", "--epochs=1"],
      ...[
        "--deterministic=world",
        "--set=training.virtual_shards=4",
        "--global-batch-size=16",
        "--batch-size=4",
      ],
    ];
    const { code, stderr } = await train(cwd, "of-1", 1, flags, { mpi });
    assertEquals(code, 0, stderr);
    await trained(cwd, "of-2", 2, flags, { mpi });
    const told = (name: string) => {
      const { metrics, val_metrics } = of(cwd, name) as unknown as { metrics: Metrics; val_metrics: Metrics };
      return { metrics, val_metrics };
    };
    assertEquals(told("of-2"), told("of-1"));
    const { val_metrics: val } = told("of-1");
    for (const key of ["loss/cross_entropy", "loss/dice", "kappa", "dice"]) assert(key in val, key);
    const ignored = [...flags, "--set=training.ignore_index=1"];
    const refused = await train(cwd, "ignored", 2, ignored, { mpi });
    assertEquals(refused.code, 2);
    assertStringIncludes(refused.stderr, "count different items");
  }));

Deno.test("unknown losses, arguments and metrics end with a sentence before the first step", () =>
  inTemp(async (cwd) => {
    table(cwd);
    const begun = ["--data-path=t.csv", "--targets=wind", "--model=mlp", "--dry-run", "--no-wandb"];
    for (
      const [flag, says] of [
        ["--loss=smoth_l1(beta=1)", "smooth_l1"],
        ["--loss=0.5*mse + -1*l1", "above 0"],
        ["--loss=triplet_margin", "--loss graph"],
        ["--loss=nll", "needs classes"],
        ["--metrics=f1", "explained_variance"],
        ["--metrics=perason", "pearson"],
      ]
    ) {
      const { code, stderr } = await run([...begun, flag], { cwd });
      assertEquals(code, 2, `${flag}: ${stderr}`);
      assertStringIncludes(stderr, says);
    }
  }));
