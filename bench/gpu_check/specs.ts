// The training steps that are timed, as our worker and PyTorch's get them: in JSON.
import type { Facts } from "../../core/models/model.ts";
import { settings } from "./check.ts";

export interface Spec {
  /** N stands for the batch. */
  readonly title: string;
  readonly model: "mlp" | "simple-convnet" | "cosmo-cnn" | "resnet50" | "unet" | "gpt";
  readonly batch: number;
  /** Pixels a side, or tokens. */
  readonly size: number;
  readonly channels: number;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly outputs: number;
  readonly bf16: boolean;
  /** Steps of one round. */
  readonly steps: number;
  /** Ours alone. */
  readonly checkpointing?: boolean;
  readonly way?: "captured" | "fast";
  readonly dropout?: number;
  /** torch.compile's, where it is not inductor. */
  readonly backend?: string;
  /** PyTorch tries them first. */
  readonly also?: readonly Spec[];
}

const images = { layers: 0, heads: 0, bf16: false };

/** The longest come first, while there is time. */
const FULL: readonly Spec[] = [
  {
    title: "GPT-2 124M, N x 1024 tokens, bf16",
    ...{ model: "gpt", batch: 8, size: 1024, channels: 0, layers: 12, width: 768, heads: 12, outputs: 50304 },
    ...{ bf16: true, steps: 10 },
  },
  {
    ...images,
    title: "ResNet-50, N x 3 x 224 x 224, bf16",
    ...{
      model: "resnet50",
      batch: 64,
      size: 224,
      channels: 3,
      width: 0,
      outputs: 1000,
      bf16: true,
      steps: 10,
    },
  },
  {
    ...images,
    title: "U-Net, N x 3 x 128 x 128",
    ...{ model: "unet", batch: 16, size: 128, channels: 3, width: 32, outputs: 2, steps: 30 },
  },
  {
    ...images,
    title: "cosmo-cnn, N x 1 x 64 x 64",
    ...{ model: "cosmo-cnn", batch: 32, size: 64, channels: 1, width: 32, outputs: 5, steps: 100 },
  },
  {
    ...images,
    title: "simple-convnet, N x 1 x 28 x 28",
    ...{ model: "simple-convnet", batch: 64, size: 28, channels: 1, width: 0, outputs: 10, steps: 100 },
  },
  {
    ...images,
    title: "MLP 7-128-128-1, batch N",
    ...{ model: "mlp", batch: 32, size: 0, channels: 0, width: 128, outputs: 1, steps: 300 },
  },
];

/** The same at toy sizes. */
const TOYS: Readonly<Record<Spec["model"], Partial<Spec>>> = {
  gpt: { batch: 2, size: 32, layers: 2, width: 32, heads: 2, outputs: 64 },
  resnet50: { batch: 2, size: 32, outputs: 10 },
  unet: { batch: 1, size: 16, width: 4 },
  "cosmo-cnn": { batch: 2, size: 16, width: 4 },
  "simple-convnet": { batch: 4 },
  mlp: {},
};

const named = (spec: Spec): Spec => ({ ...spec, title: spec.title.replace(/\bN\b/, String(spec.batch)) });

/** Five processes are on the device at once, so a smaller one gets smaller batches of the largest models. */
export const fitted = (gib: number): readonly Spec[] =>
  FULL.map((spec) => {
    const large = ["gpt", "resnet50", "unet"].includes(spec.model), parts = gib >= 60 ? 1 : gib >= 30 ? 2 : 4;
    return named(large ? { ...spec, batch: spec.batch / parts } : spec);
  });

export const QUICK: readonly Spec[] = FULL.map((spec) => ({
  ...spec,
  ...TOYS[spec.model],
  steps: 1,
  backend: "eager",
})).map(named);

/** For gradient checkpointing: the activations fill it. */
export const DEEP: Spec = {
  title: "GPT 8 x 256 at 512 tokens",
  ...{ model: "gpt", batch: 16, size: 512, channels: 0, layers: 8, width: 256, heads: 8, outputs: 65 },
  ...{ bf16: false, steps: 5, dropout: 0.1 },
};

/** Its activations are still several times what libtorch takes from the device at once. */
export const DEEP_TOY: Spec = { ...DEEP, batch: 8, size: 128, width: 64, heads: 2, steps: 1 };

export function factsOf({ model, size, channels, outputs }: Spec): Facts {
  if (model === "mlp") return { task: "regression", input: { shape: [7], dtype: "f32" }, outputs };
  if (model === "gpt") return { task: "language", input: { shape: [size], dtype: "i64" }, outputs };
  const input = { shape: [channels, size, size], dtype: "f32" as const };
  if (model === "cosmo-cnn") return { task: "regression", input, outputs };
  if (model === "unet") return { task: "segmentation", input, outputs };
  return { task: "classification", input, outputs };
}

export function flagsOf({ model, layers, width, heads, dropout = 0, way }: Spec): string[] {
  const shape = model === "gpt"
    ? settings({ "model.layers": layers, "model.embed": width, "model.heads": heads })
    : model === "mlp"
    ? settings({ "model.hidden_size": width })
    : width > 0
    ? settings({ "model.width": width })
    : [];
  const optimizer = model === "resnet50"
    ? ["--optimizer", "sgd", ...settings({ "training.optimizer.momentum": 0.9 })]
    : ["--optimizer", "adamw"];
  const compile = way === undefined ? "--no-compile" : way === "fast" ? "--compile=fast" : "--compile=exact";
  return [
    ...["--model", model, ...shape, ...optimizer, "--weight-decay", "0.01", compile],
    ...["--dropout", String(dropout)],
  ];
}

/** Matrix products of a step of the GPT for each token: forward and backward, attention with them. */
export const gptFlops = ({ layers, width, size, outputs }: Spec): number => {
  const weights = layers * 12 * width * width + outputs * width;
  return 6 * weights + 12 * layers * width * size;
};
