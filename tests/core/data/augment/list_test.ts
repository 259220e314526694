// The list of --augment: torchvision's spellings and ours, what evaluation does of it, and the sentences for what is wrong.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { KINDS } from "../../../../core/data/augment/kinds.ts";
import { everyStep, listOf, setsSize, shapeAfter, stillSteps } from "../../../../core/data/augment/list.ts";
import { assertRefusal } from "../../../sentences.ts";

const kinds = (text: string) => listOf(text)!.steps.map(({ kind }) => kind);

Deno.test("a list of a script is the list that our names make, with the words of Compose, ToTensor and Normalize", () => {
  const pasted = listOf(
    "transforms.Compose([transforms.RandomResizedCrop(224, scale=(0.08, 1.0), interpolation=InterpolationMode.BICUBIC), " +
      "T.RandomHorizontalFlip(p=0.3), v2.TrivialAugmentWide(), T.PILToTensor(), v2.ToDtype(torch.float32, scale=True), " +
      "T.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]), T.RandomErasing(0.1)])",
  )!;
  const ours = listOf(
    "random_resized_crop(224, (0.08, 1), interpolation=bicubic), horizontal_flip(0.3), trivial_augment, random_erasing(0.1)",
  )!;
  const plain = (list: typeof pasted) =>
    list.steps.map(({ kind, options: { after: _, ...options } }) => ({ kind, options }));
  assertEquals(plain(pasted), plain(ours));
  assertEquals(pasted.normalise, { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] });
  assertEquals(pasted.done.length, 2);
  // Erased pixels are 0 of what Normalize has left, and of bytes where there is none.
  assertEquals(pasted.steps.at(-1)!.options.after.mean, [0.485, 0.456, 0.406]);
  assertEquals(ours.steps.at(-1)!.options.after, { shares: false, mean: null, std: null });
});

Deno.test("every transform answers to its name, to that name with Random before it, and to torchvision's capitals", () => {
  const given: Record<string, string> = {
    ...{ random_resized_crop: "(8)", resize: "(8)", centre_crop: "(8)", random_crop: "(8)", pad: "(1)" },
    ...{
      rotation: "(9)",
      affine: "(9)",
      sharpness: "(2)",
      posterize: "(3)",
      solarize: "(9)",
      gaussian_blur: "(3)",
      jpeg: "((5, 95))",
      time_mask: "(4)",
      frequency_mask: "(4)",
      time_shift: "(2)",
      time_crop: "(8)",
      middle_crop: "(8)",
    },
  };
  for (const name of Object.keys(KINDS)) {
    const capitals = name.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
    for (const one of [name, capitals, ...(/^random|^grayscale/.test(name) ? [] : [`Random${capitals}`])]) {
      assertEquals(kinds(`${one}${given[name] ?? ""}`), [name], one);
    }
  }
  assertEquals(kinds("CenterCrop(8), centre_crop(8), ColorJitter(0.1), RandomGrayscale, Grayscale"), [
    ...["centre_crop", "centre_crop", "colour_jitter", "random_grayscale", "grayscale"],
  ]);
});

Deno.test("each step has draws of its own, within choices too", () => {
  const { steps } = listOf(
    "random_apply([horizontal_flip, rotation(9)], 0.3), random_choice([invert, solarize(9)], p=[1, 3]), vertical_flip",
  )!;
  const firsts = everyStep(steps).map(({ first }) => first);
  assertEquals(new Set(firsts).size, 7);
  assert(Math.min(...firsts) >= 16);
  assertEquals(steps[1].options.p, [0.25, 0.75]);
});

Deno.test("evaluation does what is not random, and takes the middle in place of random crops", () => {
  const still = (text: string) =>
    stillSteps(listOf(text)!.steps).map(({ kind, options }) => [kind, options.size]);
  assertEquals(still("random_resized_crop(224), horizontal_flip, rand_augment"), [
    ["resize", [256]],
    ["centre_crop", [224, 224]],
  ]);
  assertEquals(still("resize(40), random_crop(32, padding=4), colour_jitter(0.3)"), [
    ["resize", [40]],
    ["centre_crop", [32, 32]],
  ]);
  assertEquals(still("horizontal_flip, random_apply([rotation(9)])"), []);
  assertEquals(setsSize(listOf("horizontal_flip")), false);
  assertEquals(setsSize(listOf("random_order([random_crop(8), horizontal_flip])")), true);
});

Deno.test("the shape that a list makes is known beforehand, with what can't be", () => {
  const after = (text: string, shape: [number, number, number]) => shapeAfter(listOf(text)!.steps, shape);
  assertEquals(after("pad((1, 2)), grayscale(1)", [3, 10, 12]), [1, 14, 14]);
  assertEquals(after("resize(20), random_crop((20, 16))", [3, 50, 40]), [3, 20, 16]);
  assertEquals(after("random_choice([resize((8, 8)), random_crop(8)])", [3, 50, 40]), [3, 8, 8]);
  const problems = {
    crop: after("random_crop(64)", [3, 50, 40]),
    "padded crop": after("random_crop(64, padding=2)", [3, 50, 40]),
    choice: after("random_choice([resize(8), random_crop(8)])", [3, 50, 40]),
    apply: after("random_apply([random_crop(8)])", [3, 50, 40]),
    channels: after("colour_jitter(0.1)", [4, 50, 40]),
    turn: after("quarter_turns", [3, 50, 40]),
    narrow: after("jpeg(50)", [3, 50, 4]),
  };
  for (const [name, problem] of Object.entries(problems)) {
    const told = new UserError("usage", `--augment: a sample of x ${problem}.`);
    assert(typeof problem === "string", name);
    assertRefusal("usage", `core/data/augment/list: shape, ${name}`, told);
  }
  assertEquals(after("random_crop(64, pad_if_needed=true)", [3, 50, 40]), [3, 64, 64]);
});

Deno.test("what is no transform or no argument of one is refused with what there is", () => {
  const wrong: Record<string, string> = {
    "unknown name": "T.RandomHorizontalFlop(0.5)",
    "unlike any": "qwertyuiop",
    "unknown argument": "random_crop(32, pading=4)",
    "too many arguments": "horizontal_flip(0.5, 3)",
    "missing argument": "gaussian_blur()",
    "out of range": "horizontal_flip(1.5)",
    "falling range": "random_resized_crop(224, scale=(1, 0.08))",
    "no size": "resize(-3)",
    "given twice": "random_crop(32, size=32)",
    "an even kernel": "gaussian_blur(4)",
    "no word": "resize(8, interpolation=lanczos)",
    "antialias off": "resize(8, antialias=False)",
    "words in a choice": "random_apply([mixup(0.2)])",
    "no list": "random_order(3)",
    "weights of others": "random_choice([invert, autocontrast], p=[1])",
    "quality beyond 100": "jpeg((50, 101))",
    "std of 0": "Normalize((0.5), (0))",
  };
  for (const [name, text] of Object.entries(wrong)) {
    assertRefusal("usage", `core/data/augment/list: ${name}`, assertThrows(() => listOf(text)));
  }
});
