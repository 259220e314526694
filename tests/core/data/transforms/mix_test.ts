// mixup and cutmix against torchvision, the Beta distribution against scipy, and batches cut in any way.
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import type { Batch, Part } from "../../../../core/data/source/source.ts";
import { boxOf, drawnMix, mix, mixer, type Mixing, oneHot } from "../../../../core/data/transforms/mix.ts";
import { symmetricBeta } from "../../../../core/data/augment/beta.ts";
import { UserError } from "../../../../core/base/errors.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { askPeer } from "../../../peer.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();

const SIZE = [2, 6, 9] as const, VALUES = 2 * 6 * 9, CLASSES = 4;

/** Sample `id`: pixels and a label that are its own. */
const pixels = uniform(key(1, "mix test"));
const pixelsOf = (ids: Int32Array) =>
  Float32Array.from(
    { length: ids.length * VALUES },
    (_, i) => pixels(ids[Math.floor(i / VALUES)] * VALUES + i % VALUES),
  );
const labelOf = (id: number) => (id * 7) % CLASSES;

function batch({ ids }: Part): Batch {
  return {
    input: tensor(pixelsOf(ids), [ids.length, ...SIZE]),
    target: oneHot(tensor(BigInt64Array.from(ids, (id) => BigInt(labelOf(id)))), CLASSES),
  };
}

const pairOf = (a: number, b: number): Part => ({
  epoch: 3,
  ids: Int32Array.of(a, b),
  count: 2,
  mates: Int32Array.of(1, 0),
});
const alphas: Omit<Mixing, "seed">[] = [
  { mixup: 0.4, cutmix: 0 },
  { mixup: 0, cutmix: 1 },
  { mixup: 2, cutmix: 1 },
];
const pairs = alphas.flatMap((alpha) =>
  Array.from({ length: 12 }, (_, i) => ({ part: pairOf(2 * i, 2 * i + 1), mixing: { seed: 5, ...alpha } }))
);
/** With the pixels, label vectors or numbers, and the share and box that were drawn. */
const sent = pairs.map(({ part, mixing }, i) => {
  const { shares, targetShares, boxes } = drawnMix(part, mixing, SIZE[1], SIZE[2]);
  const cut = shares[0] === 1;
  const { input, target } = batch(part);
  return {
    input: [...toNumbers(input)],
    shape: [2, ...SIZE],
    target: i % 2 ? [1.5, -2] : Array.from(toNumbers(target)),
    classes: i % 2 ? 1 : CLASSES,
    share: targetShares[0],
    box: cut ? boxes.map((edges) => edges[0]) : null,
  };
});
const boxCases = Array.from({ length: 60 }, (_, i) => {
  const at = uniform(key(9, "boxes", i));
  return [i === 0 ? 0 : i === 1 ? 1 : at(0), at(1), at(2), 5 + i % 7, 14 + i % 5];
});
const ALPHAS = [0.05, 0.2, 0.5, 1, 1.5, 8, 100], COUNT = 20_000;
const betas = ALPHAS.map((alpha) => {
  const at = uniform(key(2, "beta", alpha));
  return {
    alpha,
    values: Array.from({ length: COUNT }, (_, i) => symmetricBeta(alpha, (k) => at(i * 1024 + k))),
  };
});
const theirs = await askPeer<{
  mixed: { input: number[]; target: number[] }[];
  boxes: { box: number[]; share: number }[];
  agreement: number[];
}>("mixing.py", {
  mixed: sent.map((c) => ({
    ...c,
    target: c.classes === 1 ? c.target : [c.target.slice(0, CLASSES), c.target.slice(CLASSES)],
  })),
  boxes: boxCases,
  beta: betas.map(({ alpha, values }) => ({ alpha, values: values.slice(0, 4000) })),
});

Deno.test("a pair is mixed as torchvision mixes it, to the last bit, by mixup and by cutmix", () => {
  let cut = 0;
  pairs.forEach(({ part, mixing }, i) => {
    const { input, target, classes, box } = sent[i];
    if (box) cut++;
    scope(() => {
      const shape = classes === 1 ? [2] : [2, classes];
      const ours = mix(
        {
          input: tensor(Float32Array.from(input), [2, ...SIZE]),
          target: tensor(Float32Array.from(target), shape),
        },
        part,
        mixing,
      );
      assertEquals(ours.target.shape, shape);
      assertEquals(Array.from(toNumbers(ours.input)), theirs.mixed[i].input);
      assertEquals(Array.from(toNumbers(ours.target)), theirs.mixed[i].target);
    });
  });
  assert(cut > 12 && cut < 24, `${cut} of the last 12 pairs and 12 more by cutmix`);
});

