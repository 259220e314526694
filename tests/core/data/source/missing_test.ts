// Missing points of maps, from the file to the batch: held and streamed, filled, measured, packed and turned.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { loadDataReader, openData } from "../../../../core/data/open/open.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { measure, mergeMeasures, type Moments } from "../../../../core/data/transforms/statistics.ts";
import { asPacked, originOf } from "../../../../commands/run/pack.ts";
import { packingOf } from "../../../../core/data/shards/samples.ts";
import { writeShards } from "../../../../core/data/shards/write.ts";
import { dict } from "../../../../core/checkpoint/value.ts";
import { withOwnStatistics } from "../../../../core/train/data_facts.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { UserError } from "../../../../core/base/errors.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { range, settings } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

/** Twelve days of two fields on 6 x 5 points: land is missing in all, a swath in one, one day in the target. */
const ICE = `
import sys, json, numpy as np, netCDF4
r = np.random.default_rng(0)
land = r.random((6, 5)) < 0.3
sst, wind = 280 + r.normal(size=(12, 6, 5)), 5 * r.normal(size=(12, 6, 5))
ice = 2 * (sst - 280) + wind
kind = (ice > 0).astype("i2")
swath = r.random((12, 6, 5)) < 0.2
masks = {"sst": np.broadcast_to(land, sst.shape), "wind": land | swath, "ice": land | (np.arange(12) == 3)[:, None, None], "kind": land | swath}
with netCDF4.Dataset(sys.argv[1] + "/ice.nc", "w") as d:
    for name, size in (("time", 12), ("y", 6), ("x", 5)): d.createDimension(name, size)
    for name, values, type, fill in (("sst", sst, "f4", 1e20), ("wind", wind, "i2", -999), ("ice", ice, "f8", -1.0), ("kind", kind, "i2", -1)):
        v = d.createVariable(name, type, ("time", "y", "x"), fill_value=fill)
        if name == "wind": v.scale_factor = 0.5
        v[:] = np.ma.array(values, mask=masks[name])
with netCDF4.Dataset(sys.argv[1] + "/ice.nc") as d:
    seen = {k: np.ma.filled(np.ma.asarray(v[:]).astype("f8"), np.nan).astype("f4") for k, v in d.variables.items()}
np.savez(sys.argv[1] + "/ice.npz", **seen)
np.savez(sys.argv[1] + "/infinite.npz", x=np.where(land, np.inf, sst).astype("f4"), y=ice.astype("f4"))
np.savez(sys.argv[1] + "/nothing.npz", x=sst.astype("f4"), y=np.full_like(ice, np.nan).astype("f4"))
whole = np.where(land, np.nan, sst).astype("f4")
np.savez(sys.argv[1] + "/turned.npz", x=whole, y=2 * whole, k=np.where(land, -100, sst > 280).astype("i4"))
np.savez(sys.argv[1] + "/table.npz", x=np.where(r.random((12, 3)) < 0.2, np.nan, 1).astype("f4"), y=np.ones(12, "f4"))
x = np.stack([seen["sst"], seen["wind"]], 1).astype("f8")
with np.errstate(all="ignore"):
    print(json.dumps({
        "sst": seen["sst"].ravel().tolist(), "ice": seen["ice"].ravel().tolist(), "kind": seen["kind"].ravel().tolist(),
        "wind": seen["wind"].ravel().tolist(),
        "mean": np.nanmean(x, (0, 2, 3)).tolist(), "std": np.nanstd(x, (0, 2, 3)).tolist(),
        "min": np.nanmin(x, (0, 2, 3)).tolist(), "max": np.nanmax(x, (0, 2, 3)).tolist()}).replace("NaN", "null"))
`;

type Numbers = (number | null)[];
interface Ice {
  sst: Numbers;
  wind: Numbers;
  ice: Numbers;
  kind: Numbers;
  mean: number[];
  std: number[];
  min: number[];
  max: number[];
}

const DAYS = 12, POINTS = 30;
const MAPS = { features: ["sst", "wind"], targets: ["ice"], val_samples: 0, shuffle: false };

async function open(path: string, data: Partial<Config["data"]> = {}, loss = "mse") {
  const config = settings({ data: { ...MAPS, data_path: path, ...data }, model: { name: "unet" } });
  config.training.loss = loss as "mse";
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model);
}

