// A result leaves by `predict` and `export`: what the model was trained on comes from its checkpoint, and not from the data.
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { askPeer } from "../peer.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

const QUICK = ["--device=cpu", "--threads=1", "--no-wandb", "--epochs=1", "--run-name=r"];
const FROM = "checkpoints/r_latest.pt";

/** A table whose target is far from zero, the same in another order, and the same without the target. */
const TABLE = `
import os, sys, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
a, b = r.normal(size=(2, 64))
rows = np.stack([a, b, 3 * a - b + 50], 1)
write = lambda path, names, columns: np.savetxt(path, rows[:, columns], delimiter=",", header=names, comments="", fmt="%.6f")
write("table.csv", "a,b,c", [0, 1, 2]); write("turned.csv", "c,b,a", [2, 1, 0]); write("new.csv", "b,a", [1, 0])
`;

/** The program's own answers to the features, beside the predictions of each file. */
const ANSWERS = `
import os, sys, json, torch, numpy as np
os.chdir(sys.argv[1])
x = torch.from_numpy(np.loadtxt("table.csv", delimiter=",", skiprows=1)[:, :2].astype("f4"))
own = torch.export.load("r.pt2").module()(x).detach().numpy()
print(json.dumps([float(abs(np.load(p)["prediction"] - own).max()) for p in ("table.npz", "turned.npz", "new.npz")]))
`;

Deno.test("a table trained without naming its columns is exported without its data, and predicted by its columns' names", () =>
  inTemp(async (cwd) => {
    python(TABLE, cwd);
    await succeed([...QUICK, "--data-path=table.csv", "--hidden-size=8", "--batch-size=16"], { cwd });
    await succeed(["predict", FROM, "--all", "--out=table.npz"], { cwd });
    for (const name of ["turned", "new"]) {
      const data = [`--data-path=${name}.csv`, "--no-targets", `--out=${name}.npz`];
      await succeed(["predict", FROM, ...data], { cwd });
    }
    const judged = await succeed(["eval", FROM, "--data-path=turned.csv", "--on=all", "--json"], { cwd });
    assertEquals(JSON.parse(judged.stdout).samples, 64);
    Deno.renameSync(join(cwd, "table.csv"), join(cwd, "gone.csv"));
    const said = await succeed(["export", FROM, "r.pt2"], { cwd });
    assertStringIncludes(said.stdout, "Wrote mlp: 2-8-8-1");
    Deno.renameSync(join(cwd, "gone.csv"), join(cwd, "table.csv"));
    for (const apart of JSON.parse(python(ANSWERS, cwd))) assertEquals(apart < 1e-5, true, `${apart}`);
    const lost = await run(["export", FROM, "other.pt2", "--data-path=gone.csv"], { cwd });
    assertEquals(lost.code, 3); // whoever names data wants a model for it
  }));

const SAME_NUMBERS = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
told, untold = np.load("told.npz"), np.load("untold.npz")
assert sorted(untold.files) == ["id", "prediction", "std"], untold.files
at = np.searchsorted(untold["id"], told["id"])
assert (untold["id"][at] == told["id"]).all() and len(untold["id"]) > len(told["id"])
print(json.dumps([float(abs(untold["prediction"][at] - told["prediction"]).max()), float(told["prediction"].mean())]))
`;

Deno.test("a forecast of several leads with normalised targets goes on where nobody has the targets, in their own units, and is exported", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    python(
      `import sys, netCDF4