Deno.test("a box has torchvision's edges, and its target the exact area", () => {
  boxCases.forEach(([share, row, column, height, width], i) => {
    const box = boxOf(share, row, column, height, width);
    assertEquals(box, theirs.boxes[i].box);
    const [top, bottom, left, right] = box;
    assertEquals(1 - (bottom - top) * (right - left) / (height * width), theirs.boxes[i].share);
  });
});

Deno.test("shares are distributed as Beta(alpha, alpha), in mean and variance and by scipy's test", () => {
  betas.forEach(({ alpha, values }, i) => {
    assert(values.every((x) => x >= 0 && x <= 1), `alpha ${alpha}`);
    const mean = values.reduce((a, b) => a + b) / COUNT;
    const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / COUNT;
    const expected = 1 / (4 * (2 * alpha + 1));
    assertAlmostEquals(mean, 0.5, 4 * Math.sqrt(expected / COUNT), `alpha ${alpha}`);
    assertAlmostEquals(variance, expected, 0.04 * expected, `alpha ${alpha}`);
    // Numbers below 1e-16 from 0 or 1 are lost to a small alpha, and so scipy's test is only for the others.
    if (alpha >= 0.2) assert(theirs.agreement[i] > 1e-3, `alpha ${alpha}: p = ${theirs.agreement[i]}`);
  });
});

Deno.test("the same global batch on 1, 2 and 4 ranks, in parts of any size, has the same mixed samples", () => {
  const samples = order(43, 8, 2, true), mixing = { seed: 8, mixup: 0.3, cutmix: 1 };
  const rowsOf = (step: number, world: number, micro: number) => {
    const rows: number[][] = [];
    for (let rank = 0; rank < world; rank++) {
      for (const part of partsOf(samples, step, { global: 16, micro }, 2, true, rank, world)) {
        scope(() => {
          const { input, target } = mix(batch(part), part, mixing);
          assertEquals(input.shape[0], part.count);
          const [x, y] = [toNumbers(input), toNumbers(target)];
          for (let i = 0; i < part.count; i++) {
            rows.push([
              ...x.subarray(i * VALUES, (i + 1) * VALUES),
              ...y.subarray(i * CLASSES, (i + 1) * CLASSES),
            ]);
          }
        });
      }
    }
    return rows;
  };
  for (const step of [0, 2]) { // the last one has 11 samples, one of them without a mate
    const whole = rowsOf(step, 1, 64);
    assertEquals(whole.length, step === 0 ? 16 : 11);
    for (const world of [1, 2, 4]) {
      for (const micro of [1, 2, 3, 5, 16]) {
        assertEquals(rowsOf(step, world, micro), whole, `${world}, ${micro}`);
      }
    }
  }
});

Deno.test("mates are each other's, within the global batch", () => {
  const [part] = partsOf(order(11, 1, 0, true), 0, { global: 11, micro: 11 }, 0, true);
  part.mates!.forEach((mate, i) => assertEquals(part.mates![mate], i));
  assertEquals(part.mates!.filter((mate, i) => mate === i).length, 1);
});

Deno.test("a sample without a mate stays as it is, and another epoch mixes otherwise", () => {
  scope(() => {
    const alone: Part = { epoch: 0, ids: Int32Array.of(4), count: 1, mates: Int32Array.of(0) };
    for (const alpha of alphas) {
      const { input, target } = mix(batch(alone), alone, { seed: 1, ...alpha });
      assertEquals(toNumbers(input), toNumbers(batch(alone).input));
      assertEquals(toNumbers(target), toNumbers(batch(alone).target));
    }
    const share = (epoch: number, seed: number) =>
      drawnMix({ ...pairOf(0, 1), epoch }, { seed, mixup: 1, cutmix: 0 }, 1, 1).shares[0];
    assertEquals(share(1, 1), share(1, 1));
    assertEquals(new Set([share(1, 1), share(2, 1), share(1, 2)]).size, 3);
  });
});