const all = (source: Source, field: "input" | "target") =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length)))[field])]);

const nulls = (values: readonly number[]): Numbers => values.map((x) => Number.isNaN(x) ? null : x);

/** [day, channel, y, x], as the batch has it. */
const stacked = ({ sst, wind }: Ice): Numbers =>
  range(0, DAYS).flatMap((day) => [sst, wind].flatMap((of) => of.slice(day * POINTS, (day + 1) * POINTS)));

function inIce(body: (folder: string, ice: Ice) => Promise<void>): () => Promise<void> {
  return inFolder((folder) => body(folder, JSON.parse(python(ICE, folder))));
}

/** Floats around 280 have lost five digits when their mean of 280 is gone. */
const near = (a: readonly number[], b: Numbers, most = 5e-5) =>
  a.forEach((x, i) => assertAlmostEquals(x, b[i]!, most * Math.max(1, Math.abs(b[i]!)), `value ${i}`));

const refusal = async (opened: Promise<unknown>): Promise<string> => {
  try {
    await opened;
  } catch (error) {
    assert(error instanceof UserError, String(error));
    return error.message;
  }
  throw new Error("nothing was refused");
};

Deno.test(
  "missing points stay, held and streamed, NetCDF and npz alike, and one note says how many there are",
  inIce(async (folder, ice) => {
    for (const [file, in_memory] of [["nc", "yes"], ["nc", "no"], ["npz", "yes"], ["npz", "no"]] as const) {
      const { train, notes } = await open(`${folder}/ice.${file}`, { in_memory, fill: ["none"] });
      assertEquals([train.missing, train.facts.missing], [{ input: true, target: true }, true]);
      assertEquals(nulls(all(train, "input")), stacked(ice));
      assertEquals(nulls(all(train, "target")), ice.ice);
      const note = notes.find((line) => line.startsWith("Missing points: "))!;
      assertMatch(
        note,
        in_memory === "yes" ? /: sst [\d.]+%, wind [\d.]+%, ice [\d.]+%; / : /: ice [\d.]+%; /,
      );
      assertSentence("core/data/source/missing: samples target count", notes);
      const valid = ice.ice.filter((x) => x !== null).slice(0, 1);
      assert(Number.isFinite(train.reference![0]) && valid.length === 1);
    }
  }),
);

Deno.test(
  "--missing fail and --bad-samples skip do as before, infinity is never missing, and plain numbers still fail",
  inIce(async (folder) => {
    const missing = "fail";
    for (const in_memory of ["yes", "no"] as const) {
      const path = `${folder}/ice.nc`, features = ["sst"];
      assertMatch(
        await refusal(open(path, { missing, in_memory, features })),
        /"(sst|ice)" is NaN, infinite/,
      );
    }
    const skipping = await refusal(open(`${folder}/ice.nc`, { bad_samples: "skip" }));
    assertMatch(skipping, /no sample is left .* --missing mask\.$/);
    const infinite = { features: ["x"], targets: ["y"] };
    assertMatch(
      await refusal(open(`${folder}/infinite.npz`, infinite)),
      /"x" is NaN, infinite or missing in 12/,
    );
    const streamed = await open(`${folder}/infinite.npz`, { ...infinite, in_memory: "no", fill: ["none"] })
      .then(
        ({ train }) => assertThrows(() => all(train, "input"), UserError).message,
        ({ message }) => message,
      );
    assertMatch(streamed, /has infinity at value/);
    assertMatch(
      await refusal(open(`${folder}/nothing.npz`, infinite)),
      /"y" is missing \(NaN\) at every point/,
    );
    assertMatch(await refusal(open(`${folder}/table.npz`, infinite)), /"x" is NaN.*--bad-samples skip/);
    const { train } = await open(`${folder}/table.npz`, { ...infinite, missing: "mask" });
    assert(all(train, "input").every((x) => x === 0 || x === 1));
  }),
);

