// `--track tensorboard,csv,...`: files beside the run, for programs that people look with. Each has a line in core/parts.ts
// and a folder with `sink.ts`.
import { PARTS, type Parts } from "../parts.ts";
import type { EpochPosition, OpenOutput, RunFacts, Sink } from "../run/output.ts";
import { TRACKS } from "../settings/sections/run.ts";
import { ALL_SETTINGS, type Config, readSetting } from "../settings/settings.ts";
import { asWritten } from "../settings/values.ts";
import type { Event, RunPosition } from "../run/event_log.ts";

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

// The writers of `--track` get these facts of their run, and begin with its first step.

/** Plain data: another thread gets it. */
export interface TrackedRun {
  readonly run: string;
  /** The output's file or folder. */
  readonly path: string;
  /** logs/RUN. */
  readonly folder: string;
  readonly project: string;
  readonly notes: string;
  readonly resumed: RunPosition | null;
  readonly pace: EpochPosition;
  readonly began: number;
  readonly hyperparameters: Readonly<Record<string, string | number | boolean>>;
}

const trackedRun = (
  { config, run, logs, resumed, pace, began, facts }: RunFacts,
  path: string,
): TrackedRun => ({
  run,
  path,
  folder: logs,
  project: config.wandb.project,
  notes: config.wandb.notes,
  resumed,
  pace,
  began,
  hyperparameters: hyperparametersOf(config, facts),
});

const CHOSEN_ALWAYS = new Set(["training.optimizer.learning_rate", "training.batch_size", "training.epochs"]);
/** They belong to the machine, or to one attempt at the run. */
const NEVER = new Set(
  ["device", "threads", "resume", "force", "log_interval"].map((name) => `training.${name}`),
);
const SECTIONS = /^(model|data|training)\./;

/** A table of two hundred settings shows nobody how two runs differ, so those that nobody chose are left out. */
function hyperparametersOf(config: Config, facts: RunFacts["facts"]): TrackedRun["hyperparameters"] {
  const found: Record<string, string | number | boolean> = {};
  for (const name of ["model", "parameters", "world_size", "global_batch_size", "device"]) {
    const value = facts[name];
    if (typeof value === "string" || typeof value === "number") found[name] = value;
  }
  for (const declared of ALL_SETTINGS) {
    const { path, setting } = declared;
    if (!SECTIONS.test(path) || NEVER.has(path)) continue;
    const value = asWritten(declared, readSetting(config, path));
    const text = Array.isArray(value) ? value.join(",") : value;
    const usual = Array.isArray(setting.default) ? setting.default.join(",") : setting.default;
    if (text === usual && !CHOSEN_ALWAYS.has(path)) continue;
    if (typeof text === "string" || typeof text === "number" || typeof text === "boolean") found[path] = text;
  }
  return found;
}

/** After one of these events a run is worth keeping. */
const BEGINS: ReadonlySet<Event["kind"]> = new Set(["step", "eval", "epoch", "save"]);

/** A start that fails before its first step leaves nothing, and changes nothing of the run it goes on with. */
export function onceBegun(open: () => Sink): Required<Sink> {
  let sink: Sink | null = null;
  return {
    write(event) {
      if (sink === null && BEGINS.has(event.kind)) sink = open();
      sink?.write(event);
    },
    note(note) {
      if (note.kind === "console") return;
      sink ??= open();
      sink.note?.(note);
    },
    close: (code) => sink?.close(code),
  };
}
