// Files of their own to validate and to test with: what Python wrote into them, in training's columns, classes and
// grid, or a sentence.
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { numberedAs } from "../../../../core/data/open/own_files.ts";
import type { Source } from "../../../../core/data/source/source.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { numbers, open as openIn, written } from "../streamed.ts";

useLibtorch();

const WRITE = `
import netCDF4 as nc, pandas as pd
def maps(path, steps, begin, lat=range(5), units="1", hole=False, only=("t", "ice"), size=6):
    with nc.Dataset(path, "w") as d:
        for name, n in (("time", steps), ("lat", 5), ("lon", size)): d.createDimension(name, n)
        v = d.createVariable("time", "f8", ("time",)); v.units = "days since 2000-01-01"; v[:] = begin + 30 * np.arange(steps)
        d.createVariable("lat", "f4", ("lat",))[:] = lat
        for name in only:
            v = d.createVariable(name, "f4", ("time", "lat", "lon")); v.units = units if name == "ice" else "K"
            a = r.normal(size=(steps, 5, size)).astype("f4"); a[:, 0, 0] = np.nan if hole else 1
            v[:] = a
            kept[path, name] = a
kept = {}
maps("train.nc", 12, 0); maps("val.nc", 7, 0, hole=True, only=("other", "ice", "t")); maps("test.nc", 9, 900)
maps("grid.nc", 7, 0, lat=[0, 1, 2, 3, 5]); maps("units.nc", 7, 0, units="%"); maps("size.nc", 7, 0, size=7); maps("lacks.nc", 7, 0, only=("ice",))
def window(path, rows): return np.stack([np.concatenate([kept[path, n][t - 1 + k] for k in (0, 1) for n in ("t", "ice")]).reshape(4, 5, -1) for t in rows])
def table(path, kinds, ids, rows=30):
    pd.DataFrame({"a": r.normal(size=rows), "kind": r.choice(kinds, rows), "id": r.choice(ids, rows)}).to_csv(path, index=False)
table("train.csv", ["ant", "bee", "cat"], [0, 1, 2]); table("val.csv", ["cat", "bee"], [0, 1]); table("odd.csv", ["cow"], [0, 7])
listed = lambda a: [None if np.isnan(x) else float(x) for x in np.ravel(a)]
print(json.dumps([listed(window("val.nc", range(1, 6))), listed([kept["val.nc", "ice"][t + 1] for t in range(1, 6)]), listed(window("test.nc", range(1, 8))), list(pd.read_csv("val.csv").kind)]))
`;

const nulls = (values: number[]) => values.map((value) => Number.isNaN(value) ? null : value);

