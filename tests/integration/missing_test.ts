// Maps with land and gaps train, validate and predict; the metrics are numpy's of the points that are there,
// on one rank and on two.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, succeed } from "./program.ts";
import { train, trained } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

/** Forty days of sea ice around some land; the satellite missed a swath each day, and all of three days. */
const ICE = `
import sys, numpy as np, netCDF4
r = np.random.default_rng(0)
shape = (40, 16, 16)
land = r.random(shape[1:]) < 0.25
swath = r.random(shape) < 0.2
gone = np.isin(np.arange(40), (0, 5, 20))[:, None, None]
sst, wind = 275 + r.normal(size=shape), r.normal(size=shape)
ice, drift = (sst - 275) / 2 + wind, 10 + 3 * wind
masks = {"sst": np.broadcast_to(land, shape), "wind": land | swath, "ice": land | gone, "drift": land | swath | gone}
with netCDF4.Dataset(sys.argv[1] + "/ice.nc", "w") as d:
    for name, size in (("time", 40), ("y", 16), ("x", 16)): d.createDimension(name, size)
    v = d.createVariable("lat", "f4", ("y",)); v.units = "degrees_north"; v[:] = np.linspace(40, 88, 16)
    v = d.createVariable("area", "f8", ("x", "y"), fill_value=-1.0); v[:] = 1 + np.arange(256).reshape(16, 16) % 7
    for name, values in (("sst", sst), ("wind", wind), ("ice", ice), ("drift", drift)):
        v = d.createVariable(name, "f4", ("time", "y", "x"), fill_value=-9999.0)
        v[:] = np.ma.array(values, mask=masks[name])
`;

const FLAGS = [
  ...["--model=unet", "--set", "model.width=4", "--data-path=ice.nc", "--features=sst,wind"],
  ...[
    "--targets=ice,drift",
    "--normalise=measured",
    "--mask-channel",
    "--epochs=2",
    "--validation-split=0.45",
  ],
  ...[
    "--deterministic=world",
    "--set",
    "training.virtual_shards=4",
    "--global-batch-size=8",
    "--batch-size=2",
  ],
  ...[
    "--set",
    "training.eval_batch_size=4",
    "--no-wandb",
    "--set",
    "data.val_samples=18",
    "--no-normalise-targets",
  ],
];

/** The metrics by numpy, of what predict wrote. */
const JUDGE = `
import sys, json, numpy as np
p = np.load(sys.argv[1] + "/p.npz")
t, o = p["target"].astype("f8"), p["prediction"].astype("f8")
assert np.isnan(t).any() and np.isfinite(o).all() and o.shape == t.shape
def judged(weight):
    each, total, whole = {}, 0, 0
    for k, name in enumerate(("ice", "drift")):
        there = np.isfinite(t[:, k])
        a, b, w = t[:, k][there], o[:, k][there], np.broadcast_to(weight, t[:, k].shape)[there]
        mean = lambda x: (w * x).sum() / w.sum()
        each[name] = dict(r2=1 - mean((b - a) ** 2) / mean((a - mean(a)) ** 2), mae=mean(abs(b - a)),
            rmse=np.sqrt(mean((b - a) ** 2)), bias=mean(b - a))
        total, whole = total + (w * (b - a) ** 2).sum(), whole + w.sum()
    return {**{f"{m}/{n}": v for n, e in each.items() for m, v in e.items()}, "loss": total / whole}
latitude = np.cos(np.deg2rad(np.linspace(40, 88, 16).astype("f4").astype("f8")))[:, None]
print(json.dumps([judged(1), judged(latitude), judged(1 + (np.arange(256).reshape(16, 16) % 7).T)]))
`;

Deno.test("maps with missing points: losses and metrics are numpy's of the points that are there, on 1 and 2 ranks", () =>
  inTemp(async (cwd) => {
    python(ICE, cwd);
    const mpi = openMpi();
    const { code, stdout, stderr } = await train(cwd, "of-1", 1, FLAGS, { mpi });
    assertEquals(code, 0, stderr);
    assertMatch(
      stdout,
      /Missing points: sst 2[\d.]+%, wind [34][\d.]+%, ice [23][\d.]+%, drift [34][\d.]+%;/,
    );
    assertSentence("integration/missing: samples target count", stdout);
    assertSentence("integration/missing: missing inputs filled", stdout);
    const [one] = eventsOf(cwd, "of-1").filter(({ kind }) => kind === "epoch").slice(-1);
    const losses = eventsOf(cwd, "of-1").filter(({ kind }) => kind === "step").map(({ loss }) =>
      loss as number
    );
    assert(losses.every(Number.isFinite) && losses.at(-1)! < losses[0], String(losses));

    const single = [
      ...[
        "--model=unet",
        "--set",
        "model.width=4",
        "--data-path=ice.nc",
        "--features=sst,wind",
        "--targets=ice",
      ],
      ...["--batch-size=1", "--epochs=1", "--val-samples=0", "--no-wandb", "--normalise=off", "--fill=mean"],
    ];
    const alone = await train(cwd, "alone", 1, single, { mpi });
    assertEquals(alone.code, 0, alone.stderr);
    assertMatch(alone.stderr, /Step \d+ has no target that counts: all are missing or of the ignored class/);
    assertSentence("integration/missing: missing inputs filled mean", alone.stdout);
    const steps = eventsOf(cwd, "alone").filter(({ kind }) => kind === "step").map(({ loss }) => loss);
    assertEquals(steps.filter((loss) => loss === 0).length, 3);

    await trained(cwd, "of-2", 2, FLAGS, { mpi });
    const [two] = eventsOf(cwd, "of-2").filter(({ kind }) => kind === "epoch").slice(-1);
    for (const name of ["loss", "val_loss", "metrics", "val_metrics"]) {
      assertEquals(two[name], one[name], name);
    }

    const { stdout: judged } = await succeed(["eval", "checkpoints/of-1_latest.pt"], { cwd });
    assertMatch(judged, /^Val Loss: .* \| Val R2: .* \| Val MAE: /m);
    await succeed(["predict", "checkpoints/of-1_latest.pt", "--out", "p.npz"], { cwd });
    const theirs: Record<string, number>[] = JSON.parse(python(JUDGE, cwd));
    const check = (epoch: Record<string, unknown>, wanted: Record<string, number>) => {
      const ours: Record<string, number> = { ...epoch.val_metrics as object, loss: epoch.val_loss as number };
      for (const [name, value] of Object.entries(wanted)) {
        assertAlmostEquals(ours[name], value, 1e-6 * Math.max(1, Math.abs(value)), name);
      }
    };
    check(one, theirs[0]);
    // A run of no step has the same weights, and judges them with weights of points.
    for (const [k, weight] of ["cos(latitude)", "area"].entries()) {
      const judging = ["eval", "checkpoints/of-1_latest.pt", "--loss-weight", weight, "--json"];
      const { metrics, val_loss } = JSON.parse((await succeed(judging, { cwd })).stdout);
      check({ val_metrics: metrics, val_loss }, theirs[k + 1]);
    }
  }));
