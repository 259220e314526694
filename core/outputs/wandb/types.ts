import type { EpochPosition } from "../../run/output.ts";

/** The value is JSON text, which may be NaN or a 64-bit integer. */
export interface HistoryItem {
  /** One name, or a path into an object. */
  readonly key: readonly string[];
  readonly json: string;
}

export interface RunRecord {
  readonly kind: "run";
  readonly id: string;
  readonly entity?: string;
  readonly project?: string;
  readonly config?: readonly HistoryItem[];
  readonly group?: string;
  readonly jobType?: string;
  readonly name?: string;
  readonly notes?: string;
  readonly tags?: readonly string[];
  readonly host?: string;
  readonly startingStep?: number;
  /** Unix seconds. */
  readonly startTime?: number;
  /** The run took these seconds before this file. */
  readonly runtime?: number;
  readonly git?: { readonly remote?: string; readonly commit?: string };
  /** The file continues the run of this id at the server. */
  readonly resume?: boolean;
  readonly resumed?: boolean;
  /** Only W&B's own program writes it, to rewind or to fork. */
  readonly branch?: { readonly run: string; readonly value: number; readonly metric: string };
}

export interface FileItem {
  readonly path: string;
  readonly policy?: "now" | "end" | "live";
  readonly type?: "other" | "wandb" | "media" | "artifact";
}

interface EnvironmentRecord {
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
  | { readonly kind: "history"; readonly items: readonly HistoryItem[]; readonly step?: number }
  | {
    readonly kind: "summary" | "config";
    readonly update: readonly HistoryItem[];
    readonly remove?: readonly HistoryItem[];
  }
  | { readonly kind: "files"; readonly files: readonly FileItem[] }
  | { readonly kind: "stats"; readonly t: number; readonly items: readonly HistoryItem[] }
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
  /** Nothing here needs this record; its field has the number. */
  | { readonly kind: "other"; readonly field: number };

export interface WandbSetup {
  /** .../offline-run-TIME-ID/run-ID.wandb; the file exists where `again` is set. */
  readonly path: string;
  readonly run: Omit<RunRecord, "kind" | "config">;
  readonly config: Readonly<Record<string, unknown>>;
  readonly environment: {
    readonly python: string;
    readonly git?: RunRecord["git"];
    readonly [fact: string]: unknown;
  };
  readonly again: ResumedRun | null;
  /** The run's events.jsonl restores rows that a kill has taken. */
  readonly events: string;
  /** The server has rows up to this step, so they are neither dropped nor rewritten; -1 for none. */
  readonly after: number;
  readonly uploaded: readonly string[];
  readonly pace: EpochPosition;
  readonly files: readonly { readonly name: string; readonly source: string }[];
}

export interface ResumedRun {
  /** Rows beyond the done step and epochs are dropped. */
  readonly step: number;
  readonly epoch: number;
}