Deno.test(
  "validation and test come from their own files, in training's columns and classes, of the same grid and units",
  inFolder(async (folder) => {
    const [inputs, targets, tested, kinds] = written(folder, WRITE) as [
      number[],
      number[],
      number[],
      string[],
    ];
    const at = (data: Partial<Config["data"]>): Partial<Config["data"]> =>
      Object.fromEntries(
        Object.entries(data).map((
          [key, value],
        ) => [key, key.endsWith("_path") ? `${folder}/${value}` : value]),
      );
    const open = (
      path: string,
      data: Partial<Config["data"]>,
      model: "unet" | "mlp" = "unet",
      loss: "mse" | "auto" = "mse",
      output_size = 0,
    ) =>
      openIn(`${folder}/${path}`, data.in_memory ?? "yes", {
        data: at(data),
        model: { name: model, output_size },
        training: { loss },
      });
    const forecast = { targets: ["ice"], history: 2, lead: "1", fill: ["none"] };
    for (const in_memory of ["yes", "no"] as const) {
      const own = { ...forecast, in_memory, validation_path: "val.nc", test_path: "test.nc" };
      const { train, val, test, notes } = await open("train.nc", own);
      assertEquals([train.length, val!.length, test!.length], [10, 5, 7]);
      assertEquals(numbers(val!).map(nulls), [inputs, targets]);
      assertEquals(numbers(test!)[0], tested);
      // Only the file to validate with has missing points, and the loss has to know.
      assertEquals([train.facts.missing, train.facts, val!.facts], [true, test!.facts, train.facts]);
      assertMatch(notes.join("\n"), /5 samples of \S+val.nc to validate with \(--validation-path\)/);
      assertEquals(train.grid!()!.coordinates[0].values[0], 0);
      assertEquals(test!.grid!()!.coordinates[0].values[0], 900);
    }
    const some = await open("train.nc", {
      ...forecast,
      validation_path: "val.nc",
      val_samples: 3,
      test_on: "2000-09..",
    });
    assertEquals([some.val!.length, some.train.length, some.test!.length], [3, 7, 1]);
    const held = await open("train.nc", { ...forecast, test_path: "test.nc", validation_split: 0.25 });
    assert(held.val!.length > 0 && held.test!.length === 7 && held.train.length < 10);
    const none = await open("train.nc", { ...forecast, validation_path: "val.nc", val_samples: 0 });
    assertEquals(none.val, null);

    const classes = { features: ["a"], targets: ["kind"], validation_path: "val.csv" };
    const { val } = await open("train.csv", classes, "mlp", "auto");
    assertEquals([val!.facts.outputs, val!.names], [3, ["ant", "bee", "cat"]]);
    assertEquals(numbers(val!)[1].map((k) => val!.names![k]), kinds);
    const fewer = await open("train.csv", { ...classes, targets: ["id"] }, "mlp", "auto");
    assertEquals(fewer.val!.facts.outputs, 3);

    const refused = async (...args: Parameters<typeof open>) =>
      (await assertRejects(() => open(...args), UserError)).message;
    const wrong = (name: string) => refused("train.nc", { ...forecast, test_path: name });
    assertMatch(
      await wrong("grid.nc"),
      /grid.nc \(--test-path\) lies on another grid: lat\[4\] is 5 there, and 4 in \S+train.nc/,
    );
    assertMatch(
      await wrong("units.nc"),
      /units.nc \(--test-path\) has "ice" in the units "%", and \S+ has it in "1"/,
    );
    assertMatch(await wrong("size.nc"), /has samples of \[4, 5, 7\], and \S+ has \[4, 5, 6\]/);
    assertMatch(await wrong("lacks.nc"), /has no variable "t"/);
    assertMatch(await wrong("gone.nc"), /gone.nc/);
    assertMatch(
      await refused("train.csv", { ...classes, validation_path: "odd.csv" }, "mlp", "auto"),
      /has the class cow, which the run did not have/,
    );
    assertMatch(
      await refused("train.csv", { ...classes, targets: ["id"], validation_path: "odd.csv" }, "mlp", "auto"),
      /has the class 7, and those of \S+ end at 2: --output-size 8/,
    );
    const ids = { ...classes, targets: ["id"], validation_path: "odd.csv" };
    const roomy = await open("train.csv", ids, "mlp", "auto", 8);
    assertEquals([roomy.train.facts.outputs, roomy.val!.facts.outputs], [8, 8]);
    assertMatch(
      await refused("train.nc", { ...forecast, test_path: "test.nc", test_on: "2000" }),
      /both name the same part/,
    );
  }),
);

Deno.test("label images that number the run's classes in another order are refused", () => {
  const labels = (...names: string[]) => ({ name: "fields", names }) as unknown as Source;
  const run = { task: "segmentation", names: ["sea", "ice", "land"] } as const;
  for (const own of [labels(), labels("sea", "ice"), labels("sea", "ice", "land")]) {
    assertEquals(numberedAs(own, run), own);
  }
  for (const own of [labels("sea", "land", "ice"), labels("sea", "ice", "land", "fog")]) {
    assertMatch(
      assertThrows(() => numberedAs(own, run), UserError).message,
      /the run's are sea, ice, land/,
    );
  }
});
