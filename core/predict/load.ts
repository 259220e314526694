// The model of a checkpoint, or of several that answer as an ensemble, ready to be judged or to predict. Those that answer
// together must have learnt the same task from the same kind of samples.
import { add, tensor, toDevice } from "../../ffi/make.ts";
import { mul } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { type CheckpointFile, openCheckpoint } from "../checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../checkpoint/training_state.ts";
import type { Value } from "../checkpoint/value.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import { loadDataReader } from "../data/open/open.ts";
import type { Normalisation, Source } from "../data/source/source.ts";
import { scaleIn, unscaling } from "../data/transforms/targets.ts";
import { givenIn } from "../data/transforms/values.ts";
import { judgedAtOnce } from "../train/batches.ts";
import { build, type Built, openedFor } from "../train/build.ts";
import { uncropped, type View, type Views, viewsOf } from "./views.ts";
import { createOnDevice } from "../train/fed_model.ts";
import { type Answers, savedAnswers, savedClimatology, withOwnStatistics } from "../train/data_facts.ts";
import { loaderThreads, type openDevice } from "../train/device.ts";
import { type Feed, openFeed } from "../train/feed.ts";
import { shiftedParts } from "../train/metrics.ts";
import { wholeMaps } from "../models/patches.ts";
import { type EnsembleMember, ensembleOf } from "../models/ensemble.ts";
import type { Loss } from "../models/losses.ts";
import { UserError } from "../base/errors.ts";

interface Evaluated extends Pick<Built, "data" | "pass"> {
  /** The weights are the averages that the run kept (--ema). */
  readonly averaged: boolean;
  readonly batchSize: number;
  openFeed(sources: readonly Source[]): Feed;
}

/** These answer beside the first checkpoint's model. */
export interface EnsembleOptions {
  readonly others: readonly { readonly path: string; readonly config: Config }[];
  /** Each member drops activations and answers so often (--mc-dropout); 0 asks it once. */
  readonly passes: number;
  /** Each member's answer is wanted, too. */
  readonly each: boolean;
  /** Each member sees each sample in several ways (--tta). */
  readonly tta?: Views | null;
}

interface EvaluationOptions extends ReturnType<typeof openDevice> {
  readonly config: Config;
  readonly resolved: Resolved;
  /** The model names its answers so where the data has no names. */
  readonly answers: Answers | null;
  readonly silent?: boolean;
  readonly unsplit?: boolean;
  readonly predicts?: boolean;
  readonly sharing?: number;
  readonly ensemble?: EnsembleOptions;
}

export async function loadForEvaluation(
  file: CheckpointFile,
  options: EvaluationOptions,
): Promise<Evaluated> {
  const { config, resolved, device, answers, silent, unsplit, predicts, sharing, ensemble } = options;
  await loadDataReader(config.data);
  const climatology = savedClimatology(file.root);
  const plain = { answers, silent, unsplit, predicts, climatology };
  const built = build(config, device, 1, plain);
  const { model, channelsLast } = built;
  const tta = ensemble?.tta ?? null;
  const wide = tta === null || tta === "flips" ? null : uncropped(tta, config.data);
  const data = wide ? openedFor({ ...config, data: wide.data }, plain) : built.data;
  const views = tta && viewsOf(tta, data.train, wide?.side ?? 0);
  const { root, averaged } = judgedWeights(file.root);
  loadWeights(model.root.stateDict(), root, file.path);
  const pass = withEnsemble(built, file, options, views ?? [AS_IT_IS]);
  const batchSize = judgedAtOnce(config.training, built.pass.patches, data.train);
  return {
    ...{ data, pass, averaged, batchSize },
    openFeed(sources) {
      const { loaders } = loaderThreads(resolved, device, sharing);
      const lanes = sources.map((source) => ({ source, rows: batchSize, parts: 1 }));
      const threads = { count: loaders, prefetch: config.data.prefetch_mib * 2 ** 20, lanes };
      return openFeed({ device, channelsLast, loss: pass.loss, threads });
    },
  };
}

/** One checkpoint that answers once is no ensemble. */
function withEnsemble(
  { data, model, pass }: Built,
  file: CheckpointFile,
  { config, device, ensemble }: EvaluationOptions,
  views: readonly View[],
): Built["pass"] {
  if (!ensemble || (ensemble.others.length === 0 && ensemble.passes === 0 && views.length === 1)) return pass;
  const { others, passes, each } = ensemble;
  const first = { path: file.path, config, root: file.root };
  const members = others.map(({ path, config: given }): EnsembleMember => {
    using file = openCheckpoint(path);
    const own = withOwnStatistics(given, file.root);
    refuseOther(first, { path, config: own, root: file.root });
    const input = toOwnStatistics(first, { path, config: own }, data.train);
    const model = createOnDevice(own, data, pass.loss, device);
    loadWeights(model.root.stateDict(), judgedWeights(file.root).root, path);
    return { model, input, output: toOwnTargets(first, { path, config: own }, pass.loss) };
  });
  const sampling = { passes, each, seed: config.training.seed };
  const one = { model: wholeMaps(model, pass.patches ?? null), input: null };
  const seeing = [one, ...members].flatMap((member) => views.map((view) => seenBy(member, view)));
  const all = ensembleOf(seeing, pass.loss, data.train.facts, sampling);
  return { ...pass, ...all, patches: null };
}

const AS_IT_IS: View = { input: null };

