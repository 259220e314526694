// Format: all that the program knows about one kind of data. formats.ts lists them, and every reader of data (training,
// inspect, pack, messages about kinds) goes by that list.
import type { Config } from "../settings/settings.ts";
import type { Column, Table } from "./columns/columns.ts";
import type { Preview } from "./preview/preview.ts";
import type { Source } from "./source.ts";

export interface DataRequest {
  readonly data: Config["data"];
  readonly training: Pick<Config["training"], "seed" | "loss" | "ignore_index"> & {
    /** True where samples are looked at and not trained with: nothing is random. */
    readonly plain?: boolean;
    /** True where the targets are not used: the data need not have them. */
    readonly withoutTargets?: boolean;
  };
  readonly model: Config["model"];
}

/** The samples of a data set, as training sees them. */
export interface Sources {
  readonly train: Source;
  readonly val: Source | null;
  readonly notes: readonly string[];
}

/** Named columns of a file, which is open while they are used. */
export interface TableFile<C extends Column = Column> extends Table<C> {
  /** A word for people: "npz archive". */
  readonly kind: string;
  /** More to show of the file. */
  readonly facts?: Preview["facts"];
}

export interface Format {
  /** How the names of its files end, in lower case. */
  readonly endings: readonly string[];
  /** How `auto` finds the kind in a folder, and what such a folder has in it, for a message. */
  readonly folder?: { readonly has: string; readonly detect: (path: string) => boolean };
  /** The file or folder that `data.data_path` names, for messages; null where data makes itself and refuses a path, "" where it may do either. */
  readonly path: string | null;
  /** True where targets are chosen by their names. A table's always are. */
  readonly namesTargets?: boolean;
  /** Brings the modules that read it into this thread; must have come to its end before `open`. */
  reader?(data: Pick<Config["data"], "data_path" | "external_files">): Promise<unknown>;
  open(request: DataRequest): Sources;
  /** For data of named columns: what `inspect` shows, and what `pack` writes as npz. */
  table?<R>(path: string, use: (table: TableFile) => R): R;
  /** Shows the data to `inspect`, where it is no table; left out where there is nothing to see. */
  preview?<R>(path: string, use: (preview: Preview) => R): R | Promise<R>;
  /** Single files that `inspect` shows although training reads them by their folder. */
  readonly previews?: RegExp;
}
