// Ensembles and MC dropout, from outside: numpy makes the same mixture of what each member predicts alone.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "paths";
import { evaluate } from "../../commands/run/eval.ts";
import { predict } from "../../commands/run/predict.ts";
import { UserError } from "../../core/base/errors.ts";
import { printed } from "../commands/printed.ts";
import { python } from "../core/checkpoint/python.ts";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { inTemp, succeed } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

/** A field whose noise depends on the input, without targets on land; classes of it for points. */
const DATA = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
a, b = r.normal(size=(2, 40, 6, 8)).astype("f4")
t = (3 * b + np.abs(a) * r.normal(size=a.shape)).astype("f4")
c = (t > 1).astype("i4") + (t > 3)
t[:, :2, :3] = np.nan
on = ("time", "lat", "lon")
xr.Dataset({"a": (on, 5 * a + 2), "b": (on, b), "t": (on, t, {"units": "K"}), "c": (on, c)},
    coords={"time": np.arange(40), "lat": np.arange(6.0), "lon": np.arange(8.0)}).to_netcdf("d.nc", format="NETCDF3_64BIT")
`;

const TRAIN = [
  ...["train", "--features=a,b", "--width=4", "--depth=1", "--normalise=measured", "--device=cpu"],
  ...["--threads=1", "--no-wandb", "--batch-size=8", "--lr=1e-2", "--epochs=2", "--quiet"],
];

const MIXED = `
import os, sys, json, warnings, numpy as np, xarray as xr
warnings.simplefilter("error")
os.chdir(sys.argv[1])
one, two, both = (np.load(name + ".npz") for name in ("one", "two", "both"))
means = np.stack([one["prediction"], two["prediction"]], 1).astype("f8")
np.testing.assert_allclose(both["members"], means, rtol=1e-5, atol=1e-5)
variances = np.stack([one["std"], two["std"]], 1).astype("f8") ** 2
assert abs(means[:, 0] - means[:, 1]).max() > 0.01
np.testing.assert_allclose(both["prediction"], means.mean(1), rtol=1e-5, atol=1e-5)
std = np.sqrt(variances.mean(1) + means.var(1))
np.testing.assert_allclose(both["std"], std, rtol=1e-5)
grid = xr.open_dataset("both.nc")
assert grid.t_members.dims == ("time", "member", "lat", "lon") and grid.member.attrs["standard_name"] == "realization" and grid.member.attrs["units"] == "1"
land = np.isnan(both["target"][:, 0])
assert land.any() and (np.isnan(grid.t) == land).all() and (np.isnan(grid.t_members) == land[:, None]).all()
sea = ~land
np.testing.assert_array_equal(grid.t_std.values[sea], both["std"][:, 0][sea])
np.testing.assert_array_equal(grid.t_members.values.swapaxes(1, 0)[:, sea], both["members"][:, :, 0].swapaxes(1, 0)[:, sea])
assert grid.t_std.attrs == {"units": "K", "long_name": "standard deviation of t"}, grid.t_std.attrs
# Plain numbers: the spread of dropout's draws is the members' own, as xarray computes it.
drawn = xr.open_dataset("drawn.nc")
np.testing.assert_allclose(drawn.t.values, drawn.t_members.mean("member").values, rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(drawn.t_std.values, drawn.t_members.std("member").values, rtol=1e-4, atol=1e-6)
assert drawn.sizes["member"] == 4 and (drawn.t_std.values > 0).mean() > 0.9
# Classes: the mean of probabilities.
a, b, ab = (np.load(name + ".npz") for name in ("ca", "cb", "cab"))
def softmax(of):
    shares = np.exp(of["prediction"].astype("f8") - of["prediction"].max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)
shares = np.stack([softmax(a), softmax(b)], 1)
np.testing.assert_allclose(ab["members"], shares, rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(softmax(ab), shares.mean(1), rtol=1e-5, atol=1e-6)
picked = np.take_along_axis(shares.mean(1), a["target"][:, None].astype(int), 1)
grid = xr.open_dataset("cab.nc")
assert grid.c_members.dims == ("time", "member", "class", "lat", "lon")
np.testing.assert_allclose(grid.c_members.values, shares, rtol=1e-5, atol=1e-6)
np.testing.assert_array_equal(grid.c.values, shares.mean(1).argmax(1))
error = abs(both["prediction"] - both["target"])
print(json.dumps({
    "within_1_sigma": float((error <= both["std"])[~np.isnan(error)].mean()),
    "within_2_sigma": float((error <= 2 * both["std"])[~np.isnan(error)].mean()),
    "spread": float(np.sqrt((both["std"].astype("f8") ** 2)[~np.isnan(error)].mean())),
    "rmse": float(np.sqrt(np.nanmean(error.astype("f8") ** 2))),
    "nll": float(-np.log(picked).mean()),
}))
`;

Deno.test({
  name:
    "an ensemble of seeds is the mixture that numpy makes of its members, each normalised as it was trained; MC dropout draws the same numbers on two ranks",
  sanitizeResources: false, // libtorch is loaded once for all tests
  fn: () =>
    inTemp(async (cwd) => {
      python(DATA, cwd);
      const data = `--data-path=${join(cwd, "d.nc")}`;
      const train = async (name: string, ...flags: string[]) => {
        await succeed([...TRAIN, data, "--model=unet", ...flags, `--run-name=${name}`], { cwd });
        return join(cwd, "checkpoints", `${name}_latest.pt`);
      };
      const numbers = ["--targets=t", "--dropout=0.2"];
      const one = await train("s1", ...numbers, "--loss=crps", "--seed=1");
      const two = await train("s2", ...numbers, "--loss=crps", "--seed=2");
      const plain = await train("plain", ...numbers, "--loss=mse");
      const ca = await train("c1", "--targets=c", "--seed=1");
      const cb = await train("c2", "--targets=c", "--seed=2");

      // The commands are here in the test's own process: they are many.
      const said = async (command: () => Promise<number>) =>
        (await printed(async () => assertEquals(await command(), 0)))[1];
      const to = (out: string, ...args: string[]) =>
        said(() => predict([...args, "--all", `--out=${join(cwd, out)}`, "--threads=1"]));
      await to("one.npz", one);
      await to("two.npz", two);
      await to("both.npz", one, two, "--members");
      const wrote = await to("both.nc", one, two, "--members");
      assertSentence("integration/ensembles: t_std time lat", wrote);
      await to("ca.npz", ca);
      await to("cb.npz", cb);
      await to("cab.npz", ca, cb, "--members");
      await to("cab.nc", ca, cb, "--members");

      const drawn = [plain, "--mc-dropout=4", "--members", "--no-mask"];
      await to("drawn.nc", ...drawn);
      const ranks = ["-n", "2", "--", "predict", ...drawn, "--all", "--out=ranks.nc", "--threads=1"];
      const launched = await launch(cwd, mpich(), ranks).result;
      assertEquals(launched.code, 0, launched.stderr);
      const bytes = (name: string) => new TextDecoder("latin1").decode(Deno.readFileSync(join(cwd, name)));
      const values = (name: string) => bytes(name).slice(-4 * 40 * 5 * 48); // behind the line with the command
      assert(values("ranks.nc") === values("drawn.nc"), "the same bytes");

      const { nll, ...calibration } = JSON.parse(python(MIXED, cwd));
      const judged = async (...args: string[]) =>
        JSON.parse(await said(() => evaluate([...args, "--on=all", "--json"])));
      const { metrics, members } = await judged(one, two);
      assertEquals(members, 2);
      for (const [name, value] of Object.entries(calibration)) {
        assertAlmostEquals(metrics[name], value as number, 1e-5, name);
      }
      assertAlmostEquals((await judged(ca, cb)).loss, nll, 1e-5);
      assertMatch(
        await said(() => evaluate([one, two])),
        /Val Within 1 sigma: .* \| 4 samples \| 2 members\nOf calibrated predictions 0\.683 /,
      );
      const refused = (message: string, ...args: string[]) =>
        assertRejects(() => predict([...args, `--out=${join(cwd, "no.nc")}`]), UserError, message);
      await refused("this unet drops nothing: train it with --dropout", ca, "--mc-dropout=3");
      await refused(`${ca} has data.targets ["c"], and ${one} has ["t"]`, one, ca);
      await refused(sentenceNamed("integration/ensembles: members writes member"), one, "--members");
    }),
});
