// --normalise-targets, as a user runs it: training, evaluation, predictions of other data, and going on.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";

const TABLE = `
import sys, numpy as np
r = np.random.default_rng(0)
for name, count in (("a", 400), ("b", 50)):
    x = r.normal(size=(count, 3)).astype("f4")
    np.savez(f"{sys.argv[1]}/{name}.npz", x=x, y=(5e4 + 300 * (x[:, 0] - x[:, 1])).astype("f4"), z=(1e-3 * x[:, 2]).astype("f4"))
`;

const JUDGE = `
import sys, json, numpy as np
p, b = np.load(sys.argv[1] + "/p.npz"), np.load(sys.argv[1] + "/b.npz")
true = np.stack([b["y"], b["z"]], 1).astype("f8")
made = p["prediction"].astype("f8").reshape(true.shape)
print(json.dumps({"rmse": np.sqrt(((made - true) ** 2).mean(0)).tolist(), "mean": made.mean(0).tolist()}))
`;

Deno.test("targets of any size are learnt, and metrics, predictions and a resumed run have their own units", () =>
  inTemp(async (cwd) => {
    python(TABLE, cwd);
    const flags =
      "--data-path a.npz --features x --targets y,z --model mlp --batch-size 32 --epochs 12 --lr 0.01 --no-wandb"
        .split(" ");
    const { stdout } = await succeed([...flags, "--normalise-targets", "--run-name=r"], { cwd });
    assertMatch(
      stdout,
      /Targets are normalised: (49|50)\d\d\d \+- 4\d\d(\.\d)?, \S+ \+- (0\.000\d+|0\.001\d*)/,
    );
    const { val_metrics, metrics } = eventsOf(cwd, "r").filter(({ kind }) => kind === "epoch").at(
      -1,
    )! as unknown as {
      val_metrics: Record<string, number>;
      metrics: Record<string, number>;
    };
    assert(val_metrics["r2/y"] > 0.9 && val_metrics["r2/z"] > 0.9, JSON.stringify(val_metrics));
    assert(val_metrics["rmse/y"] > 1 && val_metrics["rmse/z"] < 1e-3, JSON.stringify(val_metrics));
    assert(metrics.rmse > 1, JSON.stringify(metrics));
    await succeed(["predict", "checkpoints/r_latest.pt", "--data-path=b.npz", "--out=p.npz"], { cwd });
    const { rmse, mean } = JSON.parse(python(JUDGE, cwd));
    const judged = await succeed([
      "eval",
      "checkpoints/r_latest.pt",
      "--data-path=b.npz",
      "--on=all",
      "--json",
    ], { cwd });
    const told = JSON.parse(judged.stdout).metrics;
    assertAlmostEquals(told["rmse/y"], rmse[0], 1e-3 * rmse[0]);
    assertAlmostEquals(told["rmse/z"], rmse[1], 1e-3 * rmse[1]);
    assertAlmostEquals(mean[0], 5e4, 300);
    await succeed(["--resume=checkpoints/r_latest.pt", "--epochs=13"], { cwd });
    const events = eventsOf(cwd, "r").filter(({ kind }) => kind === "epoch");
    assertEquals(events.length, 13);
    assert((events[12].val_metrics as Record<string, number>)["r2/y"] > 0.9);
    const { code, stderr } = await run([
      "--resume=checkpoints/r_latest.pt",
      "--epochs=14",
      "--no-normalise-targets",
    ], { cwd });
    assertEquals(code, 8);
    assertMatch(stderr, /normalise_targets/);
  }));
