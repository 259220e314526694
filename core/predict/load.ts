import type { CheckpointFile } from "../checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../checkpoint/training_state.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import { loadReader } from "../data/open.ts";
import type { Source } from "../data/source.ts";
import { type Answers, build, type Built } from "../train/build.ts";
import { loaderThreads, type openDevice } from "../train/device.ts";
import { type Feed, openFeed } from "../train/feed.ts";

interface Evaluated extends Pick<Built, "data" | "model" | "pass"> {
  /** The weights are the averages that the run kept (--ema). */
  readonly averaged: boolean;
  readonly batchSize: number;
  openFeed(sources: readonly Source[]): Feed;
}

interface EvaluationOptions extends ReturnType<typeof openDevice> {
  readonly config: Config;
  readonly resolved: Resolved;
  /** The model names its answers so where the data has no names. */
  readonly answers: Answers | null;
  readonly untold?: boolean;
  readonly unsplit?: boolean;
  readonly sharing?: number;
}

export async function loadForEvaluation(
  file: CheckpointFile,
  { config, resolved, device, answers, untold, unsplit, sharing }: EvaluationOptions,
): Promise<Evaluated> {
  await loadReader(config.data);
  const { data, model, pass, channelsLast } = build(config, device, 1, { answers, untold, unsplit });
  const { root, averaged } = judgedWeights(file.root);
  loadWeights(model.root.stateDict(), root, file.path);
  const batchSize = config.training.eval_batch_size || config.training.batch_size;
  return {
    ...{ data, model, pass, averaged, batchSize },
    openFeed(sources) {
      const { loaders } = loaderThreads(resolved, device, sharing);
      const lanes = sources.map((source) => ({ source, rows: batchSize, parts: 1 }));
      const threads = { count: loaders, prefetch: config.data.prefetch_mib * 2 ** 20, lanes };
      return openFeed({ device, channelsLast, loss: pass.loss, threads });
    },
  };
}
