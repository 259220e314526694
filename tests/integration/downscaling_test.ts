// Downscaling from outside: targets finer than inputs, with features as fine as the targets; from memory and from
// files, as PyTorch computes it, and without targets on the fine grid's coordinates.
import { assert, assertStringIncludes } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { inTemp, succeed } from "./program.ts";

/** Maps of 5 x 6 and, three times finer, 15 x 18. `height` is packed, and `sea` is missing in places. */
const DATA = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
fine = {"lat": ("lat", np.linspace(10, 24, 15), {"units": "degrees_north"}), "lon": ("lon", np.arange(18.0), {"units": "degrees_east"})}
coarse = {n: (("time", "y", "x"), r.normal(size=(12, 5, 6)).astype("f4")) for n in ("a", "b")}
height = (("lat", "lon"), np.round(r.normal(size=(15, 18)), 1))
mask = (("y", "x"), (r.random((5, 6)) < 0.5).astype("i2"))
t = (("time", "lat", "lon"), r.normal(size=(12, 15, 18)).astype("f4"), {"units": "K"})
time = {"time": np.arange("2000-01-01", "2000-01-13", dtype="M8[D]").astype("M8[ns]")}
whole = xr.Dataset({**coarse, "height": height, "mask": mask, "t": t}, coords={**time, **fine})
whole.height.encoding = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -999}
whole.to_netcdf("whole.nc", format="NETCDF3_64BIT")
whole.drop_vars("t").to_netcdf("new.nc")
`;

const PEER = `
import os, sys, json, numpy as np, torch, xarray as xr
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import zoo_models
own = torch.load("checkpoints/r_latest.pt", weights_only=True)
model = torch.nn.Sequential(zoo_models.unet(channels=12, filters=4, outputs=9, depth=1), torch.nn.PixelShuffle(3))
model[0].load_state_dict(own["model_state_dict"])
model.eval()
d = xr.open_dataset("whole.nc")
height = torch.nn.functional.pixel_unshuffle(torch.from_numpy(d.height.values.astype("f4"))[None], 3).numpy()
x = np.concatenate([np.stack([d.a, d.b], 1), np.broadcast_to(height, (12, 9, 5, 6)), np.broadcast_to(d.mask.values[None, None], (12, 1, 5, 6))], 1)
with torch.no_grad(): want = model(torch.from_numpy(np.ascontiguousarray(x.astype("f4")))).numpy()[:, 0]
got, new, streamed = (xr.open_dataset(f) for f in ("all.nc", "fine.nc", "streamed.nc"))
for p in (got, new):
    assert p.t.dims == ("time", "lat", "lon") and p.t.shape == (12, 15, 18) and p.t.attrs["units"] == "K", p
    for name in ("time", "lat", "lon"): xr.testing.assert_identical(p[name], d[name])
xr.testing.assert_equal(streamed, got)
np.testing.assert_array_equal(got.t_target.values, d.t.values)
print(json.dumps([float(abs(p.t.values - want).max()) for p in (got, new)]))
`;

const TRAIN = [
  "--data-path=whole.nc",
  "--features=a,b,height,mask",
  "--targets=t",
  "--model=unet",
  "--width=4",
  "--depth=1",
];
const QUICK = [
  "--device=cpu",
  "--threads=1",
  "--no-wandb",
  "--normalise=off",
  "--batch-size=4",
  "--max-steps=3",
  "--run-name=r",
];

Deno.test("a target three times finer than its inputs, and features as fine: PyTorch's sub-pixel unet says the same; also streamed, and without targets", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const { stdout } = await succeed([...TRAIN, ...QUICK], { cwd });
    assertStringIncludes(stdout, "the points within each pixel are channels: height");
    assertStringIncludes(stdout, "for maps 3 times finer");
    const predict = ["predict", "checkpoints/r_latest.pt", "--all", "--threads=1"];
    await succeed([...predict, "--out=all.nc"], { cwd });
    await succeed([...predict, "--in-memory=no", "--out=streamed.nc"], { cwd });
    await succeed([...predict, "--data-path=new.nc", "--no-targets", "--out=fine.nc"], { cwd });
    const far: number[] = JSON.parse(
      python(PEER, cwd, new URL("../../examples/python", import.meta.url).pathname),
    );
    assert(far.every((distance) => distance < 1e-5), far.join());
  }));
