// PyTorch's losses.
import type { Ref } from "../graph.ts";
import { type Lowering, num, type Rules, type Term } from "./lowering.ts";
import { logSigmoid } from "./pointwise.ts";
import { logSoftmax } from "./reductions.ts";

export const EACH = 0, MEAN = 1; // at::Reduction

export const total = (g: Lowering, x: Ref): Ref => g.b.reshape(g.sum(x, g.all(x)), []);

function reduced(g: Lowering, each: Ref, reduction: number): Ref {
  if (reduction === EACH) return each;
  const sum = total(g, each);
  return reduction === MEAN ? g.div(sum, num(g.count(each, g.all(each)))) : sum;
}

function huber(g: Lowering, x: Ref, target: Ref, reduction: number, delta: number): Ref {
  const miss = g.p("abs", g.sub(x, target));
  const near = g.mul(g.mul(num(0.5), miss), miss);
  const far = g.mul(num(delta), g.sub(miss, num(0.5 * delta)));
  return reduced(g, g.where(g.compare("lt", miss, num(delta)), near, far), reduction);
}

function smoothL1(g: Lowering, x: Ref, target: Ref, reduction: number, beta: number): Ref {
  const miss = g.p("abs", g.sub(x, target));
  if (beta === 0) return reduced(g, miss, reduction);
  const near = g.div(g.mul(g.mul(num(0.5), miss), miss), num(beta));
  return reduced(g, g.where(g.compare("lt", miss, num(beta)), near, g.sub(miss, num(0.5 * beta))), reduction);
}

function bceWithLogits(
  g: Lowering,
  x: Ref,
  target: Ref,
  weight: Ref | null,
  ofOnes: Ref | null,
  reduction: number,
): Ref {
  const log = logSigmoid(g, x);
  const factor: Term | null = ofOnes === null ? null : g.add(g.mul(g.sub(ofOnes, num(1)), target), num(1));
  const each = g.sub(g.mul(g.sub(num(1), target), x), factor === null ? log : g.mul(factor, log));
  return reduced(g, weight === null ? each : g.mul(each, weight), reduction);
}

/** No logarithm below it counts. */
const LEAST_LOG = -100;

function bce(g: Lowering, x: Ref, target: Ref, weight: Ref | null, reduction: number): Ref {
  const log = (y: Ref) => g.where(g.compare("lt", y, num(LEAST_LOG)), num(LEAST_LOG), y);
  const ones = g.mul(target, log(g.p("log", x)));
  const zeros = g.mul(g.sub(num(1), target), log(g.p("log1p", g.neg(x))));
  const each = g.neg(g.add(ones, zeros));
  return reduced(g, weight === null ? each : g.mul(each, weight), reduction);
}

/** Classes are along dimension 1, or 0 of a vector. */
export const classDim = (g: Lowering, x: Ref): number => g.shape(x).length === 1 ? 0 : 1;

export const perClass = (g: Lowering, t: Ref, x: Ref): Ref =>
  g.b.reshape(t, g.shape(x).map((size, d) => d === classDim(g, x) ? size : 1));

/** The parts of a log_softmax: x less the greatest, and the logarithm of the sum of its powers; null for another value. */
function logOfShares(g: Lowering, log: Ref): { readonly shifted: Ref; readonly logOfSum: Ref } | null {
  const node = g.b.node(log);
  if (node.op !== "sub") return null;
  const [shifted, logOfSum] = node.args, made = g.b.node(logOfSum);
  const sum = made.op === "log" ? g.b.node(made.args[0]) : null;
  const powers = sum?.op === "sum" ? g.b.node(sum.args[0]) : null;
  return powers?.op === "exp" && powers.args[0] === shifted ? { shifted, logOfSum } : null;
}

/** The log-likelihoods `log` of the labelled classes, as one-hot rows of a comparison choose them. */
function nll(
  g: Lowering,
  log: Ref,
  target: Ref,
  weight: Ref | null,
  reduction: number,
  ignored: number,
  smoothing = 0,
): Ref {
  if (g.kind(target) !== "i64") g.refuse("type");
  const dim = classDim(g, log), classes = g.shape(log)[dim];
  const labels = g.b.reshape(target, g.shape(log).with(dim, 1));
  const valid = g.compare("ne", labels, num(ignored));
  const chosen = g.compare("eq", labels, perClass(g, g.range(classes), log));
  const weighed = weight === null ? log : g.mul(log, perClass(g, weight, log));
  const picked = (x: Ref) => g.sum(g.where(g.b.pointwise("and", chosen, valid), x, num(0)), [dim]);
  const counts = weight === null ? g.float(valid) : picked(perClass(g, weight, log));
  const logShares = logOfShares(g, log);
  // The logarithm of the sum is the same for all classes of a row: what is picked need not wait for it.
  const own = logShares === null || weight !== null
    ? picked(weighed)
    : g.sub(picked(logShares.shifted), g.where(valid, logShares.logOfSum, num(0)));
  const even = smoothing === 0 ? null : g.where(valid, g.sum(weighed, [dim]), num(0));
  const each = g.neg(
    even === null ? own : g.add(g.mul(own, num(1 - smoothing)), g.mul(even, num(smoothing / classes))),
  );
  if (reduction === EACH) return g.shaped(each);
  const sum = total(g, each);
  return reduction === MEAN ? g.div(sum, total(g, counts)) : sum;
}

function crossEntropy(
  g: Lowering,
  x: Ref,
  target: Ref,
  weight: Ref | null,
  reduction: number,
  ignored: number,
  smoothing: number,
): Ref {
  const dim = classDim(g, x), log = logSoftmax(g, x, dim);
  if (g.kind(target) === "i64") return nll(g, log, target, weight, reduction, ignored, smoothing);
  const classes = g.shape(x)[dim];
  const shares = smoothing === 0
    ? target
    : g.add(g.mul(target, num(1 - smoothing)), num(smoothing / classes));
  const weighed = weight === null ? log : g.mul(log, perClass(g, weight, log));
  const each = g.neg(g.sum(g.mul(weighed, shares), [dim]));
  if (reduction === EACH) return g.shaped(each);
  const sum = total(g, each);
  return reduction === MEAN ? g.div(sum, num(g.count(each, g.all(each)))) : sum;
}

export const LOSS_RULES: Rules = {
  mse_loss: (g, x: Ref, target: Ref, reduction: number) => {
    const miss = g.sub(x, target);
    return reduced(g, g.mul(miss, miss), reduction);
  },
  l1_loss: (g, x: Ref, target: Ref, reduction: number) => reduced(g, g.p("abs", g.sub(x, target)), reduction),
  huber_loss: huber,
  smooth_l1_loss: smoothL1,
  binary_cross_entropy_with_logits: bceWithLogits,
  binary_cross_entropy: bce,
  cross_entropy_loss: crossEntropy,
  nll_loss: nll,
  nll_loss_nd: nll,
};
