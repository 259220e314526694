// What stands in a .wandb file, as types. Imports nothing.

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
