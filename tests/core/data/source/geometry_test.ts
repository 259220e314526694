// Resizing, cropping, flipping and turning against torchvision, Pillow and PyTorch; the sentences for what can't be.
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import {
  type Geometry,
  keepsWhole,
  openGeometry,
  sampleShape,
} from "../../../../core/data/source/geometry.ts";
import { listOf, stillSteps } from "../../../../core/data/augment/list.ts";
import type { Stored } from "../../../../core/data/augment/planes.ts";
import type { SampleNumbers } from "../../../../core/data/arrays/numbers.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { askPeer } from "../../../peer.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const NOTHING: Geometry = {
  resize: 0,
  centreCrop: 0,
  randomCrop: 0,
  padding: 0,
  flip: "none",
  rotate: false,
};
const TYPES = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
};
type Type = keyof typeof TYPES;
type Layout = "planes" | "interleaved" | "transposed";

interface Case {
  plan: Geometry;
  dtype: Type;
  shape: number[];
  values: number[];
  draw: number[] | null;
  layout: Layout;
}

const random = uniform(key(3, "geometry test"));
let drawn = 0;
const next = (below: number) => Math.floor(random(drawn++) * below);

function image(dtype: Type, shape: number[]): Pick<Case, "dtype" | "shape" | "values"> {
  const count = shape.reduce((a, b) => a * b, 1);
  const range = dtype === "int8" ? 128 : dtype.startsWith("uint8") ? 256 : 30000;
  const value = () => dtype.startsWith("float") ? next(1 << 20) / (1 << 16) - 8 : next(range);
  return { dtype, shape, values: Array.from({ length: count }, value) };
}

const LAYOUTS: Record<Layout, (shape: number[]) => number[]> = {
  planes: ([, h, w]) => [h * w, w, 1],
  interleaved: ([c, , w]) => [1, w * c, c],
  transposed: ([, h, w]) => [h * w, 1, h],
};

/** The image as a reader may hold it: in any layout, at the start of a longer buffer. */
function stored({ dtype, shape, values, layout }: Case): Stored {
  const data: SampleNumbers = new TYPES[dtype](values.length + 5), [c, h, w] = shape;
  const strides = LAYOUTS[layout](shape);
  for (let i = 0; i < values.length; i++) {
    const [x, y, z] = [i % w, Math.floor(i / w) % h, Math.floor(i / w / h) % c];
    const at = z * strides[0] + y * strides[1] + x * strides[2];
    data[at] = (data instanceof BigInt64Array || data instanceof BigUint64Array
      ? BigInt(values[i])
      : values[i]) as never;
  }
  return layout === "planes" ? { data, shape } : { data, shape, strides };
}

function run(c: Case): { shape: number[]; values: number[] } {
  const shape = sampleShape(c.plan, c.shape, "test");
  const into: SampleNumbers = new TYPES[c.dtype](shape.reduce((a, b) => a * b, 1));
  into.fill((into instanceof BigInt64Array || into instanceof BigUint64Array ? 99n : 99) as never);
  const { draw } = c;
  openGeometry(c.plan, shape)(stored(c), into, draw && ((k) => draw[k]));
  return { shape, values: Array.from(into, Number) };
}

const draws = () => Array.from({ length: 5 }, () => next(1 << 20) / (1 << 20));
const plans: Partial<Geometry>[] = [
  {},
  { centreCrop: 9 },
  { centreCrop: 12 },
  { randomCrop: 8 },
  { randomCrop: 13, padding: 4 },
  { centreCrop: 10, randomCrop: 12, padding: 3 },
  { flip: "horizontal" },
  { flip: "both" },
  { centreCrop: 11, rotate: true },
  { randomCrop: 9, padding: 2, flip: "both", rotate: true },
];
const SHAPES = [[3, 13, 17], [1, 18, 14], [4, 14, 15]];