Deno.test("both samples of a pair keep the same share of themselves", () => {
  const { shares } = drawnMix(pairOf(9, 2), { seed: 1, mixup: 1, cutmix: 0 }, 1, 1);
  const { shares: turned } = drawnMix(pairOf(2, 9), { seed: 1, mixup: 1, cutmix: 0 }, 1, 1);
  assertEquals([...shares, ...turned], new Array(4).fill(shares[0]));
});

const facts = (
  task: Facts["task"],
  shape: readonly number[] = SIZE,
  dtype: "f32" | "i64" = "f32",
): Facts => ({
  task,
  input: { shape, dtype },
  outputs: CLASSES,
});
const settings = { mixup: 0, cutmix: 0, one_hot: false };

Deno.test("labels become vectors where samples are mixed or that is asked for, and only there", () => {
  assertEquals(mixer(settings, facts("classification"), 1), null);
  scope(() => {
    const part = pairOf(0, 1);
    const labelled = { ...batch(part), target: tensor(BigInt64Array.of(3n, 1n)) };
    const field = { name: "label", shape: [], dtype: "i64" } as const;
    const shape = (change: Partial<typeof settings>, training: boolean) => {
      const mixing = mixer({ ...settings, ...change }, facts("classification"), 1)!;
      const { target } = mixing.apply(labelled, part, training), said = mixing.target(field, training);
      assertEquals([said.dtype, said.shape], [target.dtype, target.shape.slice(1)], "what is said of it");
      return `${target.dtype}[${target.shape.join()}]`;
    };
    assertEquals(shape({ one_hot: true }, true), "f32[2,4]");
    assertEquals(shape({ one_hot: true }, false), "f32[2,4]");
    assertEquals(shape({ mixup: 1 }, true), "f32[2,4]");
    assertEquals(shape({ mixup: 1 }, false), "i64[2]");
    assertEquals([...toNumbers(oneHot(labelled.target, 4))], [0, 0, 0, 1, 0, 1, 0, 0]);
  });
});

Deno.test("a label that is to be ignored has no share to give: its sample is named and refused, not learned as none", () => {
  const part = pairOf(8, 5);
  for (const change of [{ mixup: 1 }, { cutmix: 1 }, { one_hot: true }]) {
    const mixing = mixer({ ...settings, ...change }, facts("classification"), 1)!;
    const error = assertThrows(
      () =>
        scope(() =>
          void mixing.apply({ ...batch(part), target: tensor(BigInt64Array.of(3n, -100n)) }, part, true)
        ),
      UserError,
    );
    assertEquals(error.kind, "data");
    assertSentence("core/data/transforms/mix: sample label none", error.message);
  }
});

Deno.test("mixing leaves no tensor behind", () => {
  const mixing = mixer({ mixup: 1, cutmix: 1, one_hot: false }, facts("classification"), 1)!;
  const part = pairOf(0, 1);
  const once = () =>
    scope(() => void mixing.apply({ ...batch(part), target: tensor(BigInt64Array.of(3n, 1n)) }, part, true));
  once();
  const before = liveTensors();
  once();
  assertEquals(liveTensors(), before);
});

for (
  const [title, change, of, said] of [
    [
      "mixup of masks",
      { mixup: 1 },
      facts("segmentation"),
      sentenceNamed("core/data/transforms/mix: mixup samples target"),
    ],
    [
      "cutmix of tokens",
      { cutmix: 1 },
      facts("language", [8], "i64"),
      sentenceNamed("core/data/transforms/mix: cutmix samples target"),
    ],
    [
      "one-hot tokens",
      { one_hot: true },
      facts("language", [8], "i64"),
      "--one-hot is for samples with one target",
    ],
    ["one-hot numbers", { one_hot: true }, facts("regression"), "--one-hot is for class labels"],
    ["cutmix of features", { cutmix: 1 }, facts("classification", [7]), "samples here are [7]: use --mixup"],
    [
      "mixup of whole numbers",
      { mixup: 1 },
      facts("classification", [7], "i64"),
      "can't mix samples of whole numbers",
    ],
  ] as const
) {
  Deno.test(`${title} is refused`, () => {
    const error = assertThrows(() => mixer({ ...settings, ...change }, of, 1), UserError);
    assertEquals(error.kind, "usage");
    assertStringIncludes(error.message, said);
  });
}