Deno.test(
  "the mean, deviation and range that are measured are numpy's of the points that are there, on any ranks",
  inIce(async (folder, ice) => {
    for (const in_memory of ["yes", "no"] as const) {
      const { train } = await open(`${folder}/ice.nc`, { in_memory, fill: ["none"] });
      const samples = { ...train, batch: (ids: Int32Array) => batchOf(train, plainPart(ids)) };
      for (const world of [1, 2, 5, 12]) {
        const shares = range(0, world).map((rank) => measure(samples, rank, world));
        const { input }: { input: Moments } = mergeMeasures(shares);
        near(input.mean, ice.mean, 1e-9);
        near(input.squares.map((sum, k) => Math.sqrt(sum / input.valid![k])), ice.std, 1e-9);
        assertEquals([input.min, input.max], [ice.min, ice.max]);
      }
    }
  }),
);

Deno.test(
  "inputs are filled after normalising, by the mean or by numbers in their own units, and a channel says where",
  inIce(async (folder, ice) => {
    const x = stacked(ice), channel = (i: number) => Math.floor(i / POINTS) % 2;
    for (const in_memory of ["yes", "no"] as const) {
      const of = async (data: Partial<Config["data"]>) =>
        all((await open(`${folder}/ice.nc`, { in_memory, ...data })).train, "input");
      const normal = (value: number, k: number) => (value - ice.mean[k]) / ice.std[k];
      const measured = x.map((value, i) => value === null ? 0 : normal(value, channel(i)));
      near(await of({ normalise: "measured" }), measured);
      near(await of({ normalise: "measured", fill: ["mean"] }), measured);
      near(await of({}), x.map((value) => value ?? 0));
      near(await of({ fill: ["mean"] }), x.map((value, i) => value ?? ice.mean[channel(i)]));
      near(await of({ fill: ["270", "-3"] }), x.map((value, i) => value ?? [270, -3][channel(i)]));
      near(
        await of({ fill: ["271.5"], normalise: "measured" }),
        x.map((value, i) => normal(value ?? 271.5, channel(i))),
      );
      near(
        await of({ fill: ["5"], scaling: "asinh", features: ["wind"] }),
        ice.wind.map((value) => Math.asinh(value ?? 5)),
      );
      const opened = await open(`${folder}/ice.nc`, { in_memory, mask_channel: true, normalise: "measured" });
      assertEquals([opened.train.input.shape, opened.train.facts.input.shape], [[3, 6, 5], [3, 6, 5]]);
      const there = range(0, DAYS * POINTS).map((i) => ice.sst[i] !== null && ice.wind[i] !== null ? 1 : 0);
      const masked = all(opened.train, "input");
      const last = range(0, DAYS).flatMap((day) =>
        masked.slice((3 * day + 2) * POINTS, (3 * day + 3) * POINTS)
      );
      assertEquals(last, there);
      near(masked.filter((_, i) => Math.floor(i / POINTS) % 3 < 2), measured);
    }
    assertMatch(await refusal(open(`${folder}/ice.nc`, { fill: ["1", "2", "3"] })), /--fill gives 3 numbers/);
    assertMatch(await refusal(open(`${folder}/ice.nc`, { fill: ["much"] })), /--fill\) has "much"/);
    const { train } = await open(`${folder}/ice.nc`, { mixup: 0.2, targets: ["sst"], features: ["wind"] })
      .catch(({ message }) => ({ train: message }));
    assertMatch(String(train), /--mixup can't mix targets with missing points/);
  }),
);

Deno.test(
  "crops and flips move missing points with the values, and they are filled afterwards",
  inIce(async (folder) => {
    for (const in_memory of ["yes", "no"] as const) {
      const data = {
        in_memory,
        flip: "both" as const,
        features: ["sst"],
        mask_channel: true,
        normalise: "measured" as const,
      };
      const { train } = await open(`${folder}/ice.nc`, data);
      const seen = all(train, "input");
      range(0, DAYS).forEach((day) =>
        range(0, POINTS).forEach((i) => {
          const value = seen[2 * day * POINTS + i], mask = seen[(2 * day + 1) * POINTS + i];
          assert(mask === 0 ? value === 0 : value !== 0, `${day} ${i}: ${value} ${mask}`);
        })
      );
    }
  }),
);

