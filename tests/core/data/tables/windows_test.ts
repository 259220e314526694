// Samples of several steps: numpy's slices, in memory and streamed; gaps and parts of a split are never crossed.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { loadDataReader, openData, type Opened } from "../../../../core/data/open/open.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { UserError } from "../../../../core/base/errors.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { askPeer } from "../../../peer.ts";
import { range, settings } from "./help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

interface Answer {
  readonly history: number;
  readonly leads: readonly number[];
  readonly bases: readonly number[];
  readonly inputs: readonly number[];
  readonly targets: readonly number[];
}

const folder = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { windows: answers, baselines, holes, ice } = await askPeer<
  {
    ice: number[][];
    holes: (number | null)[];
    windows: Answer[];
    baselines: Record<
      "maps" | "daily" | "trained" | "maps trained",
      { persistence: number[]; climatology: number[] }
    >;
  }
>("data/windows.py", folder);

type Changes = Partial<Config["data"]>;

async function open(name: string, data: Changes, model = "simple-convnet"): Promise<Opened> {
  const config = settings({
    data: { data_path: `${folder}/${name}`, normalise: "none", ...data },
    model: { name: model },
  });
  if (data.split !== "stratified") config.training.loss = "mse";
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model);
}

const refused = async (name: string, data: Changes, model?: string): Promise<string> =>
  (await assertRejects(() => open(name, data, model), UserError)).message;

const all = (source: Source, field: "input" | "target") =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length)))[field])]);

const MAPS = { features: ["wind", "ice"], targets: ["ice"] };

Deno.test("windows equal numpy's slices, in memory and streamed from each layout", async () => {
  for (const { history, leads, bases, inputs, targets } of answers) {
    const now = leads[0] === 0;
    for (const name of ["maps.nc", "classic.nc", "years"]) {
      for (const in_memory of ["yes", "no"] as const) {
        const what = `${name}, history ${history}, leads ${leads}, in memory: ${in_memory}`;
        const data = {
          ...MAPS,
          ...(now && { features: ["wind"] }),
          history,
          lead: now ? "" : leads.join(","),
          in_memory,
        };
        const { train, val, notes } = await open(name, { ...data, val_samples: 0 });
        assertEquals(val, null);
        assertEquals([...train.indices!], [...bases], what);
        const channels = now ? history : 2 * history;
        assertEquals(train.input.shape, [channels, 5, 6], what);
        assertEquals(train.target.shape, [leads.length, 5, 6], what);
        assertEquals(train.facts.outputs, leads.length);
        assertEquals(train.facts.input.history, history > 1 ? history : undefined);
        if (!now) assertEquals(train.names, leads.map((lead) => `ice+${lead}`));
        const map = 5 * 6, wanted = now ? inputs.filter((_, i) => Math.floor(i / map) % 2 === 0) : inputs;
        assertEquals(all(train, "input"), wanted, what);
        assertEquals(all(train, "target"), targets, what);
        assertSentence("core/data/tables/windows: sample crosses gap", notes.join("\n"));
      }
    }
  }
});

Deno.test("missing points stay missing in windows, and a file's year ends no window", async () => {
  for (const in_memory of ["yes", "no"] as const) {
    const { train } = await open("holes.nc", {
      ...MAPS,
      history: 3,
      lead: "1..3",
      in_memory,
      val_samples: 0,
    });
    assertEquals([...train.indices!], [...answers[2].bases]);
    const found = all(train, "target").map((value) => Number.isNaN(value) ? null : value);
    assertEquals(found, holes);
  }
});

Deno.test("a variable has one mean and deviation over all steps of a history", async () => {
  const data = { ...MAPS, history: 3, lead: "1..3", val_samples: 0, normalise: "measured" } as const;
  const { normalisation } = await open("maps.nc", data) as Opened;
  const { inputs } = answers[2], map = 5 * 6;
  const { mean, std } = normalisation!;
  [0, 1].forEach((variable) => {
    const own = inputs.filter((_, i) => Math.floor(i / map) % 2 === variable);
    const expected = own.reduce((sum, value) => sum + value, 0) / own.length;
    const spread = Math.sqrt(own.reduce((sum, value) => sum + (value - expected) ** 2, 0) / own.length);
    for (const step of [0, 1, 2]) {
      assertAlmostEquals(mean[2 * step + variable], expected, 1e-9);
      assertAlmostEquals(std[2 * step + variable], spread, 1e-9);
    }
  });
});

