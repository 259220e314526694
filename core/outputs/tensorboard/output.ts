// `--track tensorboard`.
import type { TrackedOutput } from "../tracked.ts";

export const output: TrackedOutput = {
  title: "TensorBoard files",
  module: import.meta.resolve("./sink.ts"),
  pathOf: ({ logs }) => logs,
  media: true,
};
