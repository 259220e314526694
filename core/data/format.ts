// Every reader of data goes by the Formats in formats.ts, one for each kind of data. A start needs to know all kinds, and
// to read one: what a kind is known by is apart from the modules that read it.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import type { Setting } from "../settings/setting.ts";
import type { Config } from "../settings/settings.ts";
import type { Climatology, Seasonal } from "./source/climate.ts";
import type { Column, Table } from "./arrays/table.ts";
import type { Preview } from "./preview/preview.ts";
import type { RolloutRows } from "./source/rollout.ts";
import type { Source } from "./source/source.ts";
import type { SavedScale } from "./transforms/scale_choice.ts";

export interface DataRequest {
  readonly data: Config["data"];
  readonly training:
    & Pick<Config["training"], "seed" | "loss" | "ignore_index">
    & Partial<Pick<Config["training"], "amp">>
    & {
      /** Samples are only looked at: nothing is random. */
      readonly plain?: boolean;
      /** A model learns from it, so what is `auto` of its scale is decided. */
      readonly learns?: boolean;
      /** Other weights than new ones begin. */
      readonly init_from?: string;
      /** The run of the checkpoint that begins scaled its data so. */
      readonly savedScale?: SavedScale | null;
      /** A rollout takes more steps towards the last. */
      readonly epochs?: number;
      readonly withoutTargets?: boolean;
      /** All samples are for one purpose: nothing is held out. */
      readonly unsplit?: boolean;
      /** So many classes of pixels has the model that these samples are for, where it is there already. */
      readonly classes?: number;
      /** Each sample has a prediction of its own: none stands in for a bad one. */
      readonly predicts?: boolean;
      /** The run's own, for data that it was not measured over. */
      readonly climatology?: Climatology | null;
      /** A forecast of these samples is compared with the means of others, which were trained with. */
      readonly seasonal?: () => Seasonal | null;
    };
  readonly model: Config["model"];
}

export interface Sources {
  readonly train: Source;
  readonly val: Source | null;
  /** Null or absent where nothing is kept for a test. */
  readonly test?: Source | null;
  /** Files that validate by themselves, by name; absent where a share of the others does. */
  readonly divided?: string;
  readonly notes: readonly string[];
  readonly warnings?: readonly string[];
  readonly seasonal?: () => Seasonal | null;
  /** A model is fed with its own predictions. */
  readonly rollout?: RolloutRows | null;
  /** The columns of a table that were chosen. */
  readonly chosen?: { readonly features: readonly Chosen[]; readonly targets: readonly Chosen[] };
}

type Chosen = Pick<Column, "name" | "units">;

export interface TableFile<C extends Column = Column> extends Table<C> {
  readonly kind: string;
  readonly facts?: Preview["facts"];
}

/** Samples that are made up, and how they are packed. */
export interface Made {
  readonly kind: string;
  readonly train: Source;
  readonly val: Source | null;
  readonly description: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly targets: readonly string[];
  /** Those that take long are made by threads, of which so many fit in memory at most. */
  readonly threads?: {
    readonly most: () => number;
    readonly open: (libtorch: Libtorch, threads: number) => MakingThreads;
  };
}

/** Each makes a sample at a time, whichever it is. */
export interface MakingThreads {
  readonly makers: readonly ((role: "train" | "val", id: number) => Promise<MadeSample>)[];
  close(): void;
}

interface MadeSample {
  readonly input: Uint8Array;
  readonly target: Uint8Array;
}

/** `generate-data` makes such data. */
export interface Generator {
  readonly options: Readonly<Record<string, Setting>>;
  make(
    values: Readonly<Record<string, unknown>>,
    counts: { readonly seed: number; readonly samples: number; readonly val_samples: number },
  ): Made;
}

/** A kind is known by it. Its file imports little, since every start loads it. */
export interface Format {
  readonly endings: readonly string[];
  /** True takes a file for this kind by what it holds, whatever its ending says. */
  claims?(path: string): boolean;
  /** Its folders are read from a server, too: its name in messages. */
  readonly onServer?: string;
  /** `auto` detects the kind by its folder; messages say what such a folder has. */
  readonly folder?: { readonly has: string; readonly detect: (path: string) => boolean };
  /** Messages show what `data.data_path` names; null refuses a path, "" allows none, where its reader has `made`. */
  readonly path: string | null;
  /** `data.data_path` may be a glob or a list of files, which are joined. */
  readonly many?: boolean;
  /** Dimensions may have names, so `data.sel` can choose along them. */
  readonly selects?: boolean;
  readonly namesTargets?: boolean;
  /** Such data can only be predicted from: it has nothing that says what the answers should be. */
  lacksTargets?(path: string): boolean;
  /** It has named columns: its reader has `table`. */
  readonly isTable?: boolean;
  /** `inspect` shows these files although training reads their folder. */
  readonly previews?: RegExp;
  /** It imports the modules that read it. */
  load(): Promise<DataReader>;
}

export interface DataReader {
  /** It loads what these files need into this thread, and must end before `open`. */
  prepare?(data: Pick<Config["data"], "data_path" | "external_files">): Promise<unknown>;
  open(request: DataRequest): Sources;
  /** `inspect` shows the columns, and `pack` writes them as npz. */
  table?<R>(path: string, use: (table: TableFile) => R): R;
  /** It is for data that is no table; without it there is nothing to see. */
  preview?<R>(path: string, use: (preview: Preview) => R): R | Promise<R>;
  /** Without a path its samples are made: into a folder before training, or on demand. */
  made?(request: DataRequest): Made;
  readonly generator?: Generator;
}
