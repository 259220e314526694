// What a model says of each sample, once and in the data's order. May import ffi, data, models, train.
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { toNumbers } from "../../ffi/make.ts";
import { argmax, reshape, softmax, toDtype } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { plainPart, type Source } from "../data/source.ts";
import { forward } from "../models/model.ts";
import type { Pass } from "../train/blocks.ts";
import type { Feed } from "../train/feed.ts";

export interface Predictions {
  /** Of the samples, in the order of the rows. */
  readonly ids: Int32Array;
  /** One sample's outputs. */
  readonly shape: readonly number[];
  readonly outputs: Float32Array;
  /** Of classes: the likeliest, and how likely it is. */
  readonly classes: { readonly label: Int32Array; readonly probability: Float32Array } | null;
  readonly targets: { readonly shape: readonly number[]; readonly values: Float32Array };
}

const WAIT_MS = 50;

/** `poll` is called between batches and while data is waited for. */
export async function predict(
  pass: Pass,
  source: Source,
  feed: Feed,
  batchSize: number,
  poll: (done: number) => Promise<void> | void,
): Promise<Predictions> {
  const rows = openRows(source);
  pass.model.root.train(false);
  const supply = feed.of(source);
  let asked = 0;
  supply.begin(() => {
    const from = asked, count = Math.min(batchSize, source.length - from);
    asked += count;
    return count <= 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => from + i))];
  });
  for (let done = 0; done < source.length;) {
    while (!supply.ready(WAIT_MS)) await poll(done);
    scope(() =>
      noGrad(() => {
        const { input, target } = supply.take()![0];
        const output = autocast(pass.cast, pass.onGpu, () => forward(pass.model, input) as Tensor);
        rows.add(done, output, target);
        done += input.shape[0];
      })
    );
    supply.ahead();
    await poll(done);
  }
  return rows.whole();
}

/** Filled batch by batch; what a sample's outputs look like is known with the first. */
function openRows(source: Source) {
  const { length } = source;
  const ids = source.indices ? source.indices.slice() : Int32Array.from({ length }, (_, i) => i);
  const classes = source.facts.task === "classification"
    ? { label: new Int32Array(length), probability: new Float32Array(length) }
    : null;
  let outputs: Held | null = null, targets: Held | null = null;
  return {
    add(at: number, output: Tensor, target: Tensor) {
      outputs = put(outputs, length, at, output);
      targets = put(targets, length, at, target);
      if (!classes) return;
      const { label, probability } = likeliest(output);
      classes.label.set(label, at);
      classes.probability.set(probability, at);
    },
    whole: (): Predictions => ({
      ids,
      shape: outputs!.shape,
      outputs: outputs!.values,
      classes,
      targets: targets!,
    }),
  };
}

interface Held {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

function put(held: Held | null, length: number, at: number, rows: Tensor): Held {
  const shape = rows.shape.slice(1);
  const each = shape.reduce((product, size) => product * size, 1);
  held ??= { shape, values: new Float32Array(length * each) };
  held.values.set(toNumbers(rows), at * each);
  return held;
}

/** Of one logit the classes are 0 and 1, as the loss bce has it. */
function likeliest(output: Tensor): { label: Float64Array; probability: Float64Array } {
  const logits = reshape(toDtype(output, "f32"), [output.shape[0], -1]);
  if (logits.shape[1] === 1) {
    const ones = toNumbers(logits).map((logit) => 1 / (1 + Math.exp(-logit)));
    return { label: ones.map((p) => p >= 0.5 ? 1 : 0), probability: ones.map((p) => Math.max(p, 1 - p)) };
  }
  const shares = softmax(logits, 1);
  const label = toNumbers(argmax(shares, 1));
  const all = toNumbers(shares), count = logits.shape[1];
  return { label, probability: label.map((one, i) => all[i * count + one]) };
}