Deno.test("each point of a grid has its own windows", async () => {
  const data = { features: ["wind", "ice"], targets: ["ice"], history: 3, lead: "1,2,3", val_samples: 0 };
  const { bases, inputs, targets } = answers.find(({ history, leads }) =>
    history === 3 && leads.length === 3
  )!;
  for (const in_memory of ["yes", "no"] as const) {
    const { train } = await open("maps.nc", { ...data, in_memory }, "mlp");
    const map = 5 * 6, points = bases.flatMap((base) => range(base * map, (base + 1) * map));
    assertEquals([...train.indices!], points);
    const turned = (values: readonly number[], rows: number) =>
      // [window, row, point] -> [window, point, row]
      bases.flatMap((_, b) =>
        range(0, map).flatMap((p) => range(0, rows).map((k) => values[(b * rows + k) * map + p]))
      );
    assertEquals(all(train, "input"), turned(inputs, 6));
    assertEquals(all(train, "target"), turned(targets, 3));
  }
});

/** All rows that the samples of a part need. */
function rowsOf(source: Source | null | undefined, history: number, leads: readonly number[]): Set<number> {
  const offsets = [...range(0, history).map((i) => -i), ...leads];
  return new Set([...source?.indices ?? []].flatMap((row) => offsets.map((offset) => row + offset)));
}

Deno.test("no row is in two parts, whatever the split, the history and the leads", () => {
  let seen = 0;
  for (const split of ["auto", "random", "time", "blocks", "fold:2/3"]) {
    for (const { history, leads } of [{ history: 1, leads: [0] }, ...answers]) {
      if (split === "random" && (history > 1 || leads[0] > 0)) continue;
      for (
        const [validate_on, test_on] of [["", ""], ["", "2003-06.."], ["2001", "2003.."], [
          "2002-09..2002-12,2000",
          "",
        ]]
      ) {
        for (const seed of validate_on === "" ? [1, 2] : [1]) {
          const lead = leads[0] === 0 ? "" : leads.join(",");
          const data = {
            ...MAPS,
            ...(lead === "" && { features: ["wind"] }),
            split,
            history,
            lead,
            validate_on,
            test_on,
          };
          const config = settings({
            data: { data_path: `${folder}/maps.nc`, normalise: "none", validation_split: 0.3, ...data },
            model: { name: "simple-convnet" },
          });
          config.training.seed = seed;
          config.training.loss = "mse";
          const { train, val, test } = openData(config.data, config.training, config.model);
          const parts = [train, val, test].map((part) => rowsOf(part, history, leads));
          const sum = parts.reduce((sum, { size }) => sum + size, 0);
          assertEquals(new Set(parts.flatMap((part) => [...part])).size, sum, JSON.stringify(data));
          assertEquals(test !== null, test_on !== "");
          const again = openData(config.data, config.training, config.model);
          assertEquals(again.val?.indices, val?.indices);
          seen++;
        }
      }
    }
  }
  assert(seen > 90, `${seen} splits`);
});

const years = (source: Source | null | undefined) => // of maps.nc: the gap is July and August 2002
[...new Set([...source!.indices!].map((row) => 2000 + Math.floor((row > 29 ? row + 2 : row) / 12)))];

Deno.test("parts are named by times, by values and by ranges, and say what they took", async () => {
  const { train, val, test, notes } = await open("maps.nc", {
    ...MAPS,
    lead: "1",
    validate_on: "2002",
    test_on: "2003..",
  });
  assertEquals([years(train), years(val), years(test)], [[2000, 2001], [2002], [2003, 2004]]);
  assertMatch(
    notes.join("\n"),
    /training 23 \(time 2000-01-16\.\.2001-11-16\), validation 8 \(time 2002-01-16\.\.2002-11-16\), test 13/,
  );
  const { val: north } = await open("maps.nc", {
    features: ["wind"],
    targets: ["ice"],
    validate_on: "lat=70..",
    test_on: "lat=60",
  }, "mlp");
  assert([...north!.indices!].every((row) => Math.floor(row / 6) % 5 >= 2));
  const table = { features: ["a"], targets: ["b"] };
  const stations = await open("stations.csv", {
    ...table,
    validate_on: "station=3,5..6",
    test_on: "region=north",
  }, "mlp");
  const station = (source: Source | null | undefined) =>
    [...new Set([...source!.indices!].map((row) => row % 8))].sort();
  assertEquals([station(stations.train), station(stations.val), station(stations.test)], [[4, 7], [3, 5, 6], [
    0,
    1,
    2,
  ]]);
  const dated = await open(
    "stations.csv",
    { ...table, validate_on: "2005..2006-06", test_on: "date=2009" },
    "mlp",
  );
  assertEquals([dated.val!.indices![0], dated.val!.length, dated.test!.length], [120, 36, 24]);
  // A column that tells samples apart is no feature.
  const { train: plain } = await open("stations.csv", {
    targets: ["b"],
    split: "group:region",
    validate_on: "2005",
  }, "mlp");
  assertEquals(plain.input.shape, [3], "station, a and kind");
});

