// The extensions: what the rest of the program can do without. Each is a folder of extensions/ with its code, its page and
// its tests, and one line here, under the seam that it fills. It is loaded when somebody asks for it by its name, and
// nothing else in core names it: without its folder and its line (`./scripts/deletable NAME`) all others go on.

export interface Extension<Module> {
  /** Help and lists of choices have it beside the name. */
  readonly about: string;
  /** The seam says what it asks of the module. */
  load(): Promise<Module>;
}

export type Extensions<Module> = Readonly<Record<string, Extension<Module>>>;

// deno-fmt-ignore: one line each
export const EXTENSIONS = {
  /** `--track NAME`: core/outputs/tracked.ts. */
  outputs: {
    mlflow: { about: "a store of runs as MLflow keeps it in files", load: () => import("../extensions/mlflow/output.ts") },
    prometheus: { about: "the newest numbers, for a node exporter", load: () => import("../extensions/prometheus/output.ts") },
  },
  /** Kinds of data (`--data-type`): core/data/formats.ts. */
  formats: {
    universes: { about: "simulated universes", kinds: { "2lpt": "simulated boxes of the universe, generated or read from where they were generated", des: "simulated maps of a galaxy survey, generated or read from where they were generated" }, load: () => import("../extensions/universes/format.ts") },
  },
  /** `pack --train-tokenizer N`: core/data/text/pack.ts. */
  vocabularies: {
    bpe: { about: "byte-pair encoding", load: () => import("../extensions/bpe/learn.ts") },
  },
  /** `export CHECKPOINT OUT.NAME`: core/export/programs.ts. */
  programs: {
    onnx: { about: "for onnxruntime and others", load: () => import("../extensions/onnx/program.ts") },
  },
  /** `sweep --search NAME`: core/cluster/sweep/search.ts. */
  searches: {
    tpe: { about: "learns from earlier runs", load: () => import("../extensions/tpe/search.ts") },
    asha: { about: "stops losers early", load: () => import("../extensions/asha/search.ts") },
  },
  /** A search tells each of them of its runs: core/cluster/sweep/journals.ts. */
  journals: {
    optuna: { about: "a search as a study of Optuna's", load: () => import("../extensions/optuna/journal.ts") },
  },
  /** The page of a sweep has each of them: core/cluster/sweep/page.ts. */
  charts: {
    coordinates: { about: "all runs as lines over their settings", load: () => import("../extensions/coordinates/chart.ts") },
  },
};

export const hasExtension = (name: string): boolean =>
  Object.values(EXTENSIONS).some((seam) => Object.hasOwn(seam, name));
