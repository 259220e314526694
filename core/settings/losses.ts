// The losses by their names: what each compares and takes, and the text that --loss is: one name, a sum of losses with
// weights, or a loss for each target.
import { type Call, parseCall, type Value } from "../base/calls.ts";
import { UserError } from "../base/errors.ts";
import { didYouMean } from "../base/suggest.ts";
import { type Arguments, argumentsOf } from "./arguments.ts";

interface LossName {
  /** `either`: numbers between 0 and 1, or classes. `any`: the run decides. */
  readonly targets: "classes" | "numbers" | "either" | "any";
  readonly about: string;
  /** In PyTorch's order; a value without a name is the first's. */
  readonly takes?: Arguments;
  /** As torch.nn names it. */
  readonly torch?: string;
}

const NOT_BELOW_0 = { kind: "number", min: 0 } as const, FLAG = { kind: "flag" } as const;
const ABOVE_0 = { kind: "number", min: 0, above: true } as const, NUMBERS = { kind: "numbers" } as const;
const ANY = { kind: "number" } as const;

export const LOSSES = {
  auto: {
    targets: "any",
    about: "cross_entropy for classes, mse for numbers, graph where an exported program gives its own loss",
  },
  cross_entropy: {
    targets: "classes",
    torch: "CrossEntropyLoss",
    about: "of classes, or of a class for each pixel; with --class-weights a weighted mean, as PyTorch's",
    takes: { weight: NUMBERS, label_smoothing: { kind: "number", min: 0, max: 1 } },
  },
  mse: { targets: "numbers", torch: "MSELoss", about: "squared error" },
  l1: { targets: "numbers", torch: "L1Loss", about: "absolute error" },
  huber: {
    targets: "numbers",
    torch: "HuberLoss",
    about: "squared error up to huber_delta, absolute beyond",
    takes: { delta: ABOVE_0 },
  },
  smooth_l1: {
    targets: "numbers",
    torch: "SmoothL1Loss",
    about: "as huber, divided by beta (1), which is where it turns",
    takes: { beta: NOT_BELOW_0 },
  },
  gaussian_nll: {
    targets: "numbers",
    torch: "GaussianNLLLoss",
    about:
      "likelihood of a normal distribution; the model gives the means, then the logarithms of the variances, or with " +
      "log_variance=false the variances, as torch's",
    takes: { log_variance: FLAG, full: FLAG, eps: ABOVE_0 },
  },
  bce: {
    targets: "either",
    torch: "BCEWithLogitsLoss",
    about:
      "of logits, for numbers between 0 and 1 or classes, each against the others, as torch's BCEWithLogitsLoss and timm's " +
      "BinaryCrossEntropy; with logits=false of probabilities, as BCELoss",
    takes: { pos_weight: NUMBERS, logits: FLAG, target_threshold: { kind: "number", min: 0, max: 1 } },
  },
  focal: {
    targets: "classes",
    about: "cross entropy that counts what is predicted well less, by focal_gamma",
    takes: { gamma: { kind: "number", min: 0, max: 100 }, weight: NUMBERS },
  },
  dice: {
    targets: "classes",
    about: "overlap of areas, for a class for each pixel: of each sample and class, as MONAI's DiceLoss",
  },
  nll: {
    targets: "classes",
    torch: "NLLLoss",
    about: "of logarithms of probabilities: for a model of your own that ends in log_softmax",
    takes: { weight: NUMBERS },
  },
  multi_margin: {
    targets: "classes",
    torch: "MultiMarginLoss",
    about: "the label's score should be the greatest by a margin",
    takes: { p: { kind: "choice", of: [1, 2] }, margin: ANY, weight: NUMBERS },
  },
  quantile: {
    targets: "numbers",
    about:
      "pinball loss of --quantiles; the model gives all targets' first quantile, then all targets' second, ...",
  },
  crps: {
    targets: "numbers",
    about:
      "ranked probability score of a normal distribution, in the target's units; outputs as for gaussian_nll",
  },
  spectral: {
    targets: "numbers",
    about: "squared error of maps, and spectral_weight times that of their amplitudes at each wavelength",
    takes: { weight: NOT_BELOW_0 },
  },
  poisson_nll: {
    targets: "numbers",
    torch: "PoissonNLLLoss",
    about:
      "likelihood of counts; the model gives the logarithms of their rates, or with log_input=false the rates",
    takes: { log_input: FLAG, full: FLAG, eps: ABOVE_0 },
  },
  kl_div: {
    targets: "numbers",
    torch: "KLDivLoss",
    about:
      "divergence of the model's logarithms of probabilities from the targets' probabilities; torch's mean over all " +
      "numbers, or with batchmean=true over the samples",
    takes: { log_target: FLAG, batchmean: FLAG },
  },
  soft_margin: { targets: "numbers", torch: "SoftMarginLoss", about: "logistic loss of targets 1 and -1" },
  hinge_embedding: {
    targets: "numbers",
    torch: "HingeEmbeddingLoss",
    about: "of distances, for targets 1 (near) and -1 (farther than the margin)",
    takes: { margin: ANY },
  },
  margin_ranking: {
    targets: "numbers",
    torch: "MarginRankingLoss",
    about:
      "the model gives all targets' first scores, then all second; the first should be above where a target is 1",
    takes: { margin: ANY },
  },
  multilabel_margin: {
    targets: "numbers",
    torch: "MultiLabelMarginLoss",
    about: "a sample's targets are the numbers of its classes, then -1",
  },
  multilabel_soft_margin: {
    targets: "numbers",
    torch: "MultiLabelSoftMarginLoss",
    about: "a sample's targets are 1 for each class that it has, and 0; the mean over classes",
    takes: { weight: NUMBERS },
  },
  graph: { targets: "any", about: "the loss that an exported program gives" },
} as const satisfies Readonly<Record<string, LossName>>;

