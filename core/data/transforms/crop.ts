// Crops, patches, turns and sizes of maps, where samples are read; targets on the same pixels go along.
import { borrowBytes, uninitialised } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { type Batch, finerBy, type Part, plainPart, readRows, type Source } from "../source/source.ts";
import type { Field, Threaded } from "../source/reader.ts";
import { contiguous, reshape } from "../../../ffi/ops.ts";
import { UserError } from "../../base/errors.ts";
import { MOST_POSITIONS } from "../../base/random.ts";
import { drawsOf } from "../source/pipeline.ts";
import { numbersOf } from "../arrays/numbers.ts";
import {
  type Beside,
  finer,
  type Geometry,
  openGeometry,
  openPlaces,
  sampleShape,
} from "../source/geometry.ts";
import { storedFields } from "./inputs.ts";
import { checkSteps, inputSteps, targetSteps } from "./steps.ts";
import type { Step } from "../augment/list.ts";

interface Cut {
  readonly ignored: number;
  /** So many patches of each sample are samples of their own. */
  readonly times: number;
  /** They are --augment's; without a list there are none. */
  readonly steps: readonly Step[];
}

export function cropped(
  source: Source,
  given: Geometry,
  seed: number | null,
  { ignored, times, steps }: Cut,
): Source {
  const { threaded } = source;
  const fields = storedFields(source), stored = fields.input;
  checkSteps(steps, source, stored);
  const plan = steps.length > 0 ? { ...given, list: inputSteps(steps, source, stored) } : given;
  const shape = sampleShape(plan, stored.shape, source.name);
  if (plan.resize > 0 && (stored.dtype === "f16" || stored.dtype === "bf16")) {
    throw new UserError(
      "usage",
      `${source.name} holds ${stored.dtype}, which can't be resized: store it as f32.`,
    );
  }
  const input = { ...source.input, shape };
  const facts = { ...source.facts, input: { ...source.facts.input, shape } };
  const { vectors = null } = source;
  const ownPlan = { ...plan, vectors: vectors && { pairs: vectors.input, sense: vectors.sense } };
  const beside = besideOf(source, fields, plan, { ignored, steps });
  const after = beside && sampleShape(beside.plan, beside.map, source.name);
  const sized = <F extends Field>(field: F): F =>
    after ? { ...field, shape: [...field.shape.slice(0, -2), ...after.slice(-2)] } : field;
  const whole = { ...source, input, facts, target: sized(source.target), ...ofSeveral(source, times) };
  if (threaded) {
    const now = {
      ...{ ...threaded, geometry: ownPlan, seed, beside, ...severalTimes(threaded, times) },
      ...{ input: { ...stored, shape }, target: sized(threaded.target) },
    };
    return { ...whole, threaded: now, ...readRows(now) };
  }
  if (plan.patch && beside && after) {
    const made = { input: { ...stored, shape }, target: sized(fields.target) };
    return { ...whole, raw: patchesIn(source, { plan: ownPlan, made, beside, after, seed }) };
  }
  const arrange = openGeometry(ownPlan, shape), draws = drawsOf(seed);
  const arrangeTarget = beside && after && openGeometry(beside.plan, after);
  const raw = (part: Part): Batch => {
    const { input, target } = source.raw(
      times === 1 ? part : { ...part, ids: part.ids.map((id) => id % source.length) },
    );
    return {
      input: arranged(input, shape, part, draws, arrange),
      target: arrangeTarget
        ? reshape(
          arranged(reshape(target, [part.ids.length, ...beside.map]), after, part, draws, arrangeTarget),
          [part.ids.length, ...sized(fields.target).shape],
        )
        : target,
    };
  };
  return { ...whole, raw };
}

interface Patched {
  readonly plan: Geometry;
  readonly made: Pick<Threaded, "input" | "target">;
  readonly beside: Beside;
  /** The target's map becomes this. */
  readonly after: readonly number[];
  readonly seed: number | null;
}

/** Whole maps are gathered one by one: a batch of them may be much larger than one of patches. */
function patchesIn(source: Source, { plan, made, beside, after, seed }: Patched): Source["raw"] {
  const arrange = openGeometry(plan, made.input.shape), arrangeTarget = openGeometry(beside.plan, after);
  const draws = drawsOf(seed), places = openPlaces(beside);
  return ({ ids, epoch }) => {
    const room = ({ shape, dtype }: Field) => uninitialised([ids.length, ...shape], { dtype });
    const batch = { input: room(made.input), target: room(made.target) };
    ids.forEach((id, i) =>
      scope(() => {
        const found = source.raw(plainPart([id % source.length], epoch));
        const numbers = (t: Tensor) => numbersOf(t.dtype, borrowBytes(t));
        const row = (t: Tensor) => {
          const bytes = borrowBytes(t), each = bytes.length / ids.length;
          return numbersOf(t.dtype, bytes.subarray(i * each, (i + 1) * each));
        };
        const input = contiguous(found.input), target = numbers(contiguous(found.target));
        const draw = places(target, draws(id, epoch));
        arrange({ data: numbers(input), shape: input.shape.slice(1) }, row(batch.input), draw);
        arrangeTarget({ data: target, shape: beside.map }, row(batch.target), draw);
      })
    );
    return batch;
  };
}

