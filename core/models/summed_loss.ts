// A sum of losses with weights, and a loss for each target: the mean over the items that all terms count.
import { add, onEachDevice, scale, tensor } from "../../ffi/make.ts";
import { indexSelect, narrow } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { didYouMean } from "../base/suggest.ts";
import type { LossTerm } from "../settings/losses.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";

/**
 * A part of a loss that is told beside it, as loss/NAME.
 * @internal
 */
export interface WeighedLoss {
  readonly name: string;
  readonly weight: number;
  readonly loss: Loss;
}

/** `make` gives a term's own loss for the targets that it compares. */
export function summedLoss(
  text: string,
  written: readonly LossTerm[],
  facts: Facts,
  targets: readonly string[],
  make: (term: LossTerm, facts: Facts) => Loss,
): Loss {
  const ofTargets = written.some((term) => term.targets !== null);
  const places = ofTargets ? placesOf(text, written, facts, targets) : null;
  const names = namesOf(written);
  const terms = written.map((term, i): WeighedLoss => {
    const own = places?.[i], loss = make(term, own ? { ...facts, outputs: own.length } : facts);
    return { name: names[i], weight: term.weight, loss: own ? ofPlaces(loss, own, facts.outputs) : loss };
  });
  if (terms.length === 1 && terms[0].weight === 1 && !ofTargets) return terms[0].loss;
  refuseMixed(text, terms, facts, ofTargets);
  const [{ loss: first }] = terms, like = likeOf(terms);
  const even = terms.every(({ loss: { counts } }) => counts === first.counts) &&
    !(ofTargets && facts.missing);
  const noted = terms.find(({ loss }) => loss.note)?.loss.note;
  const about = {
    ...(ofTargets ? {} : partsOf(first)),
    name: text,
    ...(like && { like }),
    outputs: ofTargets ? facts.outputs : first.outputs,
    ...(first.ignored !== undefined && { ignored: first.ignored }),
    ...(noted && { note: noted }),
  };
  const sum = (of: readonly WeighedLoss[]): Loss => ({
    ...about,
    terms: of,
    apply: (output, target) =>
      of.map(({ weight, loss }) => weighed(loss.apply(output, target), weight)).reduce((a, b) => add(a, b)),
    validCount: first.validCount,
    ...(!even && {
      refuseUneven: (target: Tensor) => refuseUneven(text, of, target, ofTargets ? facts.outputs : null),
    }),
  });
  const ofShares = terms.map((term) => ({ ...term, loss: term.loss.ofProbabilities ?? term.loss }));
  const some = terms.some(({ loss }) => loss.ofProbabilities !== undefined);
  return { ...sum(terms), ...(some && { ofProbabilities: sum(ofShares) }) };
}

const weighed = (value: Tensor, weight: number): Tensor => weight === 1 ? value : scale(value, weight);

const partsOf = ({ parts, levels, point, logVariance, variance, answer }: Loss) => ({
  ...(parts && { parts }),
  ...(levels && { levels }),
  ...(point !== undefined && { point }),
  ...(logVariance !== undefined && { logVariance }),
  ...(variance !== undefined && { variance }),
  ...(answer && { answer }),
});

/** A term has its loss's name, its target's, or its text, whichever is the shortest that no other has. */
function namesOf(terms: readonly LossTerm[]): string[] {
  const ways = [
    ({ name, targets }: LossTerm) => targets?.join("+") ?? name,
    ({ name, targets }: LossTerm) => [...targets ?? [], name].join("_"),
    ({ text, targets }: LossTerm) => [...targets ?? [], text].join("_"),
  ];
  return (ways.map((way) => terms.map(way)).find((names) => new Set(names).size === names.length) ??
    terms.map((term, i) => `${i + 1}_${term.text}`)).map((name) => name.replaceAll("/", "_"));
}

