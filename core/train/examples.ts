// Samples with what a model makes of them, for the report: pictures with their class, numbers beside those that were
// predicted, and a text with what was expected at each of its tokens.
import { Buffer } from "node:buffer";
import { toNumbers } from "../../ffi/make.ts";
import { argmax, gather, narrow, reshape, sigmoid, softmax, squeeze, toDtype } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { decode, type Tokenizer } from "../data/text/tokenizer.ts";
import { ownTargets, plainPart, type Source } from "../data/source/source.ts";
import { encodePng } from "../data/preview/picture.ts";
import type { Example, TextExample } from "../run/diagnostics.ts";
import type { Pass } from "./blocks.ts";
import { isPicture, type MediaSample, mediaSamples, pictureOf, predicted } from "./media.ts";
import { pointsIn, shiftedParts } from "./metrics.ts";

/** Samples that are judged: as many as have so many numbers as input. */
const MOST_JUDGED = 96, MOST_NUMBERS = 2 ** 21;
const MOST_PICTURES = 12, MOST_TARGETS = 16;
const TEXTS = 2, MOST_TOKENS = 192;

/** The judged samples stand evenly over the validation set. */
function judgedOf({ length, input: { shape } }: Source): number[] {
  const size = shape.reduce((product, side) => product * side, 1);
  const count = Math.min(length, MOST_JUDGED, Math.max(MOST_PICTURES, Math.floor(MOST_NUMBERS / size)));
  return Array.from({ length: count }, (_, i) => Math.floor((i + 0.5) * length / count));
}

/** Classes or plain numbers of each sample; none of maps, which are shown as such. */
export function examplesOf(source: Source, pass: Pass): Example[] {
  const { facts: { task }, target: { shape }, units } = source, { loss } = pass;
  const ofClasses = task === "classification", name = loss.like ?? loss.name;
  if (ofClasses ? !["cross_entropy", "bce"].includes(name) : task !== "regression" || shape.length > 1) {
    return [];
  }
  const ids = judgedOf(source), count = ids.length;
  return scope(() => {
    const part = plainPart(ids), raw = source.raw(part);
    const batch = source.finish(raw, part), { input, target } = batch, answer = predicted(pass, input);
    const judged = ofClasses ? classesOf(target, answer, name === "bce") : numbersOf(
      ownTargets(source, batch, ids),
      source.restore?.(answer, ids, shiftedParts(loss)) ?? answer,
      units,
      loss.point ?? 0,
    );
    const order = ofClasses ? mistakesFirst(judged) : judged.map((_, i) => i);
    const pictures = picturesOf(raw.input, input, order.slice(0, MOST_PICTURES));
    const shown = ofClasses ? order.slice(0, MOST_PICTURES) : order;
    if (ofClasses && pictures.length === 0) return [];
    return shown.map((i, at) => ({
      name: `sample ${source.indices?.[ids[i]] ?? ids[i]}`,
      image: pictures[at] ?? null,
      ...judged[i],
    })).slice(0, ofClasses ? MOST_PICTURES : count);
  });
}

type Judged = Pick<Example, "target" | "prediction" | "probability">;

function classesOf(target: Tensor, answer: Tensor, oneLogit: boolean): Judged[] {
  const count = target.shape[0], labels = toNumbers(target);
  if (labels.length !== count) return []; // soft labels have no class of their own
  const shares = toNumbers(toDtype(oneLogit ? sigmoid(answer) : softmax(answer, 1), "f32"));
  const classes = shares.length / count;
  return Array.from(labels, (label, i): Judged => {
    const own = oneLogit ? [1 - shares[i], shares[i]] : [...shares.subarray(i * classes, (i + 1) * classes)];
    const best = own.indexOf(Math.max(...own));
    return { target: [label], prediction: [best], probability: rounded(own[best], 3) };
  });
}

/** The surest mistakes come first, then what was right and least sure. */
function mistakesFirst(judged: readonly Judged[]): number[] {
  const isRight = ({ target, prediction }: Judged) => target[0] === prediction[0];
  const sure = (i: number) => judged[i].probability ?? 0;
  const all = judged.map((_, i) => i), wrong = all.filter((i) => !isRight(judged[i]));
  const right = all.filter((i) => isRight(judged[i])).sort((a, b) => sure(a) - sure(b));
  // Half of what is shown may be mistakes: a report of mistakes alone would be none of the model.
  const most = Math.max(MOST_PICTURES / 2, MOST_PICTURES - right.length);
  return [...wrong.sort((a, b) => sure(b) - sure(a)).slice(0, most), ...right];
}

function numbersOf(target: Tensor, answer: Tensor, units: Source["units"], point: number): Judged[] {
  const [count, each = 1] = target.shape;
  if (each > MOST_TARGETS) return [];
  const made = toNumbers(pointsIn(answer, target, point * each, each)), known = toNumbers(target);
  const own = (value: number, k: number) => rounded(units ? value * units.std[k] + units.mean[k] : value, 5);
  const row = (all: Float64Array, i: number) => Array.from(all.subarray(i * each, (i + 1) * each), own);
  return Array.from({ length: count }, (_, i) => ({
    ...{ target: row(known, i), prediction: row(made, i), probability: null },
  }));
}

const rounded = (value: number, digits: number): number => Number(value.toPrecision(digits));

/** PNG files in base64; none where the input is no picture. */
function picturesOf(raw: Tensor, input: Tensor, which: readonly number[]): string[] {
  if (!isPicture(input.shape.slice(1))) return [];
  const held = raw.shape.join() === input.shape.join() ? raw : input;
  const samples: MediaSample[] = which.map((i) => mediaSamples(narrow(held, 0, i, 1), 1)[0]);
  const toPicture = pictureOf(held.dtype, samples);
  return samples.map((sample) => Buffer.from(encodePng(toPicture(sample))).toString("base64"));
}

/** Windows of tokens with the model's first guess at each place, and how probable the token there was to it. */
export function textExamples(source: Source, pass: Pass, tokenizer: Tokenizer | null = null): TextExample[] {
  const count = Math.min(TEXTS, source.length);
  const ids = Array.from({ length: count }, (_, i) => Math.floor((i + 0.5) * source.length / count));
  return ids.map((id) =>
    scope(() => {
      const part = plainPart([id]), { input, target } = source.finish(source.raw(part), part);
      const length = Math.min(MOST_TOKENS, input.shape[1]);
      const shorter = (t: Tensor) => narrow(t, 1, 0, length);
      const answer = toDtype(predicted(pass, shorter(input)), "f32");
      const shares = reshape(softmax(answer, 2), [length, -1]);
      const index = reshape(toDtype(shorter(target), "i64"), [length, 1]);
      const probable = squeeze(gather(shares, 1, index), 1);
      const tokens = [...toNumbers(reshape(index, [length]))], guesses = [...toNumbers(argmax(shares, 1))];
      const word = (token: number) => [token, decode(tokenizer!, [token])] as const;
      return {
        ...{ tokens, guesses },
        probabilities: Array.from(toNumbers(probable), (share) => rounded(share, 3)),
        ...(tokenizer ? { words: Object.fromEntries([...new Set([...tokens, ...guesses])].map(word)) } : {}),
      };
    })
  );
}
