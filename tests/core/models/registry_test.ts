// Models from settings: every name makes a model that takes the data's shape; what doesn't fit is refused in words.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type Config, SETTINGS } from "../../../core/settings/settings.ts";
import { UserError } from "../../../core/base/errors.ts";
import { type Facts, forward, parameterCount } from "../../../core/models/model.ts";
import { createModel, MODELS } from "../../../core/models/registry.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { ones, zeros } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open } from "./native.ts";
import { testOf } from "./there.ts";

open();

const settings = (changes: Partial<Config["model"]>): Config["model"] => ({
  ...Object.fromEntries(Object.entries(SETTINGS.model).map(([key, setting]) => [key, setting.default])),
  ...changes,
} as Config["model"]);

const images = { task: "classification", input: { shape: [1, 16, 16], dtype: "f32" }, outputs: 10 } as const;
const maps = { task: "regression", input: { shape: [1, 32, 32], dtype: "f32" }, outputs: 2 } as const;
const rows = { task: "regression", input: { shape: [7], dtype: "f32" }, outputs: 1 } as const;
const masks = { task: "segmentation", input: { shape: [3, 16, 24], dtype: "f32" }, outputs: 4 } as const;
const steps = {
  task: "segmentation",
  input: { shape: [7, 16, 24], dtype: "f32", history: 3 },
  outputs: 4,
} as const;
const text = { task: "language", input: { shape: [24], dtype: "i64" }, outputs: 65 } as const;

const large = { ...images, input: { shape: [1, 32, 32], dtype: "f32" } } as const;

const factsFor = (name: string): Facts =>
  ({ mlp: rows, "cosmo-cnn": maps, unet: masks, convlstm: steps, fno: masks, gpt: text } as Record<
    string,
    Facts
  >)[name] ?? (name.startsWith("convnext") ? large : images);

for (const name of MODELS) {
  Deno.test(`${name} takes its sizes from the data, and one batch passes`, () => {
    scope(() => {
      const facts = factsFor(name);
      const model = createModel(
        settings({ name, width: /unet|fno|lstm|convnext/.test(name) ? 4 : 0 }),
        facts,
      );
      const language = facts.task === "language";
      const x = (language ? zeros : ones)([2, ...facts.input.shape], { dtype: facts.input.dtype });
      const { shape } = forward(model, x) as Tensor;
      const expected = language
        ? [2, 24, 65]
        : facts.task === "segmentation"
        ? [2, 4, 16, 24]
        : [2, facts.outputs];
      assertEquals(shape, expected);
      assertStringIncludes(model.describe(), parameterCount(model.root).toLocaleString("en-US"));
      model.root.free();
    });
  });
}

Deno.test("an mlp is one block, and a wide one has a block for each megabyte of weights", () => {
  const blocksOf = (hidden: number) => {
    const model = mlp({ inputs: 7, hidden, layers: 3, outputs: 2, dropout: 0.1 });
    const names = model.blocks.map(({ name }) => name);
    model.root.free();
    return names;
  };
  assertEquals(blocksOf(128), ["mlp"]);
  assertEquals(blocksOf(520), ["layers 0 to 1", "layers 2", "layers 3"]);
});

Deno.test("every parameter of every model is in a block", () => {
  for (const name of MODELS) {
    const model = createModel(settings({ name, width: 4 }), factsFor(name));
    const inBlocks = new Set(
      model.blocks.flatMap((b) => b.module?.namedParameters() ?? []).map(([, t]) => t),
    );
    for (const [parameter, tensor] of model.root.namedParameters()) {
      assert(inBlocks.has(tensor), `${name}: ${parameter} is in no block`);
    }
    model.root.free();
  }
});

Deno.test("switching the root to evaluation switches every module of every block", () => {
  for (const name of MODELS) {
    const model = createModel(settings({ name, width: 4, dropout: 0.5 }), factsFor(name));
    model.root.train(false);
    const modules = new Set(model.root.modules());
    for (const { module, name: blockName } of model.blocks) {
      for (const m of module?.modules().slice(1) ?? []) {
        assert(modules.has(m) && !m.training, `${name} ${blockName}: a module stays in training mode`);
      }
    }
    model.root.free();
  }
});

Deno.test("the loss may ask for more outputs than there are targets", () => {
  const model = createModel(settings({ output_size: 1 }), rows, 2);
  assertEquals(model.root.stateDict().at(-1)![1].shape, [2]);
  model.root.free();
});

testOf("gpt", "a vocabulary, a context or a number of classes may be larger than the data's", () => {
  const gpt = createModel(settings({ name: "gpt", vocab_size: 128, context: 48 }), text);
  const shapes = Object.fromEntries(gpt.root.stateDict().map(([name, t]) => [name, t.shape]));
  assertEquals([shapes["lm_head.weight"][0], shapes["transformer.wpe.weight"][0]], [128, 48]);
  const mlp = createModel(settings({ output_size: 12 }), images);
  assertEquals(mlp.root.stateDict().at(-1)![1].shape, [12]);
  for (const model of [gpt, mlp]) model.root.free();
});

