// What a list of transforms is for a source: words become settings, some steps are refused, and turned maps get missing points.
import { assertEquals, assertThrows } from "@std/assert";
import { listOf, type Step } from "../../../../core/data/augment/list.ts";
import type { Field } from "../../../../core/data/source/reader.ts";
import type { Source } from "../../../../core/data/source/source.ts";
import {
  checkSteps,
  inputSteps,
  isMixing,
  listed,
  movingStep,
  targetSteps,
  withGaps,
  withWords,
} from "../../../../core/data/transforms/steps.ts";
import { assertRefusal } from "../../../sentences.ts";
import { settings } from "../../train/rig.ts";

const steps = (text: string): readonly Step[] => listOf(text)!.steps;
const field = (dtype: Field["dtype"], ...shape: number[]): Field => ({ name: "x", shape, dtype });
const data = (augment: string, more: object = {}) => ({ ...settings().data, augment, ...more });

interface Made {
  readonly target?: Field;
  readonly task?: Source["facts"]["task"];
  readonly vectors?: Source["vectors"];
  readonly usual?: Source["usual"];
}

const made = (input: Field, { target = field("i64"), task = "classification", ...more }: Made = {}): Source =>
  ({ name: "there", input, target, facts: { task, input, outputs: 3 }, ...more }) as unknown as Source;

const BYTES = field("u8", 3, 40, 50), MAPS = field("f32", 3, 40, 50);
const OF_MAPS = { target: field("f32", 1, 40, 50), task: "regression" } as const;
const WINDS = { ...OF_MAPS, vectors: { input: [[0, 1]], target: [], sense: 1 } } as const;

Deno.test("steps that are not for such samples are refused with what would be", () => {
  const cases: Record<string, [text: string, stored: Field, more?: Made]> = {
    "colours of maps": ["colour_jitter(0.3)", MAPS, OF_MAPS],
    "a policy for maps": ["horizontal_flip, rand_augment", MAPS, OF_MAPS],
    "a table": ["horizontal_flip", field("f32", 12)],
    "a series": ["time_mask(4), horizontal_flip", field("f32", 4, 50)],
    "text": ["horizontal_flip", field("u8", 64), { task: "language" }],
    "halves": ["rotation(9)", field("bf16", 3, 40, 50)],
    "a mask with mixed pictures": ["aug_mix", BYTES, { target: field("i64", 40, 50), task: "segmentation" }],
    "bent winds": ["perspective", MAPS, WINDS],
    "sheared winds": ["affine(9, shear=4)", MAPS, WINDS],
  };
  for (const [name, [text, stored, more]] of Object.entries(cases)) {
    const error = assertThrows(() => checkSteps(steps(text), made(stored, more), stored));
    assertRefusal("usage", `core/data/transforms/steps: ${name}`, error);
  }
  checkSteps(steps("affine(9, (0.1, 0.1)), vertical_flip, gaussian_blur(3)"), made(MAPS, WINDS), MAPS);
  checkSteps(steps("rand_augment, aug_mix"), made(BYTES), BYTES);
  checkSteps(
    steps("time_mask(4), jitter, scaling, time_crop(20)"),
    made(field("f32", 4, 50)),
    field("f32", 4, 50),
  );
  // Image files of 16 bits are floats from 0 to 1.
  checkSteps(steps("rand_augment"), made(MAPS, { usual: { mean: [0.5], std: [0.2] } }), MAPS);
});

Deno.test("a setting and a step that do the same are refused", () => {
  const cases: Record<string, Parameters<typeof data>> = {
    flip: ["horizontal_flip", { flip: "both" }],
    rotate: ["random_apply([rotation(4)])", { rotate: true }],
    "random crop": ["random_resized_crop(8)", { random_crop: 8 }],
    padding: ["pad(3)", { random_crop: 8, crop_padding: 2 }],
  };
  for (const [name, given] of Object.entries(cases)) {
    assertRefusal(
      "usage",
      `core/data/transforms/steps: same, ${name}`,
      assertThrows(() => listed(data(...given), [])),
    );
  }
  for (
    const [name, given] of Object.entries({
      mixup: ["mixup(0.2)", { mixup: 0.4 }],
      cutmix: ["CutMix(alpha=1)", { cutmix: 0.4 }],
      mean: ["Normalize((0.5), (0.5))", { mean: ["0.1"], std: ["1"] }],
    } as Record<string, Parameters<typeof data>>)
  ) {
    assertRefusal(
      "usage",
      `core/data/transforms/steps: twice, ${name}`,
      assertThrows(() => withWords(data(...given))),
    );
  }
});

