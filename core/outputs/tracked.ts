// `--track tensorboard,csv,...`: files beside the run, for programs that people look with. A line here and a folder with
// `sink.ts` is all that another one needs.
import { dirname, join } from "../../deps/path.ts";
import type { OpenOutput, RunFacts } from "../run/output.ts";
import { TRACKS } from "../settings/sections/run.ts";
import { trackedRun } from "./tracked_run.ts";

interface Tracked {
  readonly title: string;
  readonly module: string;
  readonly pathOf: (run: RunFacts) => string;
  /** It shows pictures and histograms. */
  readonly media?: true;
}

const sinkOf = (name: string): string => import.meta.resolve(`./${name}/sink.ts`);

const TRACKED: Readonly<Record<(typeof TRACKS)[number], Tracked>> = {
  tensorboard: {
    title: "TensorBoard files",
    module: sinkOf("tensorboard"),
    pathOf: ({ logs }) => logs,
    media: true,
  },
  csv: { title: "CSV table", module: sinkOf("csv"), pathOf: ({ logs }) => join(logs, "metrics.csv") },
  mlflow: {
    title: "MLflow run",
    module: sinkOf("mlflow"),
    pathOf: ({ logs }) => join(dirname(logs), "mlruns"),
  },
  prometheus: {
    title: "Prometheus file",
    module: sinkOf("prometheus"),
    pathOf({ config, run, logs }) {
      const folder = config.output.prometheus_dir;
      return folder === "" ? join(logs, "metrics.prom") : join(folder, `hpctrain_${run}.prom`);
    },
  },
};

export const trackedOutputs: readonly OpenOutput[] = Object.entries(TRACKED).map(
  ([name, { title, module, pathOf, media = false }]) => (run) => {
    const { output: { track }, wandb } = run.config;
    if (!track.includes(name)) return null;
    const path = pathOf(run);
    return {
      name: title,
      module,
      setup: trackedRun(run, path),
      wants: { histograms: media ? wandb.histograms : 0, pictures: media ? wandb.images : 0, confusion: 0 },
      id: null,
      path,
      next: null,
    };
  },
);
