// What can't be trained together is refused when the run is built: weights of points, patches, mirrored maps and
// finer features.
import { assert, assertMatch } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { loadDataReader } from "../../../core/data/open/open.ts";
import type { Config } from "../../../core/settings/settings.ts";
import { build } from "../../../core/train/build.ts";
import { useLibtorch } from "../../libtorch.ts";
import { inFolder, python } from "../checkpoint/python.ts";
import { settings } from "../data/tables/help.ts";

useLibtorch();

const DATA = `
import sys, numpy as np, xarray as xr
dims, fine = ("time", "lat", "lon"), ("y", "x")
maps = lambda: (dims, np.random.default_rng(0).normal(size=(6, 8, 8)).astype("f4"))
xr.Dataset({"a": maps(), "b": maps(), "height": (fine, np.ones((16, 16), "f4"))}, coords={"time": np.arange(6),
    "lat": ("lat", np.linspace(0, 70, 8), {"units": "degrees_north"}), "lon": np.arange(8.0)}).to_netcdf(sys.argv[1] + "/maps.nc")
print("null")
`;

Deno.test(
  "weights of points beside patches and beside maps that are mirrored or turned, and finer features beside those",
  inFolder(async (folder) => {
    python(DATA, folder);
    const refusal = async (data: Partial<Config["data"]>, weight = ""): Promise<string | null> => {
      const config = settings({
        data: { data_path: `${folder}/maps.nc`, features: ["a"], targets: ["b"], ...data },
        model: { name: "unet", width: 2, depth: 1 },
      });
      config.training.loss_weight = weight;
      await loadDataReader(config.data);
      try {
        build(config, "cpu");
        return null;
      } catch (error) {
        assert(error instanceof UserError, String(error));
        return error.message;
      }
    };
    const latitude = "cos(latitude)";
    assertMatch(
      (await refusal({ patch: "4" }, latitude))!,
      /cos\(latitude\) weighs the points of whole maps/,
    );
    const moved = /--flip both moves them elsewhere: leave one of them out, or use --flip horizontal/;
    assertMatch((await refusal({ flip: "both" }, latitude))!, moved);
    assertMatch((await refusal({ rotate: true }, latitude))!, /--rotate moves them elsewhere/);
    assertMatch((await refusal({ flip: "horizontal" }, "a"))!, /--flip horizontal moves them elsewhere/);
    assert(await refusal({ flip: "horizontal" }, latitude) === null);
    assertMatch(
      (await refusal({ features: ["a", "height"], flip: "horizontal" }))!,
      /height is finer than the maps/,
    );
    assert(await refusal({ features: ["a", "height"], patch: "4" }) === null);
  }),
);
