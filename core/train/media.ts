// Histograms of weights and gradients, and pictures of samples, for the outputs that want them.
import { toDevice, toNumbers } from "../../ffi/make.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { HistogramsNote, PicturesNote } from "../run/events.ts";
import type { Arena } from "./arena.ts";
import { Buffer } from "node:buffer";
import { autocast } from "../../ffi/context.ts";
import { noGrad } from "../../ffi/autograd.ts";
import type { DType } from "../../ffi/dtype.ts";
import {
  contactSheet,
  diverging,
  encodePng,
  enlarged,
  paint,
  type Picture,
  pictureRange,
  type Raster,
  rowMajorStrides,
  type ValueRange,
} from "../data/preview/picture.ts";
import { plainPart, type Source } from "../data/source/source.ts";
import { formatValue } from "../base/format.ts";
import { answersTo, outputOf, type Pass } from "./blocks.ts";
import type { Inspection } from "./step.ts";

const BINS = 64;
/** More histograms would make a note exceed a mebibyte. */
const MOST = 200;

interface Histogram {
  readonly values: readonly number[];
  readonly bins: readonly number[];
}

/** `whole`: this rank has the gradients of all parameters. */
export function openHistograms(
  every: number,
  { names, parameters }: Pick<Arena, "names" | "parameters">,
  whole: boolean,
  note: (note: HistogramsNote) => void,
): Inspection {
  const inspect = (step: number, gradients: readonly Tensor[]) => {
    let of: Record<string, Histogram> = {};
    const flush = () => {
      note({ kind: "histograms", t: Date.now() / 1000, step, of });
      of = {};
    };
    const add = (kind: string, tensors: readonly Tensor[]) =>
      tensors.forEach((t, i) => {
        of[`${kind}/${names[i]}`] = numberHistogram(scope(() => toNumbers(t)));
        if (Object.keys(of).length >= MOST) flush();
      });
    add("weights", parameters);
    if (whole) add("gradients", gradients);
    if (Object.keys(of).length > 0) flush();
  };
  return { due: (step) => step % every === 0, inspect };
}

/** Infinite values and NaN have no bin. */
export function numberHistogram(numbers: Float64Array): Histogram {
  let least = Infinity, most = -Infinity;
  for (let i = 0; i < numbers.length; i++) {
    const x = numbers[i];
    if (x - x !== 0) continue; // NaN or infinite
    if (x < least) least = x;
    if (x > most) most = x;
  }
  if (least > most) [least, most] = [0, 0];
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  const values: number[] = new Array(BINS).fill(0);
  const scale = BINS / (most - least);
  for (let i = 0; i < numbers.length; i++) {
    const x = numbers[i];
    if (x - x === 0) values[Math.min(BINS - 1, Math.floor((x - least) * scale))]++;
  }
  const bins = Array.from({ length: BINS + 1 }, (_, i) => short(least + (most - least) * i / BINS));
  return { values, bins };
}

const short = (x: number) => Number(x.toPrecision(6));

/** A smaller picture is enlarged to about half of it. */
const SIDE = 192;
/** Epochs of a second do not need pictures each. */
const BETWEEN_MS = 60_000;
const CAPTION = 4; // numbers of a target

/** Null where samples are no pictures. Called after an evaluation, with its weights. */
export function openPictures(
  source: Source | null,
  most: number,
  note: (note: PicturesNote) => void,
): ((pass: Pass, step: number) => void) | null {
  if (source === null || most === 0 || !isPicture(source.input.shape)) return null;
  const count = Math.min(most, source.length);
  let shownAt = -Infinity;
  return (pass, step) => {
    if (performance.now() - shownAt < BETWEEN_MS) return;
    shownAt = performance.now();
    try {
      const pictures = scope(() => shown(pass, source, count));
      note({ kind: "pictures", t: Date.now() / 1000, step, name: "samples", pictures });
    } catch {
      shownAt = Infinity; // training reports a bad sample or missing memory by itself
    }
  };
}

export const isPicture = (shape: readonly number[]): boolean =>
  shape.length === 3 && shape[1] > 3 && shape[2] > 3;

const isMap = (shape: readonly number[]): boolean => isPicture(shape.length === 2 ? [1, ...shape] : shape);

function shown(pass: Pass, source: Source, count: number): PicturesNote["pictures"] {
  const ids = Array.from({ length: count }, (_, i) => Math.floor(i * source.length / count));
  const part = plainPart(ids), raw = source.raw(part);
  const { input, target } = source.finish(raw, part);
  const output = predicted(pass, input);
  const [inputs, targets, outputs] = [asHeld(raw.input, input), target, output].map((t) =>
    mediaSamples(t, count)
  );
  const { task, outputs: classes } = source.facts;
  const segments = task === "segmentation";
  const toPicture = pictureOf(raw.input.dtype, inputs);
  return ids.map((_, i) => {
    const maps = [toPicture(inputs[i])];
    if (isMap(targets[i].shape)) {
      const known = withoutMissing(asMap(targets[i], segments), segments);
      const made = hiddenLike(asMap(outputs[i], segments), known);
      const ranges = segments ? [[0, Math.max(1, classes - 1)] as const] : rangesOf(known);
      maps.push(painted(known, ranges), painted(made, ranges));
      if (!segments) maps.push(difference(known, made, ranges));
    }
    const picture = enlargedTo(contactSheet(maps, maps.length, 2));
    return {
      png: Buffer.from(encodePng(picture)).toString("base64"),
      width: picture.width,
      height: picture.height,
      caption: captionOf(source, targets[i], outputs[i]),
    };
  });
}