export type LossChoice = keyof typeof LOSSES;
export const LOSS_NAMES = Object.keys(LOSSES) as LossChoice[];
export type NamedLoss = Exclude<LossChoice, "auto" | "graph">;

/** They compare things that do not come with a sample's targets. */
export const LOSSES_OF_PAIRS: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ["cosine_embedding", "two embeddings of a pair"],
    ["triplet_margin", "an anchor's embedding, one that is like it and one that is not"],
    ["ctc", "the lengths of sequences and of their labels"],
  ].flatMap(([name, what]) => {
    const says =
      `${name} compares ${what}, and a source gives a sample's inputs and targets alone: make it in the model and let ` +
      "forward return it (--loss graph), or in a file of your own (--loss my.ts), where ops has it.";
    return [[name, says], [`${name}_loss`, says]];
  }),
);

/** torch's and others' names for them. */
export const LOSS_WORDS: Readonly<Record<string, LossChoice>> = {
  pinball: "quantile",
  bce_with_logits: "bce",
  binary_cross_entropy_with_logits: "bce",
  mae: "l1",
  multilabel_soft_margin_loss: "multilabel_soft_margin",
  multi_label_soft_margin: "multilabel_soft_margin",
  multi_label_margin: "multilabel_margin",
};

/** One loss of a sum. */
export interface LossTerm {
  readonly name: NamedLoss;
  readonly weight: number;
  readonly values: ReadonlyMap<string, Value>;
  /** It compares these targets alone; null: all. */
  readonly targets: readonly string[] | null;
  /** As it was written, without its weight. */
  readonly text: string;
}

