// Several commands share these flags and filters.

/** Tells by a setting's path whether a command takes it: its help lists it, shells complete it, others are refused. */
export type SettingsFilter = (path: string) => boolean;

export const settingsAmong = (...patterns: readonly RegExp[]): SettingsFilter => (path) =>
  patterns.some((pattern) => pattern.test(path));

export const DATA_SETTINGS = /^data\./;
export const MACHINE_SETTINGS = /^(environment\.|training\.(device|threads)$|output\.(quiet|json)$)/;
export const PLACE =
  /^distributed\.(backend|world_size|rank|local_rank|master_addr|master_port|timeout|network)$/;
/** How a model computes, whatever it was trained by. */
export const FORWARD = /^training\.(batch_size|eval_batch_size|amp|tf32|channels_last|deterministic|metric)$/;
export const ITS_FILE = /^model\.(name|inputs|blocks)$/;

/** For commands that read a stranger's files. */
export const SANDBOX = {
  kind: "bool",
  help:
    "for a stranger's files: no program is started, no network is used, and nothing is written but the command's own files",
} as const;

/** For commands that look a run or a job up. */
export const SAVE_DIR = {
  kind: "text",
  value: "DIR",
  help: "the folder that the runs were given (default: this one)",
} as const;

/** For commands that show runs. */
export const RUNS_DIR = {
  kind: "text",
  value: "DIR",
  help: "the parent of logs/, where runs are looked for by name",
} as const;

/** For commands that ask a model about samples. */
export const MC_DROPOUT = {
  kind: "text",
  value: "N",
  help: "drop activations as in training, predict each sample so often, and take the mean and the spread",
} as const;
