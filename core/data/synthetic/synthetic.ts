// Synthetic data fits a model and its loss; each sample is a function of the seed and its number.
import * as ops from "../../../ffi/ops.ts";
import { add, constant, scalar, scale, sub, tensor } from "../../../ffi/make.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { key, permutation, uniform, uniformInt } from "../../base/random.ts";
import { takesImages } from "../../settings/sections/model.ts";
import { hasLoss, isOfClasses } from "../../settings/losses.ts";
import { indexTensor, memorySource } from "../source/memory.ts";
import { type Ids, type Source, source } from "../source/source.ts";
import { checkMadeMemory, checkSamples, makeFields, normalTensor, type Spec } from "./fields.ts";
import { manualSeed } from "../../../ffi/context.ts";

// A small bank gives white noise for any number of images: memory does not grow with the data set.

const MOST_BANK_BYTES = 32 * 2 ** 20;

/**
 * The noise is the sum of two different images of the bank, over the square root of 2. Training and
 * validation have separate banks. At 32 x 32 x 3 there are a million pairs.
 */
export function noiseFor({ seed, role }: Spec, shape: readonly number[]): (ids: Ids) => Tensor {
  const bytes = 4 * shape.reduce((a, b) => a * b, 1);
  const count = Math.min(1024, Math.max(16, Math.floor(MOST_BANK_BYTES / bytes)));
  checkMadeMemory(
    `Noise for images of ${shape.join(" x ")}`,
    count * bytes,
    "set a smaller model.image_size",
  );
  const domain = (part: string) => key(seed, "noise", role, part);
  const bank = keep(scope(() => scale(normalTensor(domain("bank"), [count, ...shape]), Math.SQRT1_2)));
  const first = uniformInt(domain("first"), count);
  const further = uniformInt(domain("further"), count - 1);
  return (ids) => {
    const a = Int32Array.from(ids, first);
    const b = Int32Array.from(ids, (id, i) => (a[i] + 1 + further(id)) % count);
    return add(ops.indexSelect(bank, 0, indexTensor(a)), ops.indexSelect(bank, 0, indexTensor(b)));
  };
}

const CLASSES = 10;
const COARSE = 4;
/** The noise has a standard deviation of 1. */
const CONTRAST = 0.5;

function images(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const mnistLike = model.name === "simple-convnet";
  const channels = model.channels || (mnistLike ? 1 : 3);
  const size = model.image_size || (mnistLike ? 28 : 32);
  const classes = model.output_size || CLASSES;
  const noise = noiseFor(spec, [channels, size, size]);
  const patterns = keep(scope(() => {
    const coarse = normalTensor(key(seed, "images", "patterns"), [classes, channels, COARSE, COARSE]);
    return scale(ops.upsampleBilinear2d(coarse, [size, size], false), CONTRAST);
  }));
  const classOf = uniformInt(key(seed, "images", role, "class"), classes);
  return source({
    name: "synthetic images",
    length: samples,
    task: "classification",
    outputs: classes,
    fields: ["image", "class"],
    description: `synthetic images: ${channels} x ${size} x ${size} -> ${classes} classes`,
    raw(ids) {
      const target = tensor(Int32Array.from(ids, classOf));
      return {
        input: add(ops.indexSelect(patterns, 0, target), noise(ids)),
        target: ops.toDtype(target, "i64"),
      };
    },
  });
}

const MASK_SIZE = 32;
const DISCS = 3;
const MASK_NOISE = 0.3;

/**
 * Three discs have radii of 1/16 to 1/4 of the side and classes from 1 to classes - 1; the background is 0.
 * Brightness is class / (classes - 1) plus noise; the higher class is in front.
 */
function masks(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const channels = model.channels || 1;
  const size = model.image_size || MASK_SIZE;
  const classes = Math.max(2, model.output_size);
  const noise = noiseFor(spec, [channels, size, size]);
  const grid = (shape: number[]) =>
    keep(tensor(Float32Array.from({ length: size }, (_, i) => (i + 0.5) / size), shape));
  const x = grid([1, 1, 1, size]), y = grid([1, 1, size, 1]);
  const perDisc = (part: string, from: (u: number) => number) => {
    const at = uniform(key(seed, "masks", role, part));
    return (ids: Ids): Tensor => {
      const values = Float32Array.from(
        { length: ids.length * DISCS },
        (_, i) => from(at(ids[Math.floor(i / DISCS)] * DISCS + i % DISCS)),
      );
      return tensor(values, [ids.length, DISCS, 1, 1]);
    };
  };
  const centreX = perDisc("x", (u) => u), centreY = perDisc("y", (u) => u);
  const radius = perDisc("radius", (u) => 1 / 16 + u * 3 / 16);
  const classOf = perDisc("class", (u) => 1 + Math.floor(u * (classes - 1)));
  return source({
    name: "synthetic masks",
    length: samples,
    task: "segmentation",
    outputs: classes,
    fields: ["image", "mask"],
    description: `synthetic masks: ${channels} x ${size} x ${size} -> ${classes} classes a pixel`,
    raw(ids) {
      const distance = add(ops.square(sub(x, centreX(ids))), ops.square(sub(y, centreY(ids))));
      const inside = ops.toDtype(ops.lt(distance, ops.square(radius(ids))), "f32");
      const mask = ops.amax(ops.mul(inside, classOf(ids)), [1]);
      const brightness = ops.reshape(scale(mask, 1 / (classes - 1)), [ids.length, 1, size, size]);
      return { input: add(brightness, scale(noise(ids), MASK_NOISE)), target: ops.toDtype(mask, "i64") };
    },
  });
}

