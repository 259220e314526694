// Components of vectors on maps that are mirrored and turned: numpy's gradient of a field goes with the field.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { loadDataReader, openData } from "../../../../core/data/open/open.ts";
import { batchOf, plainPart } from "../../../../core/data/source/source.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { range, settings } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

const SIDE = 7, SAMPLES = 40;

/** A field, its slopes to the east and to the north, and the same of another at two levels. Some of it is missing. */
const DATA = `
import os, sys, numpy as np, xarray as xr
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
f, g = r.normal(size=(40, 7, 7)), r.normal(size=(40, 2, 7, 7))
for name, lat in (("south", np.arange(7.0)), ("north", np.arange(7.0)[::-1])):
    slope = lambda a, axis: np.gradient(a, lat if axis == -2 else 1.0, axis=axis).astype("f4")
    dims, levels = ("time", "lat", "lon"), ("time", "level", "lat", "lon")
    xr.Dataset({
        "f": (dims, f.astype("f4")), "u": (dims, slope(f, -1)), "v": (dims, slope(f, -2)),
        "p": (levels, slope(g, -1)), "g": (levels, g.astype("f4")), "q": (levels, slope(g, -2)),
    }, coords={"time": np.arange(40), "lat": lat, "lon": np.arange(7) * 2.0, "level": [1, 2]}).to_netcdf(name + ".nc")
    if name == "south": np.savez("plain.npz", f=f.astype("f4"), u=slope(f, -1), v=slope(f, -2), p=slope(g, -1), g=g.astype("f4"), q=slope(g, -2))
print("null")
`;

/** Inputs are v, f, u (twice with a history), targets p, g, q at two levels each. */
const CHECK = `
import json, os, sys, numpy as np
os.chdir(sys.argv[1])
for name, sense, steps in (("south", 1, 1), ("north", -1, 1), ("plain", 1, 1), ("files", -1, 2)):
    d = json.load(open(name + ".json"))
    x, y = np.array(d["input"]).reshape(-1, steps, 3, 7, 7), np.array(d["target"]).reshape(-1, 6, 7, 7)
    for u, v, f in ((x[:, :, 2], x[:, :, 0], x[:, :, 1]), (y[:, :2], y[:, 4:], y[:, 2:4])):
        np.testing.assert_allclose(u, np.gradient(f, axis=-1), atol=1e-5)
        np.testing.assert_allclose(v, sense * np.gradient(f, axis=-2), atol=1e-5)
print("null")
`;

async function open(path: string, data: Partial<Config["data"]> = {}) {
  const config = settings({
    data: {
      ...{
        data_path: path,
        features: ["v", "f", "u"],
        targets: ["p", "g", "q"],
        val_samples: 0,
        shuffle: false,
      },
      ...{ flip: "both", rotate: true, vectors: ["u", "v", "p", "q"], ...data },
    },
    model: { name: "unet" },
  });
  config.training.loss = "mse";
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model).train;
}

Deno.test(
  "mirrored and turned, slopes are numpy's of the mirrored and turned field, wherever north is, in memory and from files",
  inFolder(async (folder) => {
    python(DATA, folder);
    const cases = {
      south: await open(`${folder}/south.nc`),
      north: await open(`${folder}/north.nc`),
      plain: await open(`${folder}/plain.npz`),
      files: await open(`${folder}/north.nc`, { in_memory: "no", history: 2 }),
    };
    for (const [name, source] of Object.entries(cases)) {
      const seen = scope(() => {
        const { input, target } = batchOf(source, plainPart(range(0, source.length)));
        return { input: [...toNumbers(input)], target: [...toNumbers(target)] };
      });
      assertEquals(seen.target.length, source.length * 6 * SIDE * SIDE);
      assert(source.length >= SAMPLES - 1);
      Deno.writeTextFileSync(`${folder}/${name}.json`, JSON.stringify(seen));
    }
    python(CHECK, folder);
    // A patch is cut before it is turned: its middle is numpy's.
    const patches = await open(`${folder}/north.nc`, {
      patch: "5",
      features: ["f", "u", "v"],
      targets: ["g"],
      vectors: ["u", "v"],
    });
    assertEquals(patches.input.shape, [3, 5, 5]);
    scope(() => {
      const x = [...toNumbers(batchOf(patches, plainPart(range(0, SAMPLES))).input)];
      for (let i = 0; i < SAMPLES; i++) {
        for (const row of range(1, 4)) {
          for (const column of range(1, 4)) {
            const at = (c: number, r: number, k: number) => x[((i * 3 + c) * 5 + r) * 5 + k];
            const east = (at(0, row, column + 1) - at(0, row, column - 1)) / 2;
            const north = (at(0, row - 1, column) - at(0, row + 1, column)) / 2;
            assert(Math.abs(at(1, row, column) - east) < 1e-5 && Math.abs(at(2, row, column) - north) < 1e-5);
          }
        }
      }
    });
  }),
);

Deno.test(
  "vectors that lack a component, or are not there, are refused by name",
  inFolder(async (folder) => {
    python(DATA, folder);
    const refused = async (data: Partial<Config["data"]>) => {
      try {
        await open(`${folder}/south.nc`, data);
      } catch (error) {
        assert(error instanceof UserError, String(error));
        return error.message;
      }
      throw new Error("it was taken");
    };
    assertMatch(await refused({ vectors: ["u"] }), /u has no other component/);
    assertMatch(await refused({ features: ["f", "u"] }), /u is without v/);
    assertSentence(
      "core/data/source/vectors: neither among features",
      await refused({ vectors: ["w", "z"] }),
    );
    assertMatch(
      await refused({ vectors: ["u", "v"], targets: ["g"], data_path: "", type: "synthetic" }),
      /names variables or columns/,
    );
  }),
);