function severalTimes<S extends { readonly length: number; readonly indices?: Int32Array | null }>(
  { length, indices }: S,
  times: number,
): { length: number; indices: S["indices"] } {
  if (times === 1) return { length, indices };
  if (times * length > MOST_POSITIONS) {
    throw new UserError(
      "usage",
      `--patches-per-sample ${times} of ${length} samples are more than the ${MOST_POSITIONS} that can be put in order: ` +
        `set it to ${Math.floor(MOST_POSITIONS / length)} or less.`,
    );
  }
  const all = new Int32Array(new SharedArrayBuffer(4 * times * length));
  for (let i = 0; i < all.length; i++) all[i] = indices?.[i % length] ?? i % length;
  return { length: all.length, indices: all };
}

/** A sample has its class and its weight each time that it comes. */
function ofSeveral(
  source: Source,
  times: number,
): Pick<Source, "length" | "indices" | "sampleWeights" | "labels"> {
  const { sampleWeights, labels } = source, made = severalTimes(source, times);
  if (times === 1) return made;
  const again = (values: ArrayLike<number>) =>
    Float64Array.from({ length: made.length }, (_, i) => values[i % source.length]);
  return {
    ...made,
    ...(sampleWeights && { sampleWeights: again(sampleWeights) }),
    ...(labels && { labels: () => again(labels()) }),
  };
}

/** A target on the input's own pixels goes wherever they go, as does one that is finer; null for any other. */
function besideOf(
  { name, threaded, vectors = null, facts: { task } }: Source,
  { input, target }: Pick<Threaded, "input" | "target">,
  plan: Geometry,
  { ignored, steps }: Pick<Cut, "ignored" | "steps">,
): Beside | null {
  const perPixel = task === "segmentation" && target.shape.length === 2;
  const refuse = (why: string) =>
    new UserError("usage", `${name}: targets here are maps of [${target.shape.join(", ")}], and ${why}.`);
  if (!perPixel && (task !== "regression" || target.shape.length !== 3)) {
    if (!plan.patch) return null;
    throw new UserError(
      "usage",
      `--patch is for maps with an answer for each pixel, and ${name} has inputs of [${
        input.shape.join(", ")
      }] and targets of [${target.shape.join(", ")}]: leave it out.`,
    );
  }
  const cuts = plan.centreCrop > 0 || plan.randomCrop > 0 || plan.resize > 0;
  const k = perPixel || cuts ? 1 : finerBy(target.shape, input.shape);
  if (input.shape.slice(-2).map((side) => k * side).join() !== target.shape.slice(-2).join()) {
    throw refuse(`inputs of [${input.shape.join(", ")}] can't be cropped, resized or turned beside them`);
  }
  if (threaded?.reader.whole) {
    throw refuse("your own reader's can't be cropped, resized or turned: do so there");
  }
  if (plan.resize > 0 && perPixel) {
    throw refuse(
      `classes of pixels are never blended: in place of --resize say --augment 'resize(${plan.resize}, interpolation=bicubic)', ` +
        "in which they take the nearest",
    );
  }
  if (plan.padding > 0) throw refuse("--crop-padding would make up targets of 0: leave it out");
  const map = perPixel ? [1, ...target.shape] : target.shape;
  if (k !== 1 && plan.list) throw refuse("finer than the inputs, which --augment can't change beside them");
  const turning = {
    ...plan,
    vectors: vectors && { pairs: vectors.target, sense: vectors.sense },
    list: plan.list && targetSteps(steps, target, { perPixel, ignored, name }),
  };
  return { map, plan: finer(turning, k), dtype: target.dtype, ignored };
}

function arranged(
  rows: Tensor,
  shape: readonly number[],
  { ids, epoch }: Part,
  draws: ReturnType<typeof drawsOf>,
  arrange: ReturnType<typeof openGeometry>,
): Tensor {
  const { dtype } = rows, stored = rows.shape.slice(1);
  const made = uninitialised([ids.length, ...shape], { dtype });
  const from = borrowBytes(contiguous(rows)), to = borrowBytes(made);
  const each = from.length / ids.length, size = to.length / ids.length;
  for (let i = 0; i < ids.length; i++) {
    const data = numbersOf(dtype, from.subarray(i * each, (i + 1) * each));
    const into = numbersOf(dtype, to.subarray(i * size, (i + 1) * size));
    arrange({ data, shape: stored }, into, draws(ids[i], epoch));
  }
  return made;
}
