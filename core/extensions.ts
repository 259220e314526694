// The extensions: what the rest of the program can do without. Each is a folder of extensions/ with its code, its page and
// its tests, and one line here, under the seam that it fills. It is loaded when somebody asks for it by its name, and
// nothing else in core names it: without its folder and its line (`./scripts/deletable NAME`) all others go on.

/** The seam says what it asks of their modules. */
export type Extensions<Module> = Readonly<Record<string, () => Promise<Module>>>;

export const EXTENSIONS = {
  /** `--track NAME`: core/outputs/tracked.ts. */
  outputs: {
    mlflow: () => import("../extensions/mlflow/output.ts"),
    prometheus: () => import("../extensions/prometheus/output.ts"),
  },
  /** `export CHECKPOINT OUT.NAME`: core/export/programs.ts. */
  programs: {
    onnx: () => import("../extensions/onnx/program.ts"),
  },
};

export const hasExtension = (name: string): boolean =>
  Object.values(EXTENSIONS).some((seam) => Object.hasOwn(seam, name));
