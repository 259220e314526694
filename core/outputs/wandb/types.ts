// The records of a .wandb file and the setup and notes of the W&B writer, as types of plain data.
import type { EpochPosition } from "../../run/output.ts";

// What stands in a .wandb file, as types.

/** A name and its value as JSON text, which is passed on as it is: it may be NaN, or an integer of 64 bits. */
export interface Item {
  /** One name; several where a value in an object is meant. */
  readonly key: readonly string[];
  readonly json: string;
}

export interface RunRecord {
  readonly kind: "run";
  readonly id: string;
  readonly entity?: string;
  readonly project?: string;
  readonly config?: readonly Item[];
  readonly group?: string;
  readonly jobType?: string;
  readonly name?: string;
  readonly notes?: string;
  readonly tags?: readonly string[];
  readonly host?: string;
  readonly startingStep?: number;
  /** Unix time in seconds. */
  readonly startTime?: number;
  /** Seconds that the run took before this file. */
  readonly runtime?: number;
  readonly git?: { readonly remote?: string; readonly commit?: string };
  /** The file goes on where the run of this id stands at the server. */
  readonly resume?: boolean;
  readonly resumed?: boolean;
  /** Where to go back to, or to branch off: written by W&B's own program alone. */
  readonly branch?: { readonly run: string; readonly value: number; readonly metric: string };
}

export interface FileItem {
  readonly path: string;
  readonly policy?: "now" | "end" | "live";
  readonly type?: "other" | "wandb" | "media" | "artifact";
}

export interface EnvironmentRecord {
  readonly kind: "environment";
  readonly os?: string;
  readonly python?: string;
  readonly startedAt?: number;
  readonly args?: readonly string[];
  readonly program?: string;
  readonly git?: { readonly remote?: string; readonly commit?: string };
  readonly root?: string;
  readonly host?: string;
  readonly user?: string;
  readonly executable?: string;
  readonly cores?: number;
  readonly threads?: number;
  readonly gpu?: string;
  readonly gpus?: number;
  readonly memoryBytes?: number;
  readonly slurm?: Readonly<Record<string, string>>;
}

export type WandbRecord =
  | { readonly kind: "header"; readonly producer: string; readonly minConsumer: string }
  | RunRecord
  | { readonly kind: "history"; readonly items: readonly Item[]; readonly step?: number }
  | {
    readonly kind: "summary" | "config";
    readonly update: readonly Item[];
    readonly remove?: readonly Item[];
  }
  | { readonly kind: "files"; readonly files: readonly FileItem[] }
  | { readonly kind: "stats"; readonly t: number; readonly items: readonly Item[] }
  | {
    readonly kind: "output";
    readonly stream: "stdout" | "stderr";
    readonly t: number;
    readonly text: string;
  }
  | EnvironmentRecord
  | {
    readonly kind: "telemetry";
    readonly python?: string;
    readonly cli?: string;
    readonly platform?: string;
  }
  | { readonly kind: "alert"; readonly title: string; readonly text: string; readonly level: string }
  | { readonly kind: "preempting" }
  | { readonly kind: "exit"; readonly code: number; readonly runtime: number }
  /** One of those that nothing here writes or needs: the number of its field says which. */
  | { readonly kind: "other"; readonly field: number };

/** All that a run's .wandb file begins with, and where it lies. */
export interface WandbSetup {
  /** .../offline-run-TIME-ID/run-ID.wandb: there is one already where `again` says so. */
  readonly path: string;
  readonly run: Omit<RunRecord, "kind" | "config">;
  readonly config: Readonly<Record<string, unknown>>;
  readonly environment: Omit<EnvironmentRecord, "kind">;
  /** Set where a run goes on. */
  readonly again: ResumedRun | null;
  /** Its events.jsonl: a row that a kill has taken from the file is made from there again. */
  readonly events: string;
  /** Rows up to this step are at the server: they are neither dropped nor written again. -1 where there are none. */
  readonly after: number;
  /** Files of this run that were uploaded already: what is in them is not written again. */
  readonly uploaded: readonly string[];
  /** Where in an epoch the run begins, so that the steps that an evaluation follows are known. */
  readonly pace: EpochPosition;
  /** Files that go with the run: the name there, and where they lie. */
  readonly files: readonly { readonly name: string; readonly source: string }[];
}

export interface ResumedRun {
  /** The step that is done, and the epochs. Rows beyond are dropped. */
  readonly step: number;
  readonly epoch: number;
}