with netCDF4.Dataset(sys.argv[1] + "/maps.nc", "a") as d: d["ice"][:] = 3 * d["ice"][:] + 200`,
      cwd,
    );
    const data = [
      "--data-path=maps.nc",
      "--features=wind,ice",
      "--targets=ice",
      "--history=2",
      "--lead=1..3",
    ];
    const model = ["--model=unet", "--depth=1", "--width=4", "--normalise=measured", "--batch-size=8"];
    await succeed([...QUICK, ...data, ...model, "--normalise-targets", "--loss=gaussian_nll"], { cwd });
    Deno.copyFileSync(join(cwd, "maps.nc"), join(cwd, "now.nc"));
    const predict = ["predict", FROM, "--data-path=now.nc", "--threads=1"];
    await succeed([...predict, "--out=told.npz"], { cwd });
    await succeed([...predict, "--no-targets", "--out=untold.npz"], { cwd });
    const [apart, mean] = JSON.parse(python(SAME_NUMBERS, cwd));
    assertEquals([apart < 1e-2, Math.abs(mean - 200) < 30], [true, true], `${apart} ${mean}`);
    const wrong = await run([
      ...[...predict, "--no-targets", "--out=wrong.npz"],
      ...["--set", "data.target_mean=1,2", "--set", "data.target_std=1,2"],
    ], { cwd });
    assertEquals(wrong.code, 2);
    assertSentence("integration/leaving: data target_mean data", wrong.stderr);
    assertStringIncludes((await succeed(["export", FROM, "r.pt2"], { cwd })).stdout, "unet");
  }));

Deno.test("what a checkpoint says of a rollout, of patches and of texts makes the same program as its data does", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const maps = ["--data-path=maps.nc", "--features=wind,ice", "--targets=ice", "--batch-size=8"];
    const unet = ["--model=unet", "--depth=1", "--width=4", "--normalise=measured"];
    Deno.writeTextFileSync(join(cwd, "text.txt"), "to be or not to be, that is the question. ".repeat(60));
    const cases = {
      rollout: [...maps, ...unet.slice(0, 3), "--lead=1", "--rollout=2", "--history=2"],
      patches: [...maps, ...unet, "--patch=4x4", "--lead=1", "--padding=circular"],
      text: [
        "--data-path=text.txt",
        "--model=gpt",
        "--layers=1",
        "--width=16",
        "--heads=2",
        "--context=16",
        "--batch-size=4",
      ],
    };
    for (const [name, flags] of Object.entries(cases)) {
      await succeed([...QUICK, ...flags, "--max-steps=1", `--run-name=${name}`], { cwd });
      const from = `checkpoints/${name}_latest.pt`, path = flags[0];
      await succeed(["export", from, `${name}-data.pt2`, path], { cwd });
      const file = path.split("=")[1];
      Deno.renameSync(join(cwd, file), join(cwd, `gone-${file}`));
      await succeed(["export", from, `${name}.pt2`], { cwd });
      Deno.renameSync(join(cwd, `gone-${file}`), join(cwd, file));
      const [own, withData] = [`${name}.pt2`, `${name}-data.pt2`].map((one) =>
        Deno.readFileSync(join(cwd, one))
      );
      assertEquals(
        own.length > 1000 && own.length === withData.length,
        true,
        `${name}: ${own.length}, ${withData.length}`,
      );
      assertEquals(own.every((byte, i) => byte === withData[i]), true, name);
    }
  }));

const GROUPS = `
import xarray as xr
a = r.normal(size=(12, 8, 6)).astype("f2")
fields = xr.Dataset({"a": (("time", "y", "x"), a, {"units": "K"}), "b": (("time", "y", "x"), (2 * a).astype("f2"), {"units": "m"})},
    coords={"time": np.arange("2000-01-01", "2000-01-13", dtype="M8[D]"), "y": ("y", np.arange(8.0) * 10, {"units": "km"})})
for version in (2, 3):
    # The columns of the map are those of the group around the fields.
    xr.Dataset(coords={"x": ("x", np.arange(6.0) * 10, {"units": "km"})}).to_zarr(f"v{version}.zarr", group="era5", zarr_format=version)
    fields.to_zarr(f"v{version}.zarr", group="era5/daily", zarr_format=version)
`;

const GROUPS_LOOK = `
import xarray as xr
for version in (2, 3):
    own = xr.open_zarr(f"v{version}.zarr", group="era5/daily").assign_coords(x=xr.open_zarr(f"v{version}.zarr", group="era5").x)
    got = xr.open_dataset(f"v{version}.nc")
    assert got.b.dims == ("time", "y", "x") and "id" not in got
    for name in ("time", "y", "x"): xr.testing.assert_identical(got[name].load(), own[name].load())
    xr.testing.assert_allclose(got.b_target.load(), own.b.astype("f4").load())
