// Weights of torchvision, timm and Hugging Face start by their names, with the real libraries' logits; adapters have peft's
// gradients, and are merged as peft merges them.
import { assert, assertEquals } from "@std/assert";
import { mergeAdapters } from "../../../core/checkpoint/adapters.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { loadWeights, toData } from "../../../core/checkpoint/training_state.ts";
import { dict, OrderedDict, type Value } from "../../../core/checkpoint/value.ts";
import { type Facts, forward, type Model } from "../../../core/models/model.ts";
import { exportedModel } from "../../../core/models/exported/model.ts";
import { createModel } from "../../../core/models/registry.ts";
import { backward, gradOf, noGrad } from "../../../ffi/autograd.ts";
import { toNumbers, uninitialised, writeBytes } from "../../../ffi/make.ts";
import { mul, sum, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { peer } from "../../peer.ts";
import { settings } from "../train/rig.ts";
import { open } from "./native.ts";
import { testOf } from "./there.ts";

interface Adapted {
  readonly weights: number[];
  readonly gradients: Record<string, number[]>;
  readonly merged: number[];
  readonly logits: number[];
}

interface Real {
  readonly images: number[];
  readonly tokens: number[];
  readonly files: Record<string, number[]>;
  readonly adapters: Record<string, Adapted>;
  readonly resized: readonly {
    readonly size: readonly [number, number];
    readonly images: number[];
    readonly logits: number[];
    readonly positions: number[];
  }[];
}

open();
const folder = Deno.makeTempDirSync();
addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const real = askReal();

function askReal(): Real {
  const libraries = Deno.env.get("HPCTRAIN_REAL_LIBRARIES");
  if (!libraries) {
    throw new Error(
      "set HPCTRAIN_REAL_LIBRARIES to a folder with timm, transformers and peft (scripts/lib/real_libraries.sh)",
    );
  }
  const program = new URL("../../peers/real_weights.py", import.meta.url).pathname;
  const { success, stdout, stderr } = peer([program, folder]).outputSync();
  if (!success) throw new Error(`the Python peer failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}

const IMAGES: Facts = { task: "classification", input: { shape: [3, 32, 32], dtype: "f32" }, outputs: 5 };
const TOKENS: Facts = { task: "language", input: { shape: [16], dtype: "i64" }, outputs: 50 };
const FLAGS: Record<string, string> = {
  resnet18: "",
  resnet50: "",
  "simple-convnet": "",
  vit: "--layers 2 --heads 2 --embed 32 --patch-size 8",
  gpt: "--layers 2 --heads 2 --embed 32",
  convnext_tiny: "--width 4",
};

function made(name: string, more = ""): Model {
  const flags = `--model ${name} ${FLAGS[name]} ${more}`.split(" ").filter(Boolean);
  return createModel(settings(...flags).model, name === "gpt" ? TOKENS : IMAGES);
}

const inputOf = (name: string): Tensor =>
  name === "gpt" ? toDtype(tensorOf(real.tokens, [3, 16]), "i64") : tensorOf(real.images, [4, 3, 32, 32]);

function tensorOf(values: readonly number[], shape: readonly number[]): Tensor {
  const made = uninitialised(shape);
  writeBytes(made, new Uint8Array(Float32Array.from(values).buffer));
  return made;
}

function answer(model: Model, name = model.name): number[] {
  model.root.train(false);
  return scope(() => [...toNumbers(noGrad(() => forward(model, inputOf(name))) as Tensor)]);
}

/** The largest difference, as a part of the largest number where that is no zero. */
function apart(ours: readonly number[], theirs: readonly number[]): number {
  assertEquals(ours.length, theirs.length);
  const most = theirs.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  return ours.reduce((a, value, i) => Math.max(a, Math.abs(value - theirs[i])), 0) / (most || 1);
}

const MODELS = [["resnet18", "resnet18"], ["resnet50", "resnet50"], ["vit", "vit"], [
  "convnext",
  "convnext_tiny",
], ["gpt", "gpt"]];

for (const [file, logits] of Object.entries(real.files)) {
  const [, name] = MODELS.find(([part]) => file.includes(part))!;
  testOf(name, `${file} starts by its names, with the logits of the library that wrote it`, () => {
    const model = made(name);
    using opened = openCheckpoint(`${folder}/${file}`);
    const { notice = "" } = loadWeights(model.root.stateDict(), opened.root, file);
    assertEquals(
      /timm's|Hugging Face's/.test(notice),
      /timm-vit|timm-convnext|huggingface/.test(file),
      notice,
    );
    assert(apart(answer(model), logits) < 1e-5, `${apart(answer(model), logits)}`);
    model.root.free();
  });
}

for (const { size, images, logits, positions } of real.resized) {
  testOf(
    "vit",
    `timm's ViT for images of 32 x 32 starts for ${size.join(" x ")}, with timm's positions and logits`,
    () => {
      const { model: chosen } = settings("--model", "vit", ...FLAGS.vit.split(" "));
      const model = createModel(chosen, { ...IMAGES, input: { shape: [3, ...size], dtype: "f32" } });
      const path = `${folder}/timm-vit.safetensors`, named = model.root.stateDict();
      using file = openCheckpoint(path);
      const never = () => false;
      const fresh = { head: never, maybe: never, advice: () => null, positions: model.positions };
      const { notice = "" } = loadWeights(named, file.root, path, fresh);
      assert(
        notice.includes(`4 x 4 patches in the file: resampled to ${size[0] / 8} x ${size[1] / 8}`),
        notice,
      );
      const own = [...toNumbers(new Map(named).get("encoder.pos_embedding")!)];
      assert(apart(own, positions) < 1e-5, `positions: ${apart(own, positions)}`);
      model.root.train(false);
      const made = scope(() => [
        ...toNumbers(noGrad(() => forward(model, tensorOf(images, [2, 3, ...size]))) as Tensor),
      ]);
      assert(apart(made, logits) < 1e-5, `logits: ${apart(made, logits)}`);
      model.root.free();
    },
  );
}

/** The layers that peft was asked to adapt, by our names. */
const LAYERS: Record<string, [model: string, layers: string]> = {
  convnet: ["simple-convnet", "conv1,conv2,fc1"],
  resnet18: ["resnet18", "layer1.0.conv1,layer2.0.downsample.0"],
  gpt: ["gpt", "transformer.h.*"],
  vit: ["vit", "*.self_attention,*.mlp.0"],
};

for (const name of ["convnet", "resnet18", "vit"]) {
  exportedModel(`${folder}/${name}.pt2`).root.free(); // what is opened once is opened here, and is no test's leak
}

interface Adaptable {
  readonly what: string;
  /** Gradients are as near: a graph's are of the whole weight first, so they are added up in another order. */
  readonly near: number;
  adapted(): Model;
  plain(): Model;
}

/** A model of ours, and the graph of the library's own, in which layers are ops. */
function adaptables(name: string): Adaptable[] {
  const [called, layers] = LAYERS[name];
  const lora = { rank: 3, alpha: 6, dropout: 0, only: layers.split(","), butLast: true };
  const path = `${folder}/${name}.pt2`, facts = IMAGES;
  return [
    {
      what: `adapters of ${name}`,
      near: 1e-6,
      adapted: () => made(called, `--lora-rank 3 --lora-alpha 6 --lora-for ${layers}`),
      plain: () => made(called),
    },
    ...(name === "gpt" ? [] : [{
      what: `adapters in the exported program of ${name}`,
      near: 5e-6,
      adapted: () => exportedModel(path, { facts, lora }),
      plain: () => exportedModel(path, { facts }),
    }]),
  ];
}

for (const [name, adapted] of Object.entries(real.adapters)) {
  for (const { what, near, ...models } of adaptables(name)) {
    testOf(LAYERS[name][0], `${what} have peft's gradients, and are merged as peft merges them`, () => {
      const model = models.adapted();
      using file = openCheckpoint(`${folder}/${name}.pt`);
      loadWeights(model.root.stateDict(), file.root, name);
      model.root.train(false);
      scope(() => {
        const out = forward(model, inputOf(LAYERS[name][0])) as Tensor;
        backward(sum(mul(out, tensorOf(adapted.weights, out.shape))));
        const far = apart([...toNumbers(out)], adapted.logits);
        assert(far < 1e-5, `logits: ${far}`);
        const own = model.root.namedParameters().filter(([parameter]) => parameter.includes(".lora_"));
        const found = new Map(own.map(([parameter, t]) => [parameter, [...toNumbers(gradOf(t)!)]]));
        assertEquals([...found.keys()].sort(), Object.keys(adapted.gradients).sort());
        for (const [parameter, gradient] of Object.entries(adapted.gradients)) {
          const off = apart(found.get(parameter)!, gradient);
          assert(off < near, `${parameter}: ${off}`);
        }
      });
      const plain = models.plain(), config = dict({ model: dict({ lora_rank: 3, lora_alpha: 6 }) });
      const tensors = new Map([...model.root.stateDict()].map(([key, t]) => [key, toData(t)]));
      const root = dict({ config });
      loadWeights(plain.root.stateDict(), new OrderedDict(mergeAdapters(root, tensors)) as Value, name);
      const off = apart(answer(plain, LAYERS[name][0]), adapted.merged);
      assert(off < 1e-5, `${off}`);
      plain.root.free();
      model.root.free();
    });
  }
}