const VOCABULARY = 65;
export const CONTEXT = 64;
/** A token's four successors have chances of 4, 2, 1, 1 eighths. */
const SUCCESSOR_OF_EIGHTH = [0, 0, 0, 0, 1, 1, 2, 3];
/** The choice's entropy in nats is the best loss once the first token is known. */
export const BEST_LOSS = 1.75 * Math.LN2;

/** A Markov chain follows each token by one of four others, drawn from the seed. */
export function makeTokens(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const vocabulary = model.vocab_size || VOCABULARY;
  const context = model.context || CONTEXT;
  checkSamples(spec, "synthetic tokens", 2 * 4 * (context + 1));
  checkMadeMemory(
    `A vocabulary of ${vocabulary}`,
    4 * SUCCESSOR_OF_EIGHTH.length * vocabulary,
    "set a smaller model.vocab_size",
  );
  const sequences = scope(() => {
    const chances = SUCCESSOR_OF_EIGHTH.length;
    const table = tensor(successors(seed, vocabulary));
    const eighths = scalar(chances, "i32");
    manualSeed(key(seed, "tokens", role));
    const draw = (below: number) => ops.randint(0, below, [samples], "i32");
    const columns = [draw(vocabulary)];
    for (let i = 0; i < context; i++) {
      const chosen = add(ops.mul(columns[i], eighths), draw(chances));
      columns.push(ops.indexSelect(table, 0, chosen));
    }
    return ops.stack(columns, 1);
  });
  keep(sequences);
  return source({
    name: "synthetic tokens",
    length: samples,
    task: "language",
    outputs: vocabulary,
    fields: ["tokens", "next tokens"],
    description: `synthetic tokens: sequences of ${context} out of ${vocabulary}, best possible loss ${
      BEST_LOSS.toFixed(4)
    }`,
    raw(ids) {
      const rows = ops.indexSelect(sequences, 0, indexTensor(ids));
      return {
        input: ops.contiguous(ops.narrow(rows, 1, 0, context)),
        target: ops.contiguous(ops.narrow(rows, 1, 1, context)),
      };
    },
    finish: ({ input, target }) => ({ input: ops.toDtype(input, "i64"), target: ops.toDtype(target, "i64") }),
  });
}

/** Token t is followed by entry 8 t + e on draw e from 0 to 7. */
function successors(seed: number, vocabulary: number): Int32Array {
  const table = new Int32Array(vocabulary * SUCCESSOR_OF_EIGHTH.length);
  for (let token = 0, at = 0; token < vocabulary; token++) {
    const shuffled = permutation(vocabulary, key(seed, "tokens", "successors", token));
    for (const successor of SUCCESSOR_OF_EIGHTH) table[at++] = shuffled(successor % vocabulary);
  }
  return table;
}

const FEATURES = 7;
const WAVES = 8;
const VECTOR_NOISE = 0.1;
const REFERENCE_SAMPLES = 4096;

/**
 * Features x are standard normal. y = sum over 8 waves of a * sin(w.x + b), standardised, plus noise of 0.1:
 * the best possible R2 is 1 / 1.01. With cross entropy the target is the largest of the y, with bce their
 * signs.
 */
function vectors(spec: Spec): Source {
  const { role, samples, seed, loss, model } = spec;
  const features = model.input_size || FEATURES;
  const classes = isOfClasses(loss);
  const outputs = model.output_size || (classes ? 3 : 1);
  checkSamples(spec, "synthetic vectors", 4 * (features + Math.max(WAVES, outputs)));
  const { input, target } = scope(() => {
    const signal = teacher(seed, features, outputs);
    const input = normalTensor(key(seed, "vectors", role, "x"), [samples, features]);
    const noise = normalTensor(key(seed, "vectors", role, "noise"), [samples, outputs]);
    const y = add(signal(input), scale(noise, VECTOR_NOISE));
    const target = classes
      ? ops.argmax(y, 1)
      : hasLoss(loss, "bce")
      ? ops.toDtype(ops.gt(y, constant(0)), "f32")
      : y;
    return { input, target };
  });
  const kind = classes ? `${outputs} classes` : outputs === 1 ? "1 number" : `${outputs} numbers`;
  return memorySource({
    name: "synthetic vectors",
    task: classes ? "classification" : "regression",
    outputs,
    description: `synthetic vectors: ${features} features -> ${kind}`,
    input,
    target,
  });
}

/** It is standardised on samples of its own, so it depends on the seed alone. */
function teacher(seed: number, features: number, outputs: number): (x: Tensor) => Tensor {
  const draw = (part: string, shape: number[]) => normalTensor(key(seed, "vectors", "teacher", part), shape);
  const weight = scale(draw("w", [WAVES, features]), 1 / Math.sqrt(features));
  const phase = draw("b", [WAVES]);
  const height = draw("a", [outputs, WAVES]);
  const raw = (x: Tensor) => ops.linear(ops.sin(ops.linear(x, weight, phase)), height);
  const reference = raw(draw("x", [REFERENCE_SAMPLES, features]));
  const centre = ops.meanDim(reference, [0]), spread = ops.sqrt(ops.variance(reference, [0]));
  return (x) => ops.div(sub(raw(x), centre), spread);
}

export function makeSynthetic(spec: Spec): Source {
  const { name } = spec.model;
  if (name === "gpt") return makeTokens(spec);
  if (name === "unet" || name === "fno") return masks(spec);
  if (!takesImages(name) || name === "convlstm") return vectors(spec); // nothing is made up for steps of time
  const classes = isOfClasses(spec.loss) || (spec.loss === "auto" && name !== "cosmo-cnn");
  return classes ? images(spec) : makeFields(spec);
}