const whole: Case[] = (Object.keys(TYPES) as Type[]).flatMap((dtype, t) =>
  plans.flatMap((plan, p) =>
    [0, 1].map((turn): Case => ({
      ...image(dtype, SHAPES[(t + p) % 3]),
      plan: { ...NOTHING, ...plan },
      draw: turn === 0 && p % 2 === 0 ? null : draws(),
      layout: (Object.keys(LAYOUTS) as Layout[])[(t + p + turn) % 3],
    }))
  )
);
const everyTurn: Case[] = Array.from({ length: 16 }, (_, i) => ({
  ...image("uint8", [3, 70, 70]), // rows long enough to be copied whole
  plan: { ...NOTHING, flip: "both", rotate: true },
  draw: [0, 0, i & 1 ? 0.2 : 0.7, i & 2 ? 0.2 : 0.7, (i >> 2) / 4 + 0.1],
  layout: i % 2 ? "planes" : "interleaved",
}));
const SIZES = [[3, 40, 55], [1, 64, 31], [3, 7, 90], [2, 33, 33], [3, 50, 20], [3, 80, 21], [1, 1, 9], [
  1,
  5,
  1,
]];
const resized = (dtype: Type): Case[] =>
  SIZES.flatMap((shape, s) =>
    [5, 16, 32, 33, 70].map((resize, i): Case => ({
      ...image(dtype, shape),
      plan: {
        ...NOTHING,
        resize,
        ...(s > 3 || i === 0 ? {} : { randomCrop: resize - 2, padding: 1, flip: "both" }),
      },
      draw: i % 2 ? null : draws(),
      layout: (Object.keys(LAYOUTS) as Layout[])[(s + i) % 3],
    }))
  );
const bytes = resized("uint8"), floats = [...resized("float32"), ...resized("float64")];
const integers = resized("int16");

const cases = [...whole, ...everyTurn, ...bytes, ...integers, ...floats];
const theirs = await askPeer<{ shape: number[]; values: number[] }[]>("transforms.py", cases);
const expected = (c: Case) => theirs[cases.indexOf(c)];
const name = (c: Case) => JSON.stringify({ ...c, values: undefined });

Deno.test("crops, flips and turns of every type and layout are torchvision's", () => {
  for (const c of [...whole, ...everyTurn]) assertEquals(run(c), expected(c), name(c));
});

Deno.test("resized bytes are Pillow's to the last bit, for any part of the image that is wanted", () => {
  for (const c of bytes) assertEquals(run(c), expected(c), name(c));
});

Deno.test("resized floats are PyTorch's antialiased interpolation in double precision, rounded to their type", () => {
  for (const c of floats) {
    const tolerance = c.dtype === "float32" ? 4e-7 : 1e-14; // of values up to 8
    const ours = run(c), { shape, values } = expected(c);
    assertEquals(ours.shape, shape, name(c));
    ours.values.forEach((x, i) => assertAlmostEquals(x, values[i], tolerance, name(c)));
  }
});

Deno.test("resized whole numbers are PyTorch's, but for the rounding of its single precision", () => {
  for (const c of integers) {
    const ours = run(c), { shape, values } = expected(c);
    assertEquals(ours.shape, shape, name(c));
    let differ = 0;
    ours.values.forEach((x, i) => {
      assert(Math.abs(x - values[i]) <= 1, name(c));
      if (x !== values[i]) differ++;
    });
    assert(differ <= values.length / 20 + 1, `${differ} of ${values.length} differ: ${name(c)}`);
  }
});

Deno.test("one plan does images of many sizes, one after another", () => {
  const plan = { ...NOTHING, resize: 24, centreCrop: 20 };
  const arrange = openGeometry(plan, [3, 20, 20]);
  for (const [h, w] of [[90, 30], [24, 24], [20, 200], [61, 47], [90, 30]]) {
    const c: Case = { ...image("uint8", [3, h, w]), plan, draw: null, layout: "interleaved" };
    const into = new Uint8Array(1200);
    arrange(stored(c), into, null);
    assertEquals([...into], run(c).values);
  }
});

Deno.test("data of other dimensions passes through a plan that does nothing", () => {
  const into = new Float32Array(24);
  const data = Float32Array.from({ length: 24 }, (_, i) => i);
  openGeometry(NOTHING, [24])({ data, shape: [24] }, into, null);
  assertEquals(into, data);
  // Fortran's order, in four dimensions and in one
  openGeometry(NOTHING, [2, 3, 2, 2])({ data, shape: [2, 3, 2, 2], strides: [1, 2, 6, 12] }, into, null);
  const at = (i: number) => (i >> 2) / 3 % 2 | 0, rest = (i: number) => (i >> 2) % 3;
  assertEquals(
    [...into],
    Array.from({ length: 24 }, (_, i) => at(i) + 2 * rest(i) + 6 * ((i >> 1) & 1) + 12 * (i & 1)),
  );
  openGeometry(NOTHING, [12])({ data, shape: [12], strides: [2] }, into.subarray(0, 12), null);
  assertEquals([...into.subarray(0, 12)], Array.from({ length: 12 }, (_, i) => 2 * i));
});

