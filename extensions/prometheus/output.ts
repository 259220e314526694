// `--track prometheus`: the newest numbers of a run in a file, which a node exporter passes on.
import { join } from "../../deps/path.ts";
import type { TrackedOutput } from "../../core/outputs/tracked.ts";

export const output: TrackedOutput = {
  title: "Prometheus file",
  module: import.meta.resolve("./sink.ts"),
  pathOf({ config, run, logs }) {
    const folder = config.output.prometheus_dir;
    return folder === "" ? join(logs, "metrics.prom") : join(folder, `hpctrain_${run}.prom`);
  },
};
