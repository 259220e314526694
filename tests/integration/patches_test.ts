// Training with patches of maps from outside: from memory, from files and on several ranks the same patches;
// evaluation and predictions of whole maps, as Python blends them.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, succeed } from "./program.ts";
import { numbers, tensors, trained, weightsApart } from "./ranks.ts";

/** Maps of 13 x 22 with land in most of them, and missing pixels. */
const DATA = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(1)
x = r.normal(size=(24, 2, 13, 22)).astype("f4")
y = np.roll(x[:, 0], 1, axis=2) - x[:, 1]
y[:, :10, 7:] = np.nan
y[r.random(y.shape) < 0.1] = np.nan
dims = ("time", "lat", "lon")
xr.Dataset({"a": (dims, x[:, 0]), "b": (dims, x[:, 1]), "y": (dims, y), "land": (dims[1:], np.isnan(y[0]).astype("f4"))},
    coords={"time": np.arange(24), "lat": np.linspace(60, 84, 13), "lon": np.arange(22) * 360 / 22}).to_netcdf("maps.nc")
print("null")
`;

const FLAGS = [
  ...[
    "--normalise=off",
    "--data-path=maps.nc",
    "--features=a,b,land",
    "--targets=y",
    "--model=unet",
    "--width=4",
    "--depth=1",
  ],
  ...[
    "--patch=8x10",
    "--patches-per-sample=2",
    "--padding=longitude",
    "--threads=1",
    "--no-wandb",
    "--epochs=2",
  ],
  ...["--deterministic=world", "--set=training.virtual_shards=4", "--global-batch-size=8", "--batch-size=2"],
  ...["--scheduler=constant", "--lr=1e-2", "--validation-split=0.25", "--set=training.eval_batch_size=2"],
];

/** Python's unet with the run's weights on each patch, and the blend from its definition. */
const PEER = `
import json, os, sys, numpy as np, torch, xarray as xr
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import zoo_models
own = torch.load("checkpoints/r_latest.pt", weights_only=True)
model = zoo_models.unet(channels=3, filters=4, outputs=1, depth=1, padding="replicate")
model.load_state_dict(own["model_state_dict"])
model.eval()
nc, data = xr.open_dataset("p.nc"), xr.open_dataset("maps.nc")
got = {"id": nc.time.values, "prediction": nc.y.values[:, None], "target": nc.y_target.values[:, None]}
x = np.stack([data.a, data.b, np.broadcast_to(data.land, data.a.shape)], 1).astype("f4")[got["id"]]
rows, columns = [0, 5], [0, 6, 11, 17]
bell = lambda n: np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2
weight = bell(8)[:, None] * bell(10)
total, sums = np.zeros((len(x), 1, 13, 22)), np.zeros((13, 22))
for top in rows:
    for left in columns:
        there = np.ix_(np.arange(top, top + 8), np.arange(left, left + 10) % 22)
        with torch.no_grad():
            answer = model(torch.from_numpy(np.ascontiguousarray(x[:, :, there[0], there[1]]))).numpy()
        total[:, :, there[0], there[1]] += answer * weight
        sums[there] += weight
want = total / sums
e = got["target"] - want
there = np.isfinite(got["target"])
print(json.dumps({
    "shape": list(got["prediction"].shape), "worst": float(abs(got["prediction"] - want).max()),
    "mse": float((e[there] ** 2).mean()), "mae": float(abs(e[there]).mean()), "points": int(there.sum()),
    "both": float(abs(np.load("both.npz")["prediction"] - want).max() + np.load("both.npz")["std"].max()),
    "grid": bool((nc.lon.values == data.lon.values).all() and nc.y.shape == (6, 13, 22)),
}))
`;

Deno.test("patches of maps: the same from memory, from files and on 1, 2 and 4 ranks; predictions are whole maps, blended as Python does", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const mpi = openMpi();
    await trained(cwd, "r", 1, FLAGS, { mpi });
    await trained(cwd, "two", 2, [...FLAGS, "--in-memory=no"], { mpi });
    await trained(cwd, "four", 4, FLAGS, { mpi });
    for (const other of ["two", "four"]) {
      assertEquals(numbers(cwd, other), numbers(cwd, "r"), other);
      assertEquals(weightsApart(tensors(cwd, "r"), tensors(cwd, other)), 0, other);
    }
    const steps = eventsOf(cwd, "r").filter(({ kind }) => kind === "step").map(({ loss }) => loss as number);
    assertEquals(steps.length, 2 * Math.ceil(2 * 18 / 8));
    assert(steps.every((loss) => Number.isFinite(loss) && loss > 0), String(steps));

    const checkpoint = "checkpoints/r_latest.pt";
    await succeed(["predict", checkpoint, "--no-mask", "--out=p.nc"], { cwd });
    await succeed(["predict", checkpoint, "checkpoints/two_latest.pt", "--out=both.npz"], { cwd });
    const found = JSON.parse(python(PEER, cwd, new URL("../../examples/python", import.meta.url).pathname));
    assertEquals(found.shape, [6, 1, 13, 22]);
    assert(found.worst < 1e-5 && found.both < 1e-5, `${found.worst} ${found.both}`);
    assert(found.grid);
    const { stdout } = await succeed(["eval", checkpoint, "--json"], { cwd });
    const { val_loss, metrics } = JSON.parse(stdout);
    assertAlmostEquals(val_loss, found.mse, 1e-5);
    assertAlmostEquals(metrics.mae, found.mae, 1e-5);
    const last = eventsOf(cwd, "r").findLast(({ kind }) => kind === "eval");
    assertAlmostEquals(last?.val_loss as number, val_loss, 1e-6);
  }));