for (
  const [why, changes, facts, ...words] of [
    ["an unknown name", { name: "mpl" }, images, 'no model "mpl"', 'Did you mean "mlp"?'],
    ["another number of features", { input_size: 9 }, rows, "model.input_size is 9", "has 7"],
    ["another number of targets", { output_size: 3 }, rows, "model.output_size is 3", "has 1"],
    ["too few classes", { name: "resnet18", output_size: 3 }, images, "model.output_size is 3", "has 10"],
    ["another image size", { name: "resnet18", image_size: 28 }, images, "model.image_size is 28", "has 16"],
    ["another number of channels", { name: "vit", channels: 3 }, images, "model.channels is 3", "has 1"],
    ["images where rows are", { name: "cosmo-cnn" }, rows, "cosmo-cnn needs images", "[7]"],
    ["a language model on images", { name: "gpt" }, images, "gpt needs sequences of tokens"],
    ["a row model on text", { name: "mlp" }, text, "mlp needs one answer per sample"],
    ["a small vocabulary", { name: "gpt", vocab_size: 60 }, text, "model.vocab_size is 60", "65 or more"],
    ["a short context", { name: "gpt", context: 8 }, text, "model.context is 8", "24 or more"],
    ["heads that don't share", { name: "gpt", embed: 100, heads: 3 }, text, "100", "3 heads", "e.g. 102"],
    [
      "a unet of heads that don't fit",
      { name: "unet", width: 3, heads: 5, attention: "bottom" },
      masks,
      "24 channels",
      "5 heads",
    ],
    ["a convlstm of one step", { name: "convlstm" }, masks, "a sample has one", "--history 12"],
    ["too deep a unet", { name: "unet", depth: 5 }, masks, "16 x 24", "halved 4 times", "--depth to 4"],
    ["a deep unet of mirrors", { name: "unet", depth: 4, padding: "reflect" }, masks, "--depth to 3"],
    [
      "a unet of points",
      { name: "unet" },
      { ...masks, input: { shape: [3, 1, 9], dtype: "f32" } },
      "another --model",
    ],
    ["frequencies that are not there", { name: "fno", modes: 9 }, masks, "16 x 24", "--modes to 8"],
    ["images too small", { name: "convnext_tiny" }, images, "these are 16 x 16", "--resize 32"],
    ["patches larger than images", { name: "vit", patch_size: 17 }, images, "16 x 16", "--patch-size to 16"],
  ] as [string, Partial<Config["model"]>, Facts, ...string[]][]
) {
  testOf(changes.name === "mpl" ? "mlp" : changes.name ?? "mlp", `${why}: refused with the fix`, () => {
    const error = assertThrows(() => createModel(settings(changes), facts), UserError);
    assertEquals(error.kind, "usage");
    for (const word of words) assertStringIncludes(error.message, word);
  });
}

Deno.test("images too small are refused with their size", () => {
  const tiny = { ...images, input: { shape: [1, 5, 5], dtype: "f32" } } as const;
  const small = assertThrows(() => createModel(settings({ name: "simple-convnet" }), tiny), UserError);
  assertStringIncludes(small.message, "5 x 5");
});

testOf("unet", "unet takes any sides, as deep as they allow, and later maps of other sides", () => {
  const sized = (...sides: number[]) =>
    ({ ...masks, input: { shape: [3, ...sides], dtype: "f32" } }) as const;
  for (
    const [sides, changes, levels] of [
      [[16, 24], {}, 3],
      [[13, 29], {}, 3],
      [[3, 40], {}, 2],
      [[7, 9], { padding: "reflect" }, 2],
      [[40, 40], { depth: 5 }, 5],
    ] as [number[], Partial<Config["model"]>, number][]
  ) {
    const model = createModel(settings({ name: "unet", width: 2, ...changes }), sized(...sides));
    assertStringIncludes(model.describe(), `${levels} levels`);
    scope(() => {
      for (const now of [sides, [sides[0] + 9, sides[1] + 2], sides]) {
        assertEquals((forward(model, ones([2, 3, ...now])) as Tensor).shape, [2, 4, ...now]);
      }
    });
    model.root.free();
  }
  const model = createModel(settings({ name: "unet", width: 2 }), masks);
  const small = assertThrows(() => scope(() => forward(model, ones([1, 3, 4, 16]))), UserError);
  assertStringIncludes(small.message, "maps of 4 x 16 can be halved 2 times");
  model.root.free();
});

testOf(
  "vit",
  "vit takes the largest patches that divide an image, and pads one that only single pixels divide",
  () => {
    for (
      const [sides, patch_size, patches] of [
        [[16, 24], 0, 24],
        [[7, 9], 0, 63],
        [[181, 360], 0, 12 * 23],
        [[13, 22], 5, 15],
      ] as [number[], number, number][]
    ) {
      const facts = { ...images, input: { shape: [1, ...sides], dtype: "f32" } } as const;
      const model = createModel(settings({ name: "vit", patch_size, embed: 4, layers: 1 }), facts);
      const shapes = Object.fromEntries(model.root.stateDict().map(([name, t]) => [name, t.shape]));
      assertEquals(shapes["encoder.pos_embedding"], [1, patches + 1, 4]);
      scope(() => assertEquals((forward(model, ones([2, 1, ...sides])) as Tensor).shape, [2, 10]));
      model.root.free();
    }
  },
);

testOf(
  "resnet18",
  "a batch of one value per channel is refused before it spoils the running statistics",
  () => {
    const model = createModel(settings({ name: "resnet18" }), images);
    scope(() => {
      const error = assertThrows(() => forward(model, ones([1, 1, 16, 16])), UserError);
      assertStringIncludes(error.message, "batch norm needs more than one value per channel");
      model.root.train(false);
      assertEquals((forward(model, ones([1, 1, 16, 16])) as Tensor).shape, [1, 10]);
    });
    model.root.free();
  },
);