const asHeld = (raw: Tensor, finished: Tensor): Tensor =>
  raw.shape.join() === finished.shape.join() ? raw : finished;

export function predicted(pass: Pass, input: Tensor): Tensor {
  const { model } = pass;
  const [[, { device }]] = [...model.root.namedParameters(), ...model.root.namedBuffers()];
  model.root.train(false);
  try {
    return noGrad(() => {
      const output = autocast(
        pass.cast,
        pass.onGpu,
        () => outputOf(answersTo(pass, toDevice(input, device))),
      );
      return pass.loss.answer?.(output) ?? output;
    });
  } finally {
    model.root.train(true);
  }
}

export interface MediaSample {
  readonly values: Float64Array;
  readonly shape: readonly number[];
}

export function mediaSamples(t: Tensor, count: number): MediaSample[] {
  const all = toNumbers(t), each = all.length / count;
  const shape = t.shape.slice(1);
  return Array.from({ length: count }, (_, i) => ({ values: all.subarray(i * each, (i + 1) * each), shape }));
}

export function asMap({ values, shape }: MediaSample, segments: boolean): MediaSample {
  if (shape.length === 2) return { values, shape: [1, ...shape] };
  const [classes, height, width] = shape;
  if (!segments || classes < 2) return { values, shape };
  const best = new Float64Array(height * width);
  for (let at = 0; at < best.length; at++) {
    for (let c = 1; c < classes; c++) {
      if (values[c * best.length + at] > values[best[at] * best.length + at]) best[at] = c;
    }
  }
  return { values: best, shape: [1, height, width] };
}

/** Labels below zero are of points without a class. */
const withoutMissing = (known: MediaSample, segments: boolean): MediaSample =>
  segments ? { ...known, values: known.values.map((label) => label < 0 ? NaN : label) } : known;

/** Predictions are not shown where nothing is known, such as on land. */
const hiddenLike = ({ values, shape }: MediaSample, known: MediaSample): MediaSample => ({
  shape,
  values: values.map((value, i) => Number.isNaN(known.values[i]) ? NaN : value),
});

/** White is right; full colours are off by half of what the target spans. */
function difference(known: MediaSample, made: MediaSample, ranges: readonly ValueRange[]): Picture {
  const values = known.values.map((value, i) => made.values[i] - value);
  const spans = ranges.map(([least, most]): ValueRange => {
    const half = (most - least) / 2 || 1;
    return [-half, half];
  });
  return painted({ values, shape: known.shape }, spans, diverging);
}

/**
 * Three channels of numbers are colours on one scale for all samples, so that none is brighter than it is.
 */
export function pictureOf(dtype: DType, samples: readonly MediaSample[]): (sample: MediaSample) => Picture {
  const [channels] = samples[0].shape, bytes = dtype === "u8" && channels === 1;
  if (channels !== 3 && !bytes) return (sample) => painted(sample);
  const [least, most] = dtype === "u8" ? [0, 255] : coloursOf(samples);
  const scale = most > least ? 255 / (most - least) : 0;
  const byte = (value: number) => Math.min(255, Math.max(0, (value - least) * scale));
  return ({ values, shape }) => {
    const strides = rowMajorStrides(shape);
    return paint({ values: values.map(byte), shape, strides, isImage: true }, { width: SIDE, height: SIDE });
  };
}

function coloursOf(samples: readonly MediaSample[]): ValueRange {
  const ranges = samples.map(({ values }) => pictureRange(values));
  const least = Math.min(...ranges.map(([least]) => least)),
    most = Math.max(...ranges.map(([, most]) => most));
  if (least < 0 || most > 255) return [least, most];
  return most <= 1 ? [0, 1] : [0, 255];
}

const painted = (
  { values, shape }: MediaSample,
  ranges?: Raster["ranges"],
  colours?: Raster["colours"],
): Picture =>
  paint({ values, shape, strides: rowMajorStrides(shape), isImage: false, ranges, colours }, {
    width: SIDE,
    height: SIDE,
  });

function rangesOf({ values, shape: [channels] }: MediaSample): ValueRange[] {
  const each = values.length / channels;
  return Array.from({ length: channels }, (_, c) => pictureRange(values.subarray(c * each, (c + 1) * each)));
}

function enlargedTo(picture: Picture): Picture {
  const times = Math.floor(SIDE / 2 / Math.max(picture.width, picture.height));
  return times > 1 ? enlarged(picture, times) : picture;
}

function captionOf({ facts, names }: Source, target: MediaSample, output: MediaSample): string {
  if (isMap(target.shape)) {
    return `input, target, prediction${facts.task === "segmentation" ? "" : ", difference"}`;
  }
  if (facts.task === "classification" && target.values.length === 1) {
    const name = (index: number) => names?.[index] ?? String(index);
    const best = output.values.indexOf(Math.max(...output.values));
    return `${name(target.values[0])}, predicted ${name(best)}`;
  }
  const numbers = ({ values }: MediaSample) =>
    [...values.subarray(0, CAPTION)].map(formatValue).join(", ") + (values.length > CAPTION ? ", ..." : "");
  return `${numbers(target)}, predicted ${numbers(output)}`;
}