Deno.test("groups stay whole, classes keep their shares, and the last steps are the validation", async () => {
  const table = { features: ["a"], targets: ["b"], validation_split: 0.25 };
  const { train, val } = await open("stations.csv", { ...table, split: "group:station" }, "mlp");
  const of = (source: Source) => new Set([...source.indices!].map((row) => row % 8));
  assertEquals([of(train).size, of(val!).size, of(train).union(of(val!)).size], [6, 2, 8]);
  const classes = await open("stations.csv", {
    features: ["a"],
    targets: ["kind"],
    validation_split: 0.25,
    split: "stratified",
  }, "mlp");
  const ones = (source: Source) => [...source.indices!].filter((row) => row % 10 === 0).length;
  assertEquals([ones(classes.train), ones(classes.val!), classes.val!.length], [18, 6, 60]);
  const timed = await open("stations.csv", { ...table, split: "time" }, "mlp");
  assertEquals([timed.train.indices!.at(-1), timed.val!.indices![0]], [179, 180]);
  const blocks = await open("maps.nc", { ...MAPS, lead: "1", split: "blocks", validation_split: 0.2 });
  assert(blocks.val!.length > 0);
  const folds = await Promise.all(
    [1, 2, 3].map((k) => open("maps.nc", { ...MAPS, lead: "1", split: `fold:${k}/3` })),
  );
  assertEquals(folds.map(({ val }) => [val!.indices![0], val!.length]), [[0, 15], [16, 14], [32, 15]]);
  const untimed = await open("arrays.npz", { ...MAPS, lead: "1", history: 2, validation_split: 0.25 });
  assertEquals([[...untimed.val!.indices!][0], untimed.val!.length], [37, 10]);
  assertMatch(untimed.notes.join("\n"), /taken as regular steps/);
});

Deno.test("every fold holds out its own share, and together they hold out each sample, whatever is divided", async () => {
  const table = { features: ["a"], targets: ["b"] };
  const cases = [
    ["maps.nc", { ...MAPS, split: "blocks", features: ["wind"] }, "simple-convnet", 48],
    ["years", { ...MAPS, split: "file", features: ["wind"] }, "simple-convnet", 48],
    ["stations.csv", { ...table, split: "group:station" }, "mlp", 240],
    ["stations.csv", table, "mlp", 240],
    ["stations.csv", { features: ["a"], targets: ["kind"], split: "stratified" }, "mlp", 240],
  ] as const;
  for (const [name, data, model, samples] of cases) {
    const held: number[] = [];
    for (const fold of [1, 2, 3]) {
      const { train, val } = await open(name, {
        ...data,
        features: [...data.features],
        targets: [...data.targets],
        folds: 3,
        fold,
      }, model);
      held.push(...val!.indices!);
      assertEquals(train.length + val!.length, samples);
      if (name === "years") assert(years(val).every((year) => !years(train).includes(year)), `${years(val)}`);
    }
    assertEquals(held.sort((a, b) => a - b), range(0, samples), `${name} ${JSON.stringify(data)}`);
  }
  const { val } = await open("years", { ...MAPS, features: ["wind"], validate_on: "file=2001.nc,2003.nc" });
  assertEquals(years(val), [2001, 2003]);
  const chosen = { ...MAPS, features: ["wind"], sel: ["time=2001..2003"], test_on: "file=2002.nc" };
  assertEquals((await open("years", chosen)).test!.length, 10);
});

Deno.test("a map's points divided at random are warned about, with the remedy", async () => {
  const data = { features: ["wind"], targets: ["ice"] };
  assertMatch(
    (await open("maps.nc", data, "mlp")).warnings!.join(),
    /neighbours are nearly alike.*--split time/,
  );
  for (const told of [{ split: "time" }, { validate_on: "2001" }, { split: "random" }, { val_samples: 0 }]) {
    assertEquals((await open("maps.nc", { ...data, ...told }, "mlp")).warnings, []);
  }
  assertEquals((await open("maps.nc", data)).warnings, [], "whole maps are no neighbours in space");
  const days = { features: ["heat"], targets: ["time"] };
  assertSentence(
    "core/data/tables/windows: neighbouring times day",
    (await open("daily.nc", days, "mlp")).warnings!.join(),
  );
  assertEquals((await open("daily.nc", { ...days, split: "blocks" }, "mlp")).warnings, []);
});

