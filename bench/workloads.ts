// The models, batches and sizes of checkpoints that benchmarks of the step and of saving use.
import type { Facts } from "../core/models/model.ts";

// The step benchmark trains the same three models, batches and optimizers on both sides.

export type Name = "mlp" | "gpt" | "resnet18" | "convnet" | "cosmo";

export interface Workload {
  readonly title: string;
  /** Settings as on the command line. */
  readonly flags: readonly string[];
  readonly facts: Facts;
  readonly batch: number;
  /** Computing threads; 0 means every core. */
  readonly threads: number;
  readonly learningRate: number;
  /** Steps of one round: about a second of work. */
  readonly steps: number;
}

const adamw = ["--optimizer", "adamw", "--weight-decay", "0.01"];

// bench/peers/models.py says the same in Python.
export const workloads: Readonly<Record<Name, Workload>> = {
  mlp: {
    title: "MLP 7-128-128-1, MSE, AdamW, batch 32, one thread",
    flags: ["--model", "mlp", "--set", "model.hidden_size=128", "--set", "model.layers=2", ...adamw],
    facts: { task: "regression", input: { shape: [7], dtype: "f32" }, outputs: 1 },
    batch: 32,
    threads: 1,
    learningRate: 1e-3,
    steps: 4000,
  },
  gpt: {
    title: "GPT 4 layers x 128, 4 heads, 65 tokens, AdamW, batch 12 x 64",
    flags: [
      "--model",
      "gpt",
      "--set",
      "model.layers=4",
      "--set",
      "model.embed=128",
      "--set",
      "model.heads=4",
      ...adamw,
    ],
    facts: { task: "language", input: { shape: [64], dtype: "i64" }, outputs: 65 },
    batch: 12,
    threads: 0,
    learningRate: 1e-3,
    steps: 25,
  },
  resnet18: {
    title: "ResNet-18 on 3 x 32 x 32, 10 classes, SGD with momentum, batch 32",
    flags: [
      "--model",
      "resnet18",
      "--optimizer",
      "sgd",
      "--set",
      "training.optimizer.momentum=0.9",
      "--weight-decay",
      "0",
    ],
    facts: { task: "classification", input: { shape: [3, 32, 32], dtype: "f32" }, outputs: 10 },
    batch: 32,
    threads: 0,
    learningRate: 0.01,
    steps: 25,
  },
  convnet: {
    title: "simple-convnet on 1 x 28 x 28, 10 classes, AdamW, batch 32",
    flags: ["--model", "simple-convnet", "--dropout", "0", ...adamw],
    facts: { task: "classification", input: { shape: [1, 28, 28], dtype: "f32" }, outputs: 10 },
    batch: 32,
    threads: 0,
    learningRate: 1e-3,
    steps: 30,
  },
  cosmo: {
    title: "cosmo-cnn on 1 x 64 x 64, MSE of 2 numbers, AdamW, batch 32",
    flags: ["--model", "cosmo-cnn", "--set", "model.width=16", "--dropout", "0", ...adamw],
    facts: { task: "regression", input: { shape: [1, 64, 64], dtype: "f32" }, outputs: 2 },
    batch: 32,
    threads: 0,
    learningRate: 1e-3,
    steps: 30,
  },
};

// The save benchmark saves a model of linear layers with AdamW's state, about 500 MB.

/** bench/peers/save.py is given the same. */
export const SAVE_SIZES = { features: 7, hidden: 2048, layers: 11, batch: 32 };

/** A side's answer about one save. `seconds` ends when the file is in place. */
export interface Saved {
  readonly seconds: number;
  /** How long training was held. */
  readonly stall: number;
  readonly bytes: number;
  /** Seconds of processor time of the process: in an answer since its start, in results of this save. */
  readonly cpu: number;
}
