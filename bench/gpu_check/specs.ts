// What the step times are of: one description for our worker and for PyTorch's, handed over as JSON. May import core's types.
import type { Facts } from "../../core/models/model.ts";

export interface Spec {
  readonly title: string;
  readonly model: "mlp" | "resnet18" | "gpt";
  readonly batch: number;
  /** Pixels a side (resnet18), tokens (gpt). */
  readonly size: number;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly outputs: number;
  readonly bf16: boolean;
  /** Steps of one round. */
  readonly steps: number;
  /** Ours alone. */
  readonly checkpointing?: boolean;
  readonly dropout?: number;
}

const plain = { size: 0, layers: 0, width: 0, heads: 0, bf16: false };

/** What takes longest to compile comes first, while there is time for it. */
export const FULL: readonly Spec[] = [
  {
    title: "GPT 12 x 768, 8 x 1024 tokens, bf16",
    model: "gpt",
    batch: 8,
    size: 1024,
    layers: 12,
    width: 768,
    heads: 12,
    outputs: 50304,
    bf16: true,
    steps: 10,
  },
  {
    ...plain,
    title: "ResNet-18, 128 x 3 x 224 x 224",
    model: "resnet18",
    batch: 128,
    size: 224,
    outputs: 10,
    steps: 15,
  },
  {
    ...plain,
    title: "ResNet-18, 128 x 3 x 32 x 32",
    model: "resnet18",
    batch: 128,
    size: 32,
    outputs: 10,
    steps: 60,
  },
  {
    ...plain,
    title: "MLP 7-128-128-1, batch 32",
    model: "mlp",
    batch: 32,
    width: 128,
    outputs: 1,
    steps: 1000,
  },
];

export const QUICK: readonly Spec[] = [{ ...FULL[3], steps: 50 }];

/** For gradient checkpointing: what the activations fill. */
export const DEEP: Spec = {
  title: "GPT 8 x 256 at 512 tokens",
  model: "gpt",
  batch: 16,
  size: 512,
  layers: 8,
  width: 256,
  heads: 8,
  outputs: 65,
  bf16: false,
  steps: 5,
  dropout: 0.1,
};

export const factsOf = ({ model, size, outputs }: Spec): Facts =>
  model === "mlp"
    ? { task: "regression", input: { shape: [7], dtype: "f32" }, outputs }
    : model === "gpt"
    ? { task: "language", input: { shape: [size], dtype: "i64" }, outputs }
    : { task: "classification", input: { shape: [3, size, size], dtype: "f32" }, outputs };
