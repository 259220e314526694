// Weights of the points of a map: the cosine of the latitude, or a variable on the targets' grid.
import { assertAlmostEquals, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { loadDataReader, openData } from "../../../../core/data/open/open.ts";
import type { Source } from "../../../../core/data/source/source.ts";
import { pointWeights } from "../../../../core/data/source/weights.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { settings } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

/** Four maps of 3 x 2 points; the second file has a latitude for each point, and the third none. */
const FILES = `
import sys, numpy as np, netCDF4
for name in ("rows", "points", "none"):
    with netCDF4.Dataset(f"{sys.argv[1]}/{name}.nc", "w") as d:
        for dimension, size in (("time", 4), ("y", 3), ("x", 2)): d.createDimension(dimension, size)
        def make(name, dimensions, values, **attributes):
            v = d.createVariable(name, "f4", dimensions, fill_value=-99.0)
            v.setncatts(attributes); v[:] = values
        if name == "rows": make("y", ("y",), [0, 60, 90], units="degrees_north")
        if name == "points": make("nav_lat", ("y", "x"), np.deg2rad([[0, 60], [60, 0], [90, 90]]), standard_name="latitude", units="radian")
        make("area", ("x", "y"), np.ma.masked_equal([[1, 2, 3], [4, 5, 0]], 0))
        make("depth", ("y",), [1, -2, 3])
        make("daily", ("time", "y", "x"), np.ones((4, 3, 2)))
        for field in ("sst", "ice"): make(field, ("time", "y", "x"), np.arange(24.0).reshape(4, 3, 2))
`;

async function open(path: string, model = "unet"): Promise<Source> {
  const data = { data_path: path, features: ["sst"], targets: ["ice"], val_samples: 0 };
  const config = settings({ data, model: { name: model as "unet" } });
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model).train;
}

Deno.test(
  "a point weighs the cosine of its latitude, or what a variable says, however its dimensions lie",
  inFolder(async (folder) => {
    python(FILES, folder);
    const rows = await open(`${folder}/rows.nc`), points = await open(`${folder}/points.nc`);
    const cases: [Source, string, number[]][] = [
      [rows, "cos(latitude)", [1, 1, 0.5, 0.5, 0, 0]],
      [points, "cos(lat)", [1, 0.5, 0.5, 1, 0, 0]],
      [rows, "area", [1, 4, 2, 5, 3, 0]],
    ];
    for (const [source, wanted, relative] of cases) {
      const made = pointWeights(wanted, source).on("cpu");
      assertEquals(made.shape, [3, 2]);
      const mean = relative.reduce((sum, value) => sum + value, 0) / 6;
      [...toNumbers(made)].forEach((value, i) => assertAlmostEquals(value, relative[i] / mean, 1e-6, wanted));
    }
    const refused = (wanted: string, source: Source) =>
      assertThrows(() => pointWeights(wanted, source), UserError).message;
    assertMatch(refused("cos(latitude)", await open(`${folder}/none.nc`)), /none\.nc has no latitude/);
    assertMatch(refused("height", rows), /has no variable "height"/);
    assertMatch(refused("depth", rows), /depth in .*rows\.nc is -2 at point 2/);
    assertSentence("core/data/source/weights: daily time maps", refused("daily", rows));
    assertMatch(
      refused("cos(latitude)", await open(`${folder}/rows.nc`, "mlp")),
      /has no maps as targets/,
    );
  }),
);
