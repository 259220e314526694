// `--track tensorboard,csv,...`: files beside the run, for programs that people look with. Each has a line in core/parts.ts
// and a folder with `sink.ts`.
import { PARTS, type Parts } from "../parts.ts";
import type { OpenOutput, RunFacts } from "../run/output.ts";
import { TRACKS } from "../settings/sections/run.ts";
import { trackedRun } from "./tracked_run.ts";

export interface TrackedOutput {
  readonly title: string;
  /** The writing thread imports it: `sink.ts` beside the output. */
  readonly module: string;
  readonly pathOf: (run: RunFacts) => string;
  /** It shows pictures and histograms. */
  readonly media?: true;
}

const OUTPUTS: Parts<{ readonly output: TrackedOutput }> = PARTS.outputs;

export const trackedOutputs = async (track: readonly string[]): Promise<OpenOutput[]> => {
  const names = TRACKS.filter((name) => track.includes(name));
  return (await Promise.all(names.map(async (name) => (await OUTPUTS[name].load()).output)))
    .map(opener);
};

const opener = ({ title, module, pathOf, media }: TrackedOutput): OpenOutput => (run) => {
  const { wandb } = run.config, path = pathOf(run);
  return {
    name: title,
    module,
    setup: trackedRun(run, path),
    wants: { histograms: media ? wandb.histograms : 0, pictures: media ? wandb.images : 0, confusion: 0 },
    id: null,
    path,
    next: null,
  };
};