Deno.test("words of a list are settings", () => {
  const told = withWords(
    data("horizontal_flip, mixup(0.2), cutmix, Normalize(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.1))"),
  );
  assertEquals([told.mixup, told.cutmix, told.mean, told.std], [0.2, 1, ["0.5", "0.4", "0.3"], [
    "0.2",
    "0.2",
    "0.1",
  ]]);
  assertEquals(isMixing(data("cutmix")), true);
  assertEquals(isMixing(data("horizontal_flip")), false);
  assertEquals(listed(data("repeated_augmentation(4), horizontal_flip"), []).repeats, 4);
});

Deno.test("evaluation follows the list, or --resize and --centre-crop where they are given", () => {
  const kinds = (list: readonly Step[]) => list.map(({ kind }) => kind);
  const notes: string[] = [];
  const alone = listed(data("random_resized_crop(224), horizontal_flip"), notes);
  assertEquals([kinds(alone.still), alone.sized, notes.length], [["resize", "centre_crop"], true, 1]);
  const told = listed(
    data("random_resized_crop(224), horizontal_flip", { resize: 232, centre_crop: 224 }),
    [],
  );
  assertEquals([kinds(told.still), told.sized], [[], true]);
  const unsized = listed(data("horizontal_flip", { resize: 232 }), []);
  assertEquals([kinds(unsized.still), unsized.sized], [[], false]);
});

Deno.test("turned and padded maps have missing points, pictures and mirrored maps have none", () => {
  const gaps = (text: string, stored: Field, more: Made) => {
    const { missing, facts } = withGaps(made(stored, more), steps(text), () => stored);
    return [missing?.input ?? false, missing?.target ?? false, facts.missing ?? false];
  };
  assertEquals(gaps("rotation(20)", MAPS, OF_MAPS), [true, true, true]);
  assertEquals(gaps("random_apply([random_crop(40, padding=4)])", MAPS, OF_MAPS), [true, true, true]);
  assertEquals(gaps("rotation(20)", MAPS, {}), [true, false, false]);
  assertEquals(gaps("random_erasing(1)", MAPS, OF_MAPS), [true, false, false]);
  assertEquals(gaps("horizontal_flip, quarter_turns", MAPS, OF_MAPS), [false, false, false]);
  assertEquals(gaps("rotation(20)", BYTES, {}), [false, false, false]);
});

Deno.test("what stands outside: nothing of a picture, a missing point of a map, the ignored class of labels", () => {
  const list = steps("rotation(20)");
  assertEquals(inputSteps(list, made(BYTES), BYTES).outside, null);
  assertEquals(inputSteps(list, made(MAPS), MAPS).outside, NaN);
  const labels = { perPixel: true, name: "there" };
  assertEquals(targetSteps(list, field("i64", 4, 4), { ...labels, ignored: -100 }).outside, -100);
  assertEquals(
    targetSteps(list, field("f32", 1, 4, 4), { ...labels, perPixel: false, ignored: -100 }).outside,
    NaN,
  );
  const error = assertThrows(() => targetSteps(list, field("u8", 4, 4), { ...labels, ignored: -100 }));
  assertRefusal("usage", "core/data/transforms/steps: no room for the ignored class", error);
  assertEquals(
    targetSteps(steps("horizontal_flip"), field("u8", 4, 4), { ...labels, ignored: -100 }).outside,
    -100,
  );
});

Deno.test("a weight of places does not go with steps that move points, but for what keeps the latitude", () => {
  const moving = (text: string) => movingStep(text, ["horizontal_flip"])?.kind;
  assertEquals(moving("gaussian_noise, horizontal_flip"), undefined);
  assertEquals(moving("random_apply([vertical_flip])"), "vertical_flip");
  assertEquals(moving("rand_augment"), "rand_augment");
  assertEquals(moving(""), undefined);
});