Deno.test("what can't be divided or forecast is a sentence with the remedy", async () => {
  const forecast = { ...MAPS, lead: "1..3", history: 3 };
  assertMatch(
    await refused("backwards.nc", forecast),
    /goes backwards.*index 19.*index 20.*sortby\("time"\)/,
  );
  assertMatch(
    await refused("months.nc", { ...MAPS, lead: "1" }),
    /"months since 2000-01-01".*write the times in days/,
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, split: "random" }),
    /a step would be in several parts.*--split time/,
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, validate_on: "2010..2014" }),
    /no sample's time is 2010\.\.2014.*from 2000-01-16 to 2004-02-16/,
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, validate_on: "2001-05" }),
    /leaves no samples to validate with.*longer parts/,
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, validate_on: "2001..2002", test_on: "2002.." }),
    /both take sample 24.*2002-01-16/,
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, validate_on: "spring" }),
    /"spring" is no time: write it as 2010/,
  );
  assertSentence(
    "core/data/tables/windows: samples train steps",
    await refused("maps.nc", { ...forecast, history: 40 }),
  );
  assertSentence(
    "core/data/tables/windows: folds fold asks",
    await refused("maps.nc", { ...forecast, folds: 49 }),
  );
  assertMatch(
    await refused("maps.nc", { ...forecast, folds: 3, split: "fold:1/3" }),
    /both name a part: give one/,
  );
  assertMatch(await refused("maps.nc", { ...forecast, split: "file" }), /is not several/);
  assertMatch(await refused("maps.nc", { ...MAPS, features: ["ice"] }), /--lead 1/);
  assertMatch(
    await refused("maps.nc", { ...forecast, split: "fold:4/3" }),
    /a part from 1 to their number/,
  );
  const table = { features: ["a"], targets: ["b"] };
  assertMatch(
    await refused("stations.csv", { ...table, validate_on: "region=noth" }, "mlp"),
    /Did you mean "north"/,
  );
  assertMatch(
    await refused("stations.csv", { ...table, validate_on: "statoin=3" }, "mlp"),
    /no column "statoin".*"station"/,
  );
  assertMatch(
    await refused("stations.csv", { ...table, split: "stratified" }, "mlp"),
    /no class of a sample/,
  );
  assertMatch(
    await refused("arrays.npz", { ...MAPS, features: ["wind"], validate_on: "2010" }),
    /has no time along its samples/,
  );
});

Deno.test("persistence and climatology are numpy's, by month and by days around a day, without the year that is judged, in memory and streamed", async () => {
  const close = (ours: readonly number[] | null, theirs: readonly number[], what: string) =>
    theirs.forEach((error, k) => assertAlmostEquals(ours?.[k] ?? NaN, error, 1e-6 * error, what));
  for (const in_memory of ["yes", "no"] as const) {
    const months = { ...MAPS, history: 3, lead: "1..3", validate_on: "2002", test_on: "2003..", in_memory };
    const days = {
      features: ["heat"],
      targets: ["heat"],
      history: 2,
      lead: "1,5",
      validation_split: 0,
      in_memory,
    };
    const cases = [
      [await open("maps.nc", months), baselines.maps, baselines["maps trained"]],
      [await open("maps.nc", months, "mlp"), baselines.maps, baselines["maps trained"]],
      [
        await open("daily.nc", { ...days, test_on: "2000,2003" }, "mlp"),
        baselines.daily,
        baselines.trained,
      ],
    ] as const;
    for (const [{ test, train }, tested, trained] of cases) {
      for (const [judged, theirs] of [[test!, tested], [train, trained]] as const) {
        const ours = judged.baselines!(null), what = `${train.name}, in memory: ${in_memory}`;
        close(ours.persistence, theirs.persistence, what);
        close(ours.climatology, theirs.climatology, what);
      }
    }
  }
  const own = await open("years/{2000,2001}.nc", {
    ...{ ...MAPS, history: 3, lead: "1..3", validation_split: 0 },
    test_path: `${folder}/years/{2003,2004}.nc`,
  });
  const ours = own.test!.baselines!(null);
  close(ours.persistence, baselines.maps.persistence, "a file of its own");
  close(ours.climatology, baselines.maps.climatology, "the means of the files that are trained with");
  const { test: weighed } = await open("maps.nc", {
    ...MAPS,
    ...{ history: 3, lead: "1..3", validate_on: "2002", test_on: "2003.." },
  });
  const one = Float64Array.from({ length: 5 * 6 }, (_, point) => Number(point === 7));
  const expected = [1, 2, 3].map((lead) => {
    const errors = [...weighed!.indices!].map((row) => (ice[row + lead][7] - ice[row][7]) ** 2);
    return Math.sqrt(errors.reduce((sum, error) => sum + error, 0) / errors.length);
  });
  close(weighed!.baselines!(one).persistence, expected, "one point has all the weight");
  const { test } = await open("maps.nc", {
    features: ["wind"],
    targets: ["ice"],
    lead: "1",
    test_on: "2003..",
  });
  assertEquals(test!.baselines, undefined, "the past of the target is not known");
  const { train: alone } = await open("years/2000.nc", { ...MAPS, lead: "1", validation_split: 0 });
  assertEquals(alone.baselines!(null).climatology, null, "no other year than the one that is judged");
  const { val } = await open("arrays.npz", { ...MAPS, lead: "1" });
  assertEquals(val!.baselines!(null).climatology, null, "no dates");
});