Deno.test(
  "a target that is a map is cropped, mirrored and turned as its input is, and so are its missing points",
  inIce(async (folder) => {
    const path = `${folder}/turned.npz`, features = ["x"], fill = ["none"];
    const turning = { random_crop: 4, flip: "both", rotate: true, features, fill } as const;
    const inputs: number[][] = [];
    for (const in_memory of ["yes", "no"] as const) {
      const { train } = await open(path, { ...turning, features, fill, in_memory, targets: ["y"] });
      assertEquals([train.input.shape, train.target.shape], [[1, 4, 4], [1, 4, 4]]);
      const [input, target] = [all(train, "input"), all(train, "target")];
      assertEquals(target, input.map((x) => 2 * x));
      assert(input.some(Number.isNaN) && !input.every(Number.isNaN));
      inputs.push(input);
      const classes = await open(path, { ...turning, features, fill, in_memory, targets: ["k"] }, "auto");
      assertEquals([classes.train.facts.task, classes.train.target.shape], ["segmentation", [4, 4]]);
      assertEquals(all(classes.train, "input"), input);
      assertEquals(all(classes.train, "target"), input.map((x) => Number.isNaN(x) ? -100 : Number(x > 280)));
    }
    assertEquals(inputs[0], inputs[1]);
    const padded = open(path, { ...turning, features, fill, crop_padding: 1, targets: ["y"] });
    assertMatch(await refusal(padded), /--crop-padding would make up targets/);
    const resized = open(path, { resize: 4, features, fill, targets: ["k"] }, "auto");
    assertMatch(await refusal(resized), /classes of pixels are never blended/);
  }),
);

Deno.test(
  "a missing class of a pixel is the ignored class, whichever that is",
  inIce(async (folder, ice) => {
    for (const ignored of [-100, 7]) {
      const config = settings({
        data: { ...MAPS, data_path: `${folder}/ice.nc`, targets: ["kind"] },
        model: { name: "unet" },
      });
      config.training.ignore_index = ignored;
      await loadDataReader(config.data);
      const { train } = openData(config.data, config.training, config.model);
      assertEquals([train.facts.task, train.facts.outputs, train.facts.missing], ["segmentation", 2, true]);
      assertEquals(all(train, "target"), ice.kind.map((label) => label ?? ignored));
    }
  }),
);

Deno.test("the means that a checkpoint was trained with fill other data", () => {
  const root = dict({ hpctrain: dict({ fill: [0.1, 271.5], normalisation: null }) });
  const config = settings({ data: { fill: ["mean"] } });
  assertEquals(withOwnStatistics(config, root).data.fill, ["0.1", "271.5"]);
  for (const fill of [[], ["3"]]) {
    assertEquals(withOwnStatistics(settings({ data: { fill } }), root).data.fill, fill);
  }
});

Deno.test(
  "packed data keep their missing points, held and streamed",
  inIce(async (folder) => {
    const resolved = resolveSettings({
      argv: ["--model=unet", "--loss=mse", "--features=sst,wind", "--targets=ice"],
      env: {},
    });
    const config = asPacked(resolved, `${folder}/ice.nc`, false), out = `${folder}/packed`;
    await loadDataReader(config.data);
    const { train, val } = openData(config.data, config.training, config.model);
    const packing = packingOf(train, val, 0);
    await writeShards(
      { ...packing, out, origin: originOf(config, packing) },
      { rank: 0, world: 1 },
      packing.make,
    );
    assertEquals(JSON.parse(Deno.readTextFileSync(`${out}/index.json`)).missing, {
      input: true,
      target: true,
    });
    for (const in_memory of ["yes", "no"] as const) {
      const data = { in_memory, normalise: "measured" as const };
      const loose = await open(`${folder}/ice.nc`, { ...data, val_samples: 1, validation_split: 0.1 });
      const packed = await open(out, data);
      assertEquals(packed.train.facts.missing, true);
      assertEquals(nulls(all(packed.train, "target")).filter((x) => x === null).length > 0, true);
      assertEquals(packed.train.length, loose.train.length);
      assertEquals(
        new Float64Array(all(packed.train, "input")).toSorted(),
        new Float64Array(all(loose.train, "input")).toSorted(),
      );
    }
    assertMatch(await refusal(open(out, { in_memory: "yes", missing: "fail" })), /has NaN or infinity in/);
  }),
);