/** A member looks at a batch in one way; its own statistics come last, and its own scale first. */
function seenBy({ model, input, output }: EnsembleMember, view: View): EnsembleMember {
  const then = <T>(first: ((x: T) => T) | null | undefined, next: ((x: T) => T) | null | undefined) =>
    first && next ? (x: T) => next(first(x)) : first ?? next ?? null;
  return { model, input: then(view.input, input), output: then(output, view.output) };
}

interface Checkpoint {
  readonly path: string;
  readonly config: Config;
}

/** These change which samples there are, or how they are read and varied, and not what a sample is. */
const HARMLESS: readonly string[] = [
  ...["num_workers", "stage", "in_memory", "prefetch_mib", "shuffle", "sampling", "bad_samples"],
  ...["train_samples", "val_samples", "validation_split", "split", "folds", "fold"],
  ...["validate_on", "test_on", "validation_path", "test_path"],
  ...["augment", "flip", "rotate", "mixup", "cutmix", "crop_padding"],
  ...["patch", "patch_overlap", "patches_per_sample", "vectors"],
];

/** Each member has its own. */
const STATISTICS: readonly string[] = ["mean", "std", "fill"];

const OF_TARGETS: readonly string[] = ["target_mean", "target_std"];

function refuseOther(
  first: Checkpoint & { readonly root: Value },
  other: Checkpoint & { readonly root: Value },
): void {
  const [a, b]: Readonly<Record<string, unknown>>[] = [first, other].map(({ config }) => config.data);
  const odd = Object.keys(a).find((key) =>
    ![...HARMLESS, ...STATISTICS, ...OF_TARGETS].includes(key) &&
    JSON.stringify(a[key]) !== JSON.stringify(b[key])
  );
  const losses = [first, other].map(({ config: { training: { loss, quantiles } } }) =>
    `${loss} ${quantiles}`.trim()
  );
  const refuse = (what: string, of: unknown, wanted: unknown) =>
    new UserError(
      "usage",
      `${other.path} has ${what} ${JSON.stringify(of)}, and ${first.path} has ${
        JSON.stringify(wanted)
      }: checkpoints that ` +
        "answer together are of runs that differ in their seed or model alone.",
    );
  if (odd !== undefined) throw refuse(`data.${odd}`, b[odd], a[odd]);
  if (losses[0] !== losses[1]) throw refuse("the loss", losses[1], losses[0]);
  const [wanted, answers] = [first, other].map(({ root }) => savedAnswers(root));
  const names = (of: typeof answers) => of && { outputs: of.outputs, names: of.names };
  if (JSON.stringify(names(wanted)) !== JSON.stringify(names(answers))) {
    throw refuse("the answers", names(answers), names(wanted));
  }
}

/**
 * A batch has the first checkpoint's statistics: another's own are a factor and a summand for each channel. Null where
 * they are the same.
 */
function toOwnStatistics(
  first: Checkpoint,
  other: Checkpoint,
  { input: { shape }, missing }: Pick<Source, "input" | "missing">,
): ((x: Tensor) => Tensor) | null {
  const [a, b] = [first.config.data, other.config.data];
  if (STATISTICS.every((key) => String(a[key as "mean"]) === String(b[key as "mean"]))) return null;
  if (missing?.input) {
    throw new UserError(
      "usage",
      `${other.path} and ${first.path} were normalised with different means, and inputs have missing points, which stand ` +
        "for those means: train the members with one split, such as --validate-on or --split time, or give --mean and --std.",
    );
  }
  return affine(givenIn(a), givenIn(b), shape);
}

/** Answers in another's scale of the targets become those of the first's. Null where they are the same. */
function toOwnTargets(
  first: Checkpoint,
  other: Checkpoint,
  loss: Loss,
): ((answer: Tensor) => Tensor) | null {
  const [a, b] = [first.config.data, other.config.data];
  if (OF_TARGETS.every((key) => String(a[key as "mean"]) === String(b[key as "mean"]))) return null;
  const [from, to] = [scaleIn(b), scaleIn(a)];
  if (!from || !to) return null;
  const unscaled = unscaling({
    mean: from.mean.map((mean, k) => (mean - to.mean[k]) / to.std[k]),
    std: from.std.map((std, k) => std / to.std[k]),
  });
  return (answer) => unscaled(answer, shiftedParts(loss));
}

function affine(from: Normalisation, to: Normalisation, shape: readonly number[]): (x: Tensor) => Tensor {
  const [channels = 1] = shape;
  const at = (values: readonly number[], i: number) => values[values.length === 1 ? 0 : i];
  const deviation = ({ std }: Normalisation, i: number) => at(std, i) || 1;
  const row = (of: (i: number) => number) => {
    const values = Float32Array.from({ length: channels }, (_, i) => of(i));
    return tensor(values, [channels, ...shape.slice(1).map(() => 1)]);
  };
  const made = new Map<Device, readonly [Tensor, Tensor]>();
  const on = (device: Device) => {
    let cached = made.get(device);
    if (!cached) {
      cached = scope(() => {
        const factor = row((i) => deviation(from, i) / deviation(to, i));
        const summand = row((i) => (at(from.mean, i) - at(to.mean, i)) / deviation(to, i));
        return [keep(toDevice(factor, device)), keep(toDevice(summand, device))] as const;
      });
      made.set(device, cached);
    }
    return cached;
  };
  return (x) => {
    const [factor, summand] = on(x.device);
    return add(mul(x, factor), summand);
  };
}
