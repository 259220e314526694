// What the W&B writer is told, as plain data: it lives in a thread. May import the event types and records.ts (types).
import type { Event } from "../event_types.ts";
import type { EnvironmentRecord, RunRecord } from "./records.ts";

/** All that a run's .wandb file begins with, and where it lies. */
export interface WandbSetup {
  /** .../offline-run-TIME-ID/run-ID.wandb: there is one already where `again` says so. */
  readonly path: string;
  readonly run: Omit<RunRecord, "kind" | "config">;
  readonly config: Readonly<Record<string, unknown>>;
  readonly environment: Omit<EnvironmentRecord, "kind">;
  /** Set where a run goes on. */
  readonly again: Again | null;
  /** Its events.jsonl: a row that a kill has taken from the file is made from there again. */
  readonly events: string;
  /** Rows up to this step are at the server: they are neither dropped nor written again. -1 where there are none. */
  readonly after: number;
  /** Files of this run that were uploaded already: what is in them is not written again. */
  readonly uploaded: readonly string[];
  /** Where in an epoch the run begins, so that the steps that an evaluation follows are known. */
  readonly pace: Pace;
  /** Files that go with the run: the name there, and where they lie. */
  readonly files: readonly { readonly name: string; readonly source: string }[];
}

export interface Again {
  /** The step that is done, and the epochs. Rows beyond are dropped. */
  readonly step: number;
  readonly epoch: number;
}

export interface Pace {
  readonly step: number;
  readonly stepInEpoch: number;
  readonly stepsPerEpoch: number;
  /** 0 is no limit. */
  readonly maxSteps: number;
}

/** What is for W&B alone, and not for events.jsonl. */
export type WandbNote = ConsoleNote | HistogramsNote | PicturesNote;

export interface ConsoleNote {
  readonly kind: "console";
  /** Unix time in seconds. */
  readonly t: number;
  readonly stream: "stdout" | "stderr";
  /** A line without its end. */
  readonly text: string;
}

export interface HistogramsNote {
  readonly kind: "histograms";
  readonly t: number;
  readonly step: number;
  /** Counts, and the borders between them: one more. */
  readonly of: Readonly<
    Record<string, { readonly values: readonly number[]; readonly bins: readonly number[] }>
  >;
}

export interface PicturesNote {
  readonly kind: "pictures";
  readonly t: number;
  readonly step: number;
  readonly name: string;
  /** PNG files, in base64. */
  readonly pictures: readonly {
    readonly png: string;
    readonly width: number;
    readonly height: number;
    readonly caption: string;
  }[];
}

export interface WandbRun {
  /** May throw where the disk refuses; what was to be written is lost then, and the next is tried again. */
  write(event: Event): void;
  note(note: WandbNote): void;
  /** With the code, where no exit event told it. */
  close(exitCode?: number): void;
}
