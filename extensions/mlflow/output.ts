// `--track mlflow`: a store of runs as MLflow keeps it in files.
import { dirname, join } from "../../deps/path.ts";
import type { TrackedOutput } from "../../core/outputs/tracked.ts";

export const output: TrackedOutput = {
  title: "MLflow run",
  module: import.meta.resolve("./sink.ts"),
  pathOf: ({ logs }) => join(dirname(logs), "mlruns"),
};
