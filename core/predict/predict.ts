// What a model says of each sample of a part, batch by batch. May import ffi, data, models, train.
import { isFloating } from "../../ffi/dtype.ts";
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { readBytes, toNumbers } from "../../ffi/make.ts";
import { argmax, reshape, softmax, toDtype } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { plainPart, type Source } from "../data/source.ts";
import { forward } from "../models/model.ts";
import type { Pass } from "../train/blocks.ts";
import type { Feed } from "../train/feed.ts";
import { evaluationOutOfMemory } from "../train/out_of_memory.ts";

/** One column of some samples' rows: what each sample has of it, and its numbers. */
export interface Some {
  readonly name: string;
  /** Of one sample. */
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;
}

/** Samples by their place in the source: from the first up to the end, without it. */
export interface Range {
  readonly from: number;
  readonly end: number;
}

export interface Job {
  readonly pass: Pass;
  readonly feed: Feed;
  readonly batchSize: number;
  /** Whether what the data says of its samples is among the columns. */
  readonly targets: boolean;
  /** From a class's number in the data to the model's, where they are not the same; -1 for one that it does not know. */
  readonly relabel?: readonly number[] | null;
  /** Gets each batch's columns, in order. */
  take(rows: readonly Some[]): void;
  /** Called between batches and while data is waited for. */
  poll(done: number): Promise<void> | void;
}

const WAIT_MS = 50;

/** The part that a rank takes: whole batches, the same whatever the number of ranks, so that they have the same bits. */
export function shareOf(length: number, batchSize: number, rank: number, world: number): Range {
  const batches = Math.ceil(length / batchSize);
  const at = (rank: number) => Math.min(length, Math.floor(rank * batches / world) * batchSize);
  return { from: at(rank), end: at(rank + 1) };
}

export async function predict(source: Source, { from, end }: Range, job: Job): Promise<void> {
  const { pass, feed, batchSize, targets, relabel = null, take, poll } = job;
  if (from === end) return;
  const classes = source.facts.task === "classification";
  pass.model.root.train(false);
  const supply = feed.of(source);
  let asked = from;
  supply.begin(() => {
    const first = asked, count = Math.min(batchSize, end - first);
    asked += count;
    return count <= 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => first + i))];
  });
  for (let done = from; done < end;) {
    while (!supply.ready(WAIT_MS)) await poll(done - from);
    try {
      scope(() =>
        noGrad(() => {
          const { input, target } = supply.take()![0];
          const output = autocast(pass.cast, pass.onGpu, () => forward(pass.model, input) as Tensor);
          const count = input.shape[0];
          const ids = Int32Array.from({ length: count }, (_, i) => source.indices?.[done + i] ?? done + i);
          take([
            { name: "id", shape: [], values: ids },
            floats("prediction", output),
            ...(classes ? likeliest(output) : []),
            ...(targets && !source.facts.targetless
              ? [classes && !isFloating(target.dtype) ? labels(target, relabel) : floats("target", target)]
              : []),
          ]);
          done += count;
        })
      );
    } catch (error) {
      throw evaluationOutOfMemory(error, batchSize);
    }
    supply.ahead();
    await poll(done - from);
  }
}

const floats = (name: string, rows: Tensor): Some => ({
  name,
  shape: rows.shape.slice(1),
  values: new Float32Array(readBytes(toDtype(rows, "f32")).buffer),
});

const labels = (target: Tensor, relabel: readonly number[] | null): Some => ({
  name: "target",
  shape: target.shape.slice(1),
  values: Int32Array.from(toNumbers(target), (label) => relabel ? relabel[label] ?? -1 : label),
});

/** Of one logit the classes are 0 and 1, as the loss bce has it. */
function likeliest(output: Tensor): Some[] {
  const logits = reshape(toDtype(output, "f32"), [output.shape[0], -1]);
  const some = (label: Float64Array, probability: Float64Array): Some[] => [
    { name: "label", shape: [], values: Int32Array.from(label) },
    { name: "probability", shape: [], values: Float32Array.from(probability) },
  ];
  if (logits.shape[1] === 1) {
    const ones = toNumbers(logits).map((logit) => 1 / (1 + Math.exp(-logit)));
    return some(ones.map((p) => p >= 0.5 ? 1 : 0), ones.map((p) => Math.max(p, 1 - p)));
  }
  const shares = softmax(logits, 1);
  const label = toNumbers(argmax(shares, 1));
  const all = toNumbers(shares), count = logits.shape[1];
  return some(label, label.map((one, i) => all[i * count + one]));
}
