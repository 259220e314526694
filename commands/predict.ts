// `hpctrain predict`: its flags and its help. commands/run/predict.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import {
  DATA_SETTINGS,
  FORWARD,
  ITS_FILE,
  MACHINE_SETTINGS,
  MC_DROPOUT,
  OF_OTHERS,
  PLACE,
  SANDBOX,
  settingsAmong,
  TTA,
} from "./options.ts";

export const USAGE = "hpctrain predict CHECKPOINT... --out FILE [--on test | --all] [--no-targets] [FLAGS]";

export const OPTIONS = {
  out: {
    kind: "text",
    value: "FILE",
    help:
      "the file to write, .npz, .csv, .parquet, .nc or .zarr; of images with classes of pixels a folder of PNG files, masks/",
  },
  on: {
    kind: "text",
    value: "PART",
    help: "the samples to predict: test (see --test-on), validation or train (default: validation)",
  },
  all: {
    kind: "bool",
    help: "all samples, not those to validate with alone; so it is with another --data-path",
  },
  "no-targets": {
    kind: "bool",
    help: "the data need not say what the answers should be, and the file has predictions alone",
  },
  "no-mask": {
    kind: "bool",
    help: "on a grid: predictions stay where the data's target is missing, such as on land",
  },
  probabilities: { kind: "bool", help: "of classes: how probable each is, and not the likeliest alone" },
  "mc-dropout": MC_DROPOUT,
  tta: TTA,
  members: { kind: "bool", help: "of an ensemble: what each member predicts, beside their mean and spread" },
  sandbox: SANDBOX,
} as const;

export const SETTINGS = settingsAmong(DATA_SETTINGS, MACHINE_SETTINGS, FORWARD, ITS_FILE, PLACE);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain predict checkpoints/quickstart_best.pt --out predicted.csv",
    "hpctrain predict checkpoints/ice_best.pt --data-path next-year.nc --out predicted.nc",
    "hpctrain predict checkpoints/cells_best.pt --data-path new-images --no-targets --out masks/",
    "hpctrain predict checkpoints/ice-seed*_best.pt --on test --members --out ensemble.nc",
    "hpctrain launch -n 4 -- predict checkpoints/ice_best.pt --data-path new.nc --out ice.nc",
  ],
  settings: (path) => SETTINGS(path) || OF_OTHERS.test(path),
  ofCheckpoint: true,
  options: OPTIONS,
  writes: "out",
  positionals: Infinity,
  run: async (argv) => await (await import("./run/predict.ts")).predict(argv),
};