`;

Deno.test("predictions from a group of a Zarr store have the group's coordinates, and halves are shown as such", () =>
  inTemp(async (cwd) => {
    writtenBy(cwd, GROUPS);
    for (const version of ["v2", "v3"]) {
      const data = [`--data-path=${version}.zarr`, "--features=era5/daily/a", "--targets=era5/daily/b"];
      const model = ["--model=unet", "--depth=1", "--width=2", "--batch-size=4", `--run-name=${version}`];
      await succeed([...QUICK, ...data, ...model], { cwd });
      await succeed(["predict", `checkpoints/${version}_latest.pt`, "--all", `--out=${version}.nc`], { cwd });
      const { stdout } = await succeed(["inspect", `${version}.zarr`, "--json"], { cwd });
      const fields: { name: string; dtype: string }[] = JSON.parse(stdout).fields;
      const types = fields.map(({ name, dtype }) => `${name}: ${dtype}`);
      assertEquals(types.filter((text) => /[ab]:/.test(text)), ["era5/daily/a: f16", "era5/daily/b: f16"]);
    }
    writtenBy(cwd, GROUPS_LOOK);
  }));

Deno.test("data other than the training's is judged whole, whatever the run's own split, and what it can't be compared with is said", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const data = ["--data-path=maps.nc", "--features=wind,ice", "--targets=ice", "--lead=1,2"];
    const model = ["--model=unet", "--depth=1", "--width=2", "--batch-size=8"];
    await succeed([...QUICK, ...data, ...model, "--validate-on=2002"], { cwd });
    const next = ["eval", FROM, "--data-path=years/2003.nc", "--json"];
    const { stdout, stderr } = await succeed(next, { cwd });
    const { on, samples, loss, metrics } = JSON.parse(stdout);
    assertEquals([on, samples, typeof loss, "skill_persistence" in metrics], ["all", 10, "number", true]);
    assertSentence("integration/leaving: years other data", stderr);
    assertSentence("integration/leaving: skill climatology data", stderr);
    assertEquals("skill_climatology" in metrics, false);
    const divided = await succeed([...next, "--validation-split=0.5"], { cwd });
    assertEquals(JSON.parse(divided.stdout).samples < 10, true);

    // Trained in one half of a year, and judged in the other.
    const half = [...data, ...model, "--run-name=half", "--validate-on=2001-07..2001-12", "--batch-size=2"];
    const trained = await succeed([...QUICK, ...half, "--data-path=years/2001.nc"], { cwd });
    const said = sentenceNamed("integration/leaving: skill climatology training");
    assertEquals(trained.stdout.split(said).length, 2, trained.stdout);
    const own = await succeed(["eval", "checkpoints/half_latest.pt"], { cwd });
    assertStringIncludes(own.stderr, said);
    assertEquals(/climatology|nan/i.test(own.stdout), false, own.stdout);
    assertMatch(own.stdout, /Skill over persistence: /);
  }));

const OWN_LOSS = `
import os, sys, numpy, torch
os.chdir(sys.argv[1])
r = numpy.random.default_rng(1)
x = r.normal(size=(40, 2, 6, 6)).astype("f4")
numpy.savez("maps.npz", x=x, y=(x[:, :1] - x[:, 1:]).astype("f4"))
class Own(torch.nn.Module):
    def __init__(self, shown):
        super().__init__()
        self.conv, self.shown = torch.nn.Conv2d(2, 1, 3, padding=1), shown
    def forward(self, x, y):
        made = self.conv(x)
        shown = {"maps": made, "flat": made[:, 0], "coarse": torch.nn.functional.avg_pool2d(made, 2)}[self.shown]
        return {"logits": shown, "loss": torch.nn.functional.mse_loss(made, y)}
n, h = torch.export.Dim("n", min=2), torch.export.Dim("h", min=4, max=64)
for shown in ("maps", "flat", "coarse"):
    sizes = ({0: n, 2: h}, {0: n, 2: h}) if shown == "maps" else ({0: n}, {0: n})
    program = torch.export.export(Own(shown), (torch.zeros(4, 2, 6, 6), torch.zeros(4, 1, 6, 6)), dynamic_shapes=sizes)
    torch.export.save(program, shown + ".pt2")
`;

const OWN_JUDGED = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
p = {name: np.load(name + "-p.npz") for name in ("maps", "flat")}
print(json.dumps({n: float(np.sqrt(((z["prediction"].reshape(z["target"].shape) - z["target"]).astype("f8") ** 2).mean())) for n, z in p.items()}))
`;

Deno.test("a loss in the graph leaves the metrics of maps as they are, and none where the prediction is of another shape", () =>
  inTemp(async (cwd) => {
    python(OWN_LOSS, cwd);
    const metrics: Record<string, Record<string, number>> = {};
    for (const name of ["maps", "flat", "coarse"]) {
      const data = ["--data-path=maps.npz", "--features=x", "--targets=y", "--validation-split=0.2"];
      const said = await succeed([
        ...QUICK,
        ...data,
        `--model=${name}.pt2`,
        "--batch-size=8",
        `--run-name=${name}`,
      ], {
        cwd,
      });
      assertSentence("integration/leaving: graph loss own", said.stdout);
      const from = `checkpoints/${name}_latest.pt`;
      metrics[name] = JSON.parse((await succeed(["eval", from, "--json"], { cwd })).stdout).metrics;
      if (name !== "coarse") await succeed(["predict", from, `--out=${name}-p.npz`], { cwd });
    }
    const rmse = JSON.parse(python(OWN_JUDGED, cwd));
    for (const name of ["maps", "flat"]) {
      assertEquals(Object.keys(metrics[name]).sort(), ["bias", "mae", "r2", "rmse"], name);
      assertEquals(
        Math.abs(metrics[name].rmse - rmse[name]) < 1e-5,
        true,
        `${name}: ${metrics[name].rmse}, ${rmse[name]}`,
      );
    }
    assertEquals(metrics.coarse, {});
  }));
