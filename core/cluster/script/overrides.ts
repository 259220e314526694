// The variables of a job's environment that stand for flags, so that `sbatch --export=ALL,EPOCHS=200 FILE` does what it
// says. Imports nothing. Only scripts know them: elsewhere such short names may mean anything.

type Overrides = readonly (readonly [variable: string, flag: string])[];

const TRAIN: Overrides = [
  ["MODEL", "model"],
  ["DATA_TYPE", "data-type"],
  ["DATA_PATH", "data-path"],
  ["TRAIN_SAMPLES", "train-samples"],
  ["VAL_SAMPLES", "val-samples"],
  ["NUM_WORKERS", "num-workers"],
  ["EPOCHS", "epochs"],
  ["MAX_STEPS", "max-steps"],
  ["BATCH_SIZE", "batch-size"],
  ["GLOBAL_BATCH_SIZE", "global-batch-size"],
  ["GRAD_ACCUM", "grad-accum"],
  ["LR", "lr"],
  ["WEIGHT_DECAY", "weight-decay"],
  ["OPTIMIZER", "optimizer"],
  ["AMP", "amp"],
  ["SEED", "seed"],
  ["RUN_NAME", "run-name"],
  ["RESUME", "resume"],
  ["SAVE_DIR", "save-dir"],
];

const GENERATE: Overrides = [
  ["DATA_TYPE", "data-type"],
  ["SAMPLES", "samples"],
  ["TRAIN_SAMPLES", "samples"],
  ["VAL_SAMPLES", "val-samples"],
  ["SEED", "seed"],
  ["OUT", "out"],
];

/** NODES and GPUS are beside these: they say how many of the job's are used. */
export const overridesOf = (command: string): Overrides =>
  command === "train" ? TRAIN : command === "generate-data" ? GENERATE : [];