for (
  const [title, plan, shape, said] of [
    [
      "a centre crop",
      { centreCrop: 32 },
      [3, 28, 40],
      sentenceNamed("core/data/source/geometry: pixels high wide"),
    ],
    ["a random crop", { randomCrop: 33, padding: 2 }, [3, 28, 40], "smaller than --random-crop 33"],
    [
      "a crop after a resize",
      { resize: 20, centreCrop: 21 },
      [3, 28, 40],
      "20 pixels high and 28 wide after --resize",
    ],
    ["a crop of a crop", { centreCrop: 20, randomCrop: 21 }, [3, 28, 40], "take a smaller --random-crop"],
    [
      "turns of oblongs",
      { rotate: true },
      [3, 28, 40],
      sentenceNamed("core/data/source/geometry: rotate needs squares"),
    ],
    [
      "images without channels",
      { flip: "both", resize: 8 },
      [28, 40],
      "--resize and --flip can only be used with images",
    ],
    ["features", { randomCrop: 2 }, [7], "samples of shape [7], but --random-crop can only"],
    ["padding without a crop", { padding: 2 }, [3, 28, 28], "add --random-crop, or leave --crop-padding out"],
  ] as const
) {
  Deno.test(`${title} that can't be is refused before the run`, () => {
    const error = assertThrows(() => sampleShape({ ...NOTHING, ...plan }, shape, "photos"), UserError);
    assertEquals(error.kind, "usage");
    assertStringIncludes(error.message, said);
  });
}

Deno.test("a sample is all of an image only where nothing was cut off, whatever size it came to", () => {
  const list = (text: string): Partial<Geometry> => ({
    list: { steps: stillSteps(listOf(text)!.steps), role: "picture", outside: null, target: false },
  });
  const patch = { height: 8, width: 8, wraps: [false, false], unit: 1 } as const;
  const cases: [plan: Partial<Geometry>, size: [number, number], whole: boolean][] = [
    [{}, [30, 50], true],
    [{ resize: 24 }, [30, 50], true],
    [{ centreCrop: 24 }, [30, 30], false],
    [{ centreCrop: 30 }, [30, 30], true],
    [{ resize: 24, centreCrop: 24 }, [30, 30], true],
    [{ resize: 24, centreCrop: 24 }, [30, 50], false],
    [{ patch }, [30, 30], false],
    [list("grayscale(1), resize((20, 28))"), [30, 50], true],
    [list("resize(32), centre_crop(28)"), [40, 40], false],
    [list("resize((28, 28)), random_crop(28)"), [40, 50], true],
  ];
  assertEquals(keepsWhole(null, [30, 50]), true);
  for (const [plan, size, whole] of cases) {
    assertEquals(keepsWhole({ ...NOTHING, ...plan }, size), whole, JSON.stringify(plan));
  }
});

Deno.test("a sample of another size is a bad sample, also where it has as many pixels", () => {
  const bad = (plan: Partial<Geometry>, expected: number[], shape: number[]) => {
    const into = new Uint8Array(expected.reduce((a, b) => a * b, 1));
    const data = new Uint8Array(shape.reduce((a, b) => a * b, 1));
    const arrange = openGeometry({ ...NOTHING, ...plan }, expected);
    return assertThrows(() => arrange({ data, shape }, into, null), BadSample).reason;
  };
  assertSentence("core/data/source/geometry: samples expected bring", bad({}, [3, 20, 10], [3, 10, 20]));
  assertSentence(
    "core/data/source/geometry: becomes samples expected",
    bad({ resize: 16 }, [3, 16, 16], [3, 10, 20]),
  );
  assertStringIncludes(bad({ centreCrop: 16 }, [3, 16, 16], [3, 15, 20]), "smaller than --centre-crop 16");
  assertStringIncludes(bad({ flip: "both" }, [3, 16, 16], [1, 16, 16]), "[1, 16, 16]");
});

Deno.test("whole numbers of 64 bits can't be resized, and the reason says so", () => {
  const arrange = openGeometry({ ...NOTHING, resize: 2 }, [1, 2, 2]);
  const error = assertThrows(
    () => arrange({ data: new BigInt64Array(16), shape: [1, 4, 4] }, new BigInt64Array(4), null),
    BadSample,
  );
  assertStringIncludes(error.reason, "store them in 32 bits");
});

Deno.test("a plan with fewer pixels in sight than padding gives zeros", () => {
  const plan = { ...NOTHING, randomCrop: 2, padding: 5 };
  const into = new Uint8Array(4).fill(9);
  openGeometry(plan, [1, 2, 2])({ data: new Uint8Array(9).fill(1), shape: [1, 3, 3] }, into, () => 0);
  assertEquals([...into], [0, 0, 0, 0]);
});