/** A loss with arguments, a sum, or one for each target; a name alone is none of them. */
export const LOSS_EXPRESSION = /[(+*:,]/;

export const isExpression = (loss: string): boolean =>
  LOSS_EXPRESSION.test(loss) && !/\.(ts|mts|js|mjs)$/.test(loss);

const known = new Map<string, readonly LossTerm[]>();

/** The terms of an expression. */
export function lossTerms(text: string): readonly LossTerm[] {
  let terms = known.get(text);
  if (terms === undefined) known.set(text, terms = readTerms(text));
  return terms;
}

function readTerms(text: string): LossTerm[] {
  const parts = splitAt(text, ",").map((part) => splitAt(part, ":"));
  const fail = (why: string): never => {
    throw new UserError("usage", `--loss "${text}": ${why}`);
  };
  if (parts.some((part) => part.length > 2) || parts.length > 1 && parts.some((part) => part.length === 1)) {
    fail(
      "losses of several targets are written 'TARGET: LOSS, TARGET: LOSS', and a sum of losses with + between them.",
    );
  }
  const terms = parts.flatMap((part) => {
    const targets = part.length === 1 ? null : targetsIn(part[0]);
    if (targets?.some((name) => name === "")) fail("a target's name is missing before a colon.");
    return splitAt(part.at(-1)!, "+").map((term) => readTerm(term.trim(), targets, fail));
  });
  const twice = terms.find((term, i) =>
    terms.findIndex((other) => other.text === term.text && String(other.targets) === String(term.targets)) < i
  );
  if (twice) fail(`${twice.text} stands there twice: add up its weights.`);
  return terms;
}

const targetsIn = (text: string): string[] =>
  text.trim().replace(/^[([](.*)[)\]]$/, "$1").split(",").map((name) =>
    name.trim().replace(/^(['"])(.*)\1$/, "$2")
  );

const WEIGHTED = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*\*\s*([^]*)$/i;

function readTerm(text: string, targets: readonly string[] | null, fail: (why: string) => never): LossTerm {
  if (text === "") fail("a loss is missing beside a +.");
  const weighted = WEIGHTED.exec(text), weight = weighted ? Number(weighted[1]) : 1;
  const own = weighted ? weighted[2].trim() : text;
  if (!(weight > 0 && Number.isFinite(weight))) {
    fail(`${weighted![1]} is no weight of a loss: weights are above 0, since what is minimised adds up.`);
  }
  if (!weighted && /^[^('"]*\*/.test(own)) {
    fail(`a weight is a number before a loss, as in 0.5*mse, and not in "${own}".`);
  }
  const call = parseCall(own, "--loss"), name = nameOf(call, fail);
  return {
    name,
    weight,
    values: argumentsOf(call, takesOf(name), fail, elsewhere),
    targets,
    text: own.replaceAll(/\s+/g, " "),
  };
}

function nameOf({ name: given }: Call, fail: (why: string) => never): NamedLoss {
  const name = Object.hasOwn(LOSS_WORDS, given) ? LOSS_WORDS[given] : given;
  if (Object.hasOwn(LOSSES_OF_PAIRS, name)) fail(LOSSES_OF_PAIRS[name]);
  if (name === "auto" || name === "graph" || /\.(ts|mts|js|mjs)$/.test(name)) {
    fail(`${name} stands alone: it takes no arguments and is no part of a sum.`);
  }
  if (!Object.hasOwn(LOSSES, name)) {
    const all = LOSS_NAMES.filter((one) => one !== "auto" && one !== "graph");
    fail(`there is no loss ${name}.${didYouMean(name, all)} There are ${all.join(", ")}.`);
  }
  return name as NamedLoss;
}

const takesOf = (name: NamedLoss): Arguments => (LOSSES[name] as LossName).takes ?? {};

const elsewhere = (name: string): string =>
  name === "ignore_index"
    ? " Data and metrics leave that class out, too: --set training.ignore_index=N."
    : name === "reduction"
    ? " A loss here is the mean over what counts, on any number of ranks."
    : "";

/** Parts of a text between a sign that stands in no brackets and no quotes. */
export function splitAt(text: string, sign: string): string[] {
  const parts: string[] = [];
  let depth = 0, quote = "", from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quote !== "") quote = c === quote ? "" : quote;
    else if (c === "'" || c === '"') quote = c;
    else if (c === "(" || c === "[") depth++;
    else if (c === ")" || c === "]") depth--;
    else if (c === sign && depth === 0 && !(sign === "+" && /\de$/i.test(text.slice(0, i)))) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}

/** All losses in a setting; a user's file is none of them. */
const namesIn = (loss: string): readonly string[] =>
  isExpression(loss) ? lossTerms(loss).map(({ name }) => name) : [loss];

const targetsOf = (name: string): LossName["targets"] | null =>
  Object.hasOwn(LOSSES, name) ? LOSSES[name as LossChoice].targets : null;

/** Its targets are classes; bce takes numbers, too. */
export const isOfClasses = (loss: string): boolean =>
  namesIn(loss).some((name) => targetsOf(name) === "classes");

/** A column of whole numbers is a quantity to it. A user's file may mean either, and counts as one. */
export const isOfNumbers = (loss: string): boolean =>
  namesIn(loss).some((name) => (targetsOf(name) ?? "numbers") === "numbers");

export const hasLoss = (loss: string, name: NamedLoss): boolean => namesIn(loss).includes(name);

/** Their targets mean something as they are: shares, counts, signs, numbers of classes. */
const OF_OWN_VALUES: readonly string[] = [
  "bce",
  "poisson_nll",
  "kl_div",
  "soft_margin",
  "hinge_embedding",
  "margin_ranking",
  "multilabel_margin",
  "multilabel_soft_margin",
];

/** The name of a loss whose targets stay as they are; null where they may be scaled. */
export function lossOfOwnValues(loss: string): string | null {
  if (!isExpression(loss)) return OF_OWN_VALUES.includes(loss) ? loss : null;
  const ofVariances = ({ name, values }: LossTerm) =>
    name === "gaussian_nll" && values.get("log_variance") === false;
  const found = lossTerms(loss).find((term) => OF_OWN_VALUES.includes(term.name) || ofVariances(term));
  return found?.text ?? null;
}

/** They mean the same whatever the targets are divided by, but for a factor. */
const OF_ANY_SCALE: readonly string[] = [
  "auto",
  "mse",
  "l1",
  "huber",
  "smooth_l1",
  "gaussian_nll",
  "quantile",
];

export const isOfAnyScale = (loss: string): boolean =>
  namesIn(loss).every((name) => OF_ANY_SCALE.includes(name)) && lossOfOwnValues(loss) === null;
