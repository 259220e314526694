// `--track csv`.
import { join } from "../../../deps/path.ts";
import type { TrackedOutput } from "../tracked.ts";

export const output: TrackedOutput = {
  title: "CSV table",
  module: import.meta.resolve("./sink.ts"),
  pathOf: ({ logs }) => join(logs, "metrics.csv"),
};
