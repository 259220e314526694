// The model of a checkpoint, or of several that answer as an ensemble, ready to be judged or to predict.
import { type CheckpointFile, openCheckpoint } from "../checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../checkpoint/training_state.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import { loadDataReader } from "../data/open/open.ts";
import type { Source } from "../data/source/source.ts";
import { judgedAtOnce } from "../train/batches.ts";
import { build, type Built } from "../train/build.ts";
import { createOnDevice } from "../train/fed_model.ts";
import { type Answers, savedClimatology, withOwnStatistics } from "../train/data_facts.ts";
import { loaderThreads, type openDevice } from "../train/device.ts";
import { type Feed, openFeed } from "../train/feed.ts";
import { wholeMaps } from "../models/patches.ts";
import { type EnsembleMember, ensembleOf } from "../models/ensemble.ts";
import { refuseOther, toOwnStatistics, toOwnTargets } from "./members.ts";

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
}

interface EvaluationOptions extends ReturnType<typeof openDevice> {
  readonly config: Config;
  readonly resolved: Resolved;
  /** The model names its answers so where the data has no names. */
  readonly answers: Answers | null;
  readonly silent?: boolean;
  readonly unsplit?: boolean;
  readonly sharing?: number;
  readonly ensemble?: EnsembleOptions;
}

export async function loadForEvaluation(
  file: CheckpointFile,
  options: EvaluationOptions,
): Promise<Evaluated> {
  const { config, resolved, device, answers, silent, unsplit, sharing } = options;
  await loadDataReader(config.data);
  const climatology = savedClimatology(file.root);
  const built = build(config, device, 1, { answers, silent, unsplit, climatology });
  const { data, model, channelsLast } = built;
  const { root, averaged } = judgedWeights(file.root);
  loadWeights(model.root.stateDict(), root, file.path);
  const pass = withEnsemble(built, file, options);
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
): Built["pass"] {
  if (!ensemble || (ensemble.others.length === 0 && ensemble.passes === 0)) return pass;
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
  const all = ensembleOf([one, ...members], pass.loss, data.train.facts, sampling);
  return { ...pass, ...all, patches: null };
}
