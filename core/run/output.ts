// An output takes what a run reports to another place than events.jsonl: a W&B run, for one. The train command
// registers outputs. A sink works in the writing thread, the rest of an output in the training thread.
import type { Config } from "../settings/settings.ts";
import type { Emitted, Event, Note } from "./events.ts";

export interface RunFacts {
  readonly config: Config;
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: { readonly best: string; readonly latest: string };
  /** A resumed run begins at this position; null for a new run. */
  readonly resumed: { readonly step: number; readonly epoch: number } | null;
  /** A resumed run's checkpoint holds this id for its outputs. */
  readonly id: string | null;
  /** The checkpoint of another run, which this one starts from, has these settings. */
  readonly parent: Partial<Config> | null;
  readonly pace: EpochPosition;
  /** They stand beside the settings: model, parameters, ranks, libtorch. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** Evaluations count which classes are taken for which. */
  readonly confuses: boolean;
  readonly began: number;
  readonly gpus: number;
}

/** An output knows from it which steps an evaluation follows. */
export interface EpochPosition {
  readonly step: number;
  readonly stepInEpoch: number;
  readonly stepsPerEpoch: number;
  /** 0 is no limit. */
  readonly maxSteps: number;
  /** Evaluations come within epochs, too, after any step. */
  readonly within?: boolean;
}

/** Training makes these notes only for outputs. */
interface Wants {
  /** Steps between histograms of weights and gradients, at most; 0 for none. */
  readonly histograms: number;
  /** Validation samples; 0 for none. */
  readonly pictures: number;
  /** 1 for which classes are taken for which, after each evaluation that is the best so far; 0 for none. */
  readonly confusion: number;
}

export interface Output {
  /** "W&B run": warnings and the end of a run show it. */
  readonly name: string;
  /** The writing thread imports this module, which has `openSink`: `sink.ts` beside the output. */
  readonly module: string;
  /** `openSink` gets it: plain data. */
  readonly setup: unknown;
  readonly wants: Wants;
  /** Checkpoints keep it as the run's id; at most one output has one. */
  readonly id: string | null;
  /** The end of a run lists the path, and the command that may follow. */
  readonly path: string | null;
  readonly next: { readonly label: string; readonly words: readonly string[] } | null;
  /** The training thread calls it with each event but steps. */
  observe?(event: Emitted, warn: (message: string) => void): void;
  /** Called when the sink is closed: work elsewhere may need time to end. */
  closed?(): Promise<unknown>;
}

/** Null where the settings want no such output. */
export type OpenOutput = (run: RunFacts) => Output | null;

/** The writing thread makes it, and anything in it may throw. */
export interface Sink {
  write(event: Event): void;
  note?(note: Note): void;
  /** `exitCode` is missing where no exit event came. */
  close(exitCode?: number): void;
}

export interface SinkModule {
  openSink(setup: unknown): Sink;
}

export function wantsOf(outputs: readonly Output[]): Wants {
  const every = outputs.map(({ wants }) => wants.histograms).filter((steps) => steps > 0);
  return {
    histograms: every.length > 0 ? Math.min(...every) : 0,
    pictures: Math.max(0, ...outputs.map(({ wants }) => wants.pictures)),
    confusion: Math.max(0, ...outputs.map(({ wants }) => wants.confusion)),
  };
}

/** All sinks get the console's lines. */
export const isWanted = ({ kind }: Note, wants: Wants): boolean => kind === "console" || wants[kind] > 0;