/** The places of each term's targets among all. Each target has a loss. */
function placesOf(
  text: string,
  terms: readonly LossTerm[],
  { task, outputs }: Facts,
  targets: readonly string[],
): readonly (readonly number[])[] {
  const fail = (why: string) => new UserError("usage", `--loss "${text}": ${why}`);
  if (task !== "regression" || targets.length !== outputs) {
    throw fail(
      `a loss for each target needs several numbers with names as targets (--targets a,b), and this data has ${
        task === "regression" ? `${outputs} without names` : "classes"
      }: give one loss for all.`,
    );
  }
  const places = terms.map(({ targets: own }) =>
    own!.map((name) => {
      const at = targets.indexOf(name);
      if (at < 0) {
        throw fail(
          `there is no target ${name}.${didYouMean(name, targets)} There are ${targets.join(", ")}.`,
        );
      }
      return at;
    })
  );
  const left = targets.filter((_, i) => !places.flat().includes(i));
  if (left.length > 0) {
    throw fail(`${left.join(", ")} has no loss: give each target one, such as ${left[0]}: mse.`);
  }
  return places;
}

function refuseMixed(text: string, terms: readonly WeighedLoss[], facts: Facts, ofTargets: boolean): void {
  const fail = (why: string) => new UserError("usage", `--loss "${text}": ${why}`);
  const [{ loss: first }] = terms;
  for (const { name, loss } of terms) {
    if (ofTargets && loss.parts) {
      throw fail(
        `${loss.name} wants several numbers for each target, and losses of targets have one: use mse, l1 or huber.`,
      );
    }
    if (!ofTargets && (loss.outputs !== first.outputs || String(loss.parts) !== String(first.parts))) {
      throw fail(
        `${
          terms[0].name
        } wants ${first.outputs} outputs of the model and ${name} ${loss.outputs}: a sum is of losses of ` +
          "the same outputs.",
      );
    }
  }
  const ofLogs = terms.filter(({ loss }) => loss.name === "nll");
  if (facts.task !== "regression" && ofLogs.length > 0 && ofLogs.length < terms.length) {
    throw fail(
      "nll takes logarithms of probabilities and the others scores: use cross_entropy in its place.",
    );
  }
}

/** How metrics may compare the output with the targets: as all terms do. */
function likeOf(terms: readonly WeighedLoss[]): Loss["like"] {
  const kinds = terms.map(({ loss }) => loss.like ?? (loss.name === "bce" ? "bce" : "mse"));
  return kinds.every((kind) => kind === kinds[0]) ? kinds[0] : kinds.includes("none") ? "none" : "mse";
}

/** The loss of some targets: their channels of outputs and targets, along dimension 1. */
function ofPlaces(loss: Loss, places: readonly number[], count: number): Loss {
  const [first] = places, run = places.every((place, i) => place === first + i);
  const index = onEachDevice(() => tensor(BigInt64Array.from(places, BigInt)));
  const part = (t: Tensor): Tensor =>
    count === 1 ? t : run ? narrow(t, 1, first, places.length) : indexSelect(t, 1, index(t.device));
  return {
    ...loss,
    apply: (output, target) => loss.apply(part(output), part(target)),
    validCount: (target) => scope(() => loss.validCount(part(target))),
    ...(loss.ofProbabilities && { ofProbabilities: ofPlaces(loss.ofProbabilities, places, count) }),
  };
}

/**
 * Each term's mean has a share of its own where terms count different items: all items are there, or no one share is
 * right. `of`: the terms have so many targets in all, and each some of them.
 */
function refuseUneven(text: string, terms: readonly WeighedLoss[], target: Tensor, of: number | null): void {
  const whole = ({ counts, outputs }: Loss) =>
    counts === "samples" ? target.shape[0] : target.numel * (of === null ? 1 : outputs / of);
  const odd = terms.find(({ loss }) => loss.validCount(target) !== whole(loss));
  if (!odd) return;
  throw new UserError(
    "usage",
    `--loss "${text}" adds up losses that count different items (${
      terms.map(({ name, loss }) => `${name}: ${loss.counts ?? "points"}`).join(", ")
    }), and some don't count: over several micro-batches or ranks their means can't be shared out exactly. Train with ` +
      "one micro-batch on one rank, or with losses that count the same items.",
  );
}
