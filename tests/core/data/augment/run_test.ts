// Steps on samples: masks, missing points and vectors follow pictures and maps, and draws have torchvision's distributions.
import { assert, assertAlmostEquals, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { KINDS } from "../../../../core/data/augment/kinds.ts";
import { listOf, shapeAfter } from "../../../../core/data/augment/list.ts";
import { openSteps, type Steps } from "../../../../core/data/augment/run.ts";
import { erasedBox } from "../../../../core/data/augment/erase.ts";
import { normals, Room, Sample } from "../../../../core/data/augment/sample.ts";
import { resizedCropBox } from "../../../../core/data/augment/shape.ts";
import { rotate } from "../../../../core/data/augment/warp.ts";
import { AS_IT_IS, openGeometry } from "../../../../core/data/source/geometry.ts";
import { drawsOf } from "../../../../core/data/source/pipeline.ts";
import { peer } from "../../../peer.ts";

const steps = (text: string, more: Partial<Steps> = {}): Steps => ({
  ...{ steps: listOf(text)!.steps, role: "picture", outside: null, target: false },
  ...more,
});

const LOOK = { interpolation: "bilinear", fill: null } as const;

Deno.test("a mask goes wherever its picture goes, through every kind of list, and is the ignored class outside", () => {
  const [height, width] = [37, 52], count = height * width;
  const labels = BigInt64Array.from({ length: count }, (_, i) => BigInt((i * 7919) % 199));
  const picture = Uint8Array.from(labels, Number);
  const places = Object.keys(KINDS).filter((name) => KINDS[name].acts === "places");
  const given: Record<string, string> = {
    ...{ random_resized_crop: "(24, interpolation=nearest)", resize: "((24, 30), interpolation=nearest)" },
    ...{ centre_crop: "(30)", random_crop: "(30, padding=6, fill=255)", pad: "((3, 5), fill=255)" },
    ...{ rotation: "(90, fill=255)", affine: "(30, (0.2, 0.1), (0.7, 1.3), (-9, 9, -4, 4), fill=255)" },
    ...{ perspective: "(0.6, 1, interpolation=nearest, fill=255)" },
    ...{ elastic: "(90, 3, interpolation=nearest, fill=255)", quarter_turns: "" },
    ...{ time_crop: "(20)", middle_crop: "(20)" },
  };
  const lists = [
    ...places.filter((name) => name !== "quarter_turns").map((name) => `${name}${given[name] ?? ""}`),
    "centre_crop(30), quarter_turns",
    "random_order([horizontal_flip, rotation(45, fill=255), vertical_flip]), random_apply([affine(20, fill=255)])",
    "random_choice([perspective(0.5, 1, interpolation=nearest, fill=255), elastic(50, 4, interpolation=nearest, fill=255)])",
    "rand_augment(3, 20, fill=255), random_erasing(1, value=0)",
  ];
  for (const text of lists) {
    const shape = shapeAfter(listOf(text)!.steps, [1, height, width]);
    assert(typeof shape !== "string", text);
    // The colours of a policy would change a picture: a map has none.
    const seen = openSteps(
      steps(text, { target: true, ...(/rand_/.test(text) && { role: "map", outside: 255 }) }),
      shape,
    );
    const follows = openSteps(steps(text, { role: "classes", outside: -100, target: true }), shape);
    const draws = [drawsOf(3), drawsOf(3)];
    let outside = 0;
    for (let id = 0; id < 12; id++) {
      const from = { data: picture, shape: [1, height, width] },
        beside = { data: labels, shape: [1, height, width] };
      const moved = new Uint8Array(shape[1] * shape[2]), classes = new BigInt64Array(moved.length);
      seen(from, draws[0](id, 1)).writeTo(moved);
      follows(beside, draws[1](id, 1)).writeTo(classes);
      assertEquals(
        [...classes].map((label) => label === -100n ? 255 : Number(label)),
        [...moved].map((x, i) => classes[i] === -100n ? 255 : x),
        text,
      );
      outside += classes.reduce((sum, label) => sum + (label === -100n ? 1 : 0), 0);
    }
    if (/fill/.test(text)) assert(outside > 0, text);
  }
});

Deno.test("classes take the nearest of where their picture is blended, at the same places", () => {
  const shape = [1, 37, 52], count = 37 * 52;
  const labels = Int32Array.from({ length: count }, (_, i) => (i * 7919) % 199);
  for (const made of ["random_resized_crop(24", "resize((80, 30)", "rotation(40, fill=3"]) {
    const ways = ["bilinear", "nearest", ...(made.startsWith("ro") ? [] : ["bicubic"])].map((way) => {
      const list = steps(`${made}, interpolation=${way}), horizontal_flip`, {
        ...{ role: "classes", outside: -100, target: true },
      });
      const to = shapeAfter(list.steps, [1, 37, 52]) as [number, number, number];
      const open = openSteps(list, to), into = new Int32Array(to[1] * to[2]);
      return [0, 1, 2, 3, 4].map((id) => {
        open({ data: labels, shape }, drawsOf(6)(id, 2)).writeTo(into);
        return [...into];
      });
    });
    for (const way of ways) assertEquals(way, ways[1], made);
    assert(new Set(ways[0].map(String)).size > 1, made);
  }
});

Deno.test("a missing point of a map stays one point: no neighbour is blended with it, and what comes from outside is missing", () => {
  const [height, width] = [40, 40];
  const field = Float32Array.from(
    { length: height * width },
    (_, i) => 10 + Math.sin(i % width / 6) + Math.floor(i / width) / 9,
  );
  const holes = field.slice();
  for (const at of [5 * 40 + 7, 20 * 40 + 20, 20 * 40 + 21, 33 * 40 + 12]) holes[at] = NaN;
  for (
    const text of [
      "rotation(30, interpolation=bilinear)",
      "affine(20, (0.1, 0.1), (0.8, 1.2), interpolation=bilinear)",
      "elastic(30, 4)",
      "perspective(0.4, 1)",
      "resize((53, 61))",
      "random_resized_crop(40, scale=(0.5, 1))",
      "gaussian_blur(5, 1)",
    ]
  ) {
    const shape = shapeAfter(listOf(text)!.steps, [1, height, width]) as readonly [number, number, number],
      map = { role: "map", outside: NaN } as const;
    const run = openSteps(steps(text, map), shape), draws = drawsOf(8);
    for (let id = 0; id < 8; id++) {
      const [whole, holed] = [field, holes].map((data) => {
        const into = new Float32Array(shape[1] * shape[2]);
        run({ data, shape: [1, height, width] }, draws(id, 0)).writeTo(into);
        return into;
      });
      let missing = 0;
      whole.forEach((value, i) => {
        if (Number.isNaN(value)) return assert(Number.isNaN(holed[i]));
        if (Number.isNaN(holed[i])) missing++;
        else assert(Math.abs(value - holed[i]) < 0.5, `${text}: ${value} and ${holed[i]}`);
      });
      // A crop of half the map may show each point at twice its size.
      assert(missing <= 4 * 2.5 * shape[1] * shape[2] / (height * width) + 4, `${text}: ${missing}`);
    }
  }
});

Deno.test("vectors turn with their map by any angle: slopes of a turned field are its turned slopes, whichever way v points", () => {
  const side = 48, count = side * side;
  const at = (i: number) => [i % side - 23.5, Math.floor(i / side) - 23.5];
  const maps = new Float32Array(3 * count);
  for (const sense of [1, -1] as const) {
    for (let i = 0; i < count; i++) {
      const [x, y] = at(i);
      maps[i] = x * x / 20 - x * y / 15 + y;
      maps[count + i] = x / 10 - y / 15;
      maps[2 * count + i] = sense * (-x / 15 + 1);
    }
    const plan = { ...AS_IT_IS, vectors: { pairs: [[1, 2]] as const, sense } };
    for (
      const text of [
        "rotation((33, 33), interpolation=bilinear)",
        "rotation((90, 90)), horizontal_flip(1)",
        "vertical_flip(1), affine((-70, -70), interpolation=bilinear)",
        "quarter_turns, horizontal_flip",
      ]
    ) {
      const list = steps(text, { role: "map", outside: NaN });
      const into = new Float32Array(3 * count);
      openGeometry({ ...plan, list }, [3, side, side])(
        { data: maps, shape: [3, side, side] },
        into,
        drawsOf(2)(5, 0)!,
      );
      for (let row = 20; row < 28; row++) {
        for (let column = 20; column < 28; column++) {
          const i = row * side + column;
          const [east, down] = [(into[i + 1] - into[i - 1]) / 2, (into[i + side] - into[i - side]) / 2];
          assertAlmostEquals(into[count + i], east, 0.06, text);
          assertAlmostEquals(into[2 * count + i], sense * down, 0.06, text);
        }
      }
    }
  }
});

Deno.test("a sample is the same whatever was read before it, and another in the next epoch and of another seed", () => {
  const text =
    "random_resized_crop(16), horizontal_flip, rand_augment, gaussian_noise(0, 0.1), elastic(20, 2), random_erasing(1, value=random), aug_mix";
  const data = Uint8Array.from({ length: 3 * 40 * 50 }, (_, i) => i * 31), shape = [3, 16, 16];
  const read = (ids: readonly number[], epoch: number, seed: number) => {
    const run = openSteps(steps(text), shape), draws = drawsOf(seed);
    return new Map(ids.map((id) => {
      const into = new Uint8Array(768);
      run({ data, shape: [3, 40, 50] }, draws(id, epoch)).writeTo(into);
      return [id, String(into)];
    }));
  };
  const first = read([0, 1, 2, 3, 4, 5], 1, 7);
  for (const [id, seen] of read([5, 2, 0], 1, 7)) assertEquals(seen, first.get(id));
  assertEquals(new Set(first.values()).size, 6);
  assertNotEquals(read([3], 2, 7).get(3), first.get(3));
  assertNotEquals(read([3], 1, 8).get(3), first.get(3));
});

Deno.test("evaluation's steps need no draws, and a sample that comes out otherwise is named", () => {
  const run = openSteps(steps("resize(20), centre_crop(16)"), [3, 16, 16]);
  const into = new Uint8Array(768);
  run({ data: new Uint8Array(3 * 30 * 40).fill(9), shape: [3, 30, 40] }, null).writeTo(into);
  assert(into.every((x) => x === 9));
  const other = openSteps(steps("resize(20)"), [3, 20, 26]);
  const error = assertThrows(
    () => other({ data: new Uint8Array(3 * 30 * 30), shape: [3, 30, 30] }, null),
    BadSample,
  );
  assert(error.reason.includes("becomes [3, 20, 20]"), error.reason);
});

const COUNT = 8000;

function spread(rows: readonly (readonly number[])[]): number[][] {
  return rows[0].map((_, k) => {
    const column = rows.map((row) => row[k]), mean = column.reduce((a, b) => a + b, 0) / column.length;
    return [mean, Math.sqrt(column.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (column.length - 1))];
  });
}

const PICTURES = 250;

interface Drawn {
  readonly crop: number[][];
  readonly erased: number[][];
  readonly policies: Record<string, number[][]>;
}

/** Two means of so many draws each are as far apart as chance allows, and deviations, too. */
function assertNear(ours: number[][], theirs: number[][], count: number, what: string): void {
  ours.forEach(([mean, deviation], k) => {
    const [expected, wide] = theirs[k], error = wide * Math.sqrt(2 / count);
    assert(Math.abs(mean - expected) < 5 * error, `${what} ${k}: ${mean} and ${expected}, each to ${error}`);
    assertAlmostEquals(deviation / wide, 1, 8 / Math.sqrt(count), `${what} ${k}: ${deviation} and ${wide}`);
  });
}

Deno.test("crops, boxes, and the pictures of policies, colours and maps are drawn as torchvision draws them", async () => {
  const { stdout, success, stderr } = await peer([
    new URL("../../../peers/torchvision_draws.py", import.meta.url).pathname,
    ...[COUNT, PICTURES].map(String),
  ], { stdout: "piped", stderr: "piped" }).output();
  assert(success, new TextDecoder().decode(stderr));
  const theirs: Drawn = JSON.parse(new TextDecoder().decode(stdout));
  const at = uniform(key(4, "draws test")), size = [60, 90] as const;
  const rows = (of: (draw: (k: number) => number) => readonly number[] | null) =>
    Array.from({ length: COUNT }, (_, i) => of((k) => at(i * 1024 + k))).filter((row) => row !== null);
  const crops = rows((draw) => resizedCropBox(size, [0.2, 1], [3 / 4, 4 / 3], draw));
  assertNear(spread(crops), theirs.crop, COUNT, "crop");
  const boxes = rows((draw) => {
    const box = erasedBox(size, [0.02, 0.33], [0.3, 3.3], draw);
    return box && [box.top, box.left, box.height, box.width];
  });
  assertNear(spread(boxes), theirs.erased, COUNT, "erased box");
  const [height, width] = [36, 40], shape = [3, height, width];
  const data = Uint8Array.from({ length: 3 * height * width }, (_, i) => {
    const x = i % width, y = Math.floor(i / width) % height, c = Math.floor(i / width / height);
    return (x * 6 + y * c * 3) % 230 + 20;
  });
  assertEquals(Object.keys(theirs.policies).length, 11);
  for (const [name, expected] of Object.entries(theirs.policies)) {
    const run = openSteps(steps(name), shape), draws = drawsOf(12), into = new Uint8Array(data.length);
    const pictures = Array.from({ length: PICTURES }, (_, id) => {
      run({ data, shape }, draws(id, 0)).writeTo(into);
      let sum = 0, squares = 0;
      for (const x of into) [sum, squares] = [sum + x, squares + x * x];
      const mean = sum / into.length;
      return [mean, Math.sqrt(squares / into.length - mean * mean)];
    });
    assertNear(spread(pictures), expected, PICTURES, name);
  }
});

Deno.test("series and spectrograms: masks, shifts, scales and crops along time, of two dimensions and of three", () => {
  const series = Float32Array.from({ length: 4 * 50 }, (_, i) => 100 * Math.floor(i / 50) + i % 50);
  const seen = (text: string, from: number[], to: number[], data = series, id = 3) => {
    const into = new Float32Array(to.reduce((a, b) => a * b, 1));
    openSteps(steps(text, { role: "map", outside: NaN }), to)({ data, shape: from }, drawsOf(5)(id, 0))
      .writeTo(into);
    return [...into];
  };
  const rowOf = (values: number[], row: number, length = 50) =>
    values.slice(row * length, (row + 1) * length);
  const masked = seen("time_mask(20, value=-1)", [4, 50], [4, 50]);
  const gone = rowOf(masked, 0).map((x) => x === -1);
  assert(gone.includes(true) && gone.includes(false) && gone.lastIndexOf(true) - gone.indexOf(true) < 20);
  for (const row of [1, 2, 3]) assertEquals(rowOf(masked, row).map((x) => x === -1), gone);
  const frequencies = seen("frequency_mask(3, value=-1)", [1, 4, 50], [1, 4, 50], series, 1);
  const rows = [0, 1, 2, 3].map((row) => new Set(rowOf(frequencies, row).map((x) => x === -1)));
  assert(
    rows.every(({ size }) => size === 1) && rows.some((row) => row.has(true)) &&
      rows.some((row) => row.has(false)),
  );
  const mean = series.reduce((a, b) => a + b, 0) / 200;
  const means = seen("time_mask(20)", [4, 50], [4, 50]).filter((x, i) => x !== series[i]);
  assert(means.length > 0 && means.every((x) => Math.abs(x - mean) < 1e-3));
  const shifted = rowOf(seen("time_shift(30)", [4, 50], [4, 50]), 2);
  assertEquals(shifted.toSorted((a, b) => a - b), rowOf([...series], 2));
  assertEquals(shifted.map((x, i) => (x - shifted[0] - i + 100) % 50), shifted.map(() => 0));
  const crop = rowOf(seen("time_crop(16)", [4, 50], [4, 16]), 1, 16);
  assertEquals(crop, Array.from({ length: 16 }, (_, i) => crop[0] + i));
  const scaled = seen("scaling(0.2)", [4, 50], [4, 50]), by = scaled[199] / series[199];
  assert(by !== 1);
  rowOf(scaled, 3).forEach((x, i) => assertAlmostEquals(x, by * series[150 + i], 1e-2));
  const jitters = seen("jitter(0.5)", [4, 50], [4, 50]).map((x, i) => x - series[i]);
  assertAlmostEquals(spread(jitters.map((x) => [x]))[0][1], 0.5, 0.12);
});

Deno.test("noise is normal", () => {
  const at = normals(uniform(key(1, "noise")), 0), values = Array.from({ length: 50_000 }, (_, i) => at(i));
  const moment = (n: number) => values.reduce((sum, x) => sum + x ** n, 0) / values.length;
  assertAlmostEquals(moment(1), 0, 0.02);
  assertAlmostEquals(moment(2), 1, 0.03);
  assertAlmostEquals(moment(4), 3, 0.2);
});

Deno.test("a turn by 90 degrees is the view of a quarter turn, on squares", () => {
  const data = Float32Array.from({ length: 25 }, (_, i) => i), room = new Room();
  const [turned, viewed] = [0, 1].map(() => new Sample(room, { data, shape: [1, 5, 5] }, "picture", null));
  rotate(turned, { angle: -270, centre: null }, LOOK);
  viewed.quarters(1);
  assertEquals([...turned.own()], [...viewed.own()]);
  assertEquals(turned.turn, viewed.turn);
});
