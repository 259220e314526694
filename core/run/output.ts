// An output takes what a run reports to another place than events.jsonl: a W&B run, for one. The train command
// registers outputs. A sink works in the writing thread, the rest of an output in the training thread.
import type { Config } from "../settings/settings.ts";
import type { Emitted, Event, Note } from "./events.ts";

/** What an output may know of a run before its first step. */
export interface RunFacts {
  readonly config: Config;
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: { readonly best: string; readonly latest: string };
  /** The position that is reached already where this run is resumed; null for a new run. */
  readonly resumed: { readonly step: number; readonly epoch: number } | null;
  /** The id that the checkpoint of a resumed run holds for its outputs. */
  readonly id: string | null;
  /** The settings in the checkpoint of another run that this one starts from. */
  readonly parent: Partial<Config> | null;
  readonly pace: EpochPosition;
  /** Model, parameters, ranks, libtorch and what else stands beside the settings. */
  readonly facts: Readonly<Record<string, unknown>>;
  readonly began: number;
  readonly gpus: number;
}

/** Where in an epoch a run begins, so that the steps that an evaluation follows are known. */
export interface EpochPosition {
  readonly step: number;
  readonly stepInEpoch: number;
  readonly stepsPerEpoch: number;
  /** 0 is no limit. */
  readonly maxSteps: number;
}

/** Notes that training makes only for outputs. */
export interface Wants {
  /** Histograms of weights and gradients at least every so many steps; 0 for none. */
  readonly histograms: number;
  /** Pictures of so many validation samples; 0 for none. */
  readonly pictures: number;
}

export interface Output {
  /** "W&B run": its name in warnings, and in the list of files at the end of a run. */
  readonly name: string;
  /** URL of the module with `openSink`, which the writing thread imports: core/outputs/NAME/sink.ts. */
  readonly module: string;
  /** What `openSink` is called with: plain data. */
  readonly setup: unknown;
  readonly wants: Wants;
  /** What checkpoints keep as the run's id; at most one output has one. */
  readonly id: string | null;
  /** The path that the end of a run lists, and the command that may follow: what for, and its words. */
  readonly path: string | null;
  readonly next: { readonly label: string; readonly words: readonly string[] } | null;
  /** Called with each event but steps, in the training thread. */
  observe?(event: Emitted, warn: (message: string) => void): void;
  /** Called when the sink is closed: what goes on elsewhere may need time to end. */
  closed?(): Promise<unknown>;
}

/** Null where the settings want no such output. */
export type OpenOutput = (run: RunFacts) => Output | null;

/** What is made in the writing thread. Anything in it may throw. */
export interface Sink {
  write(event: Event): void;
  note?(note: Note): void;
  /** The exit code; undefined where no exit event came. */
  close(exitCode?: number): void;
}

/** What an output's module exports. */
export interface SinkModule {
  openSink(setup: unknown): Sink;
}

/** What all outputs of a run want. */
export function wantsOf(outputs: readonly Output[]): Wants {
  const every = outputs.map(({ wants }) => wants.histograms).filter((steps) => steps > 0);
  return {
    histograms: every.length > 0 ? Math.min(...every) : 0,
    pictures: Math.max(0, ...outputs.map(({ wants }) => wants.pictures)),
  };
}

/** Whether a sink gets a note: lines of the console go to all. */
export const isWanted = ({ kind }: Note, wants: Wants): boolean => kind === "console" || wants[kind] > 0;
