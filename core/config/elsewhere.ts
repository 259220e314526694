// Flags of other programs that mean no setting of ours, and what to type instead. Those that do mean one, one to one, are
// among the `spellings` of that setting. Imports nothing.

const RANKS =
  "Ranks are started by a launcher: `hpctrain launch -n 4 -- FLAGS` on this machine, `hpctrain sbatch --gpus-per-node 4` in a job.";
const OF_LAUNCH = "It is a flag of launch: `hpctrain launch -n 4 ... -- FLAGS`.";
const STRATEGY =
  "Ranks share their gradients as ddp does, without a flag; --zero 1 also shares the optimizer's state (ZeRO, stage 1).";
const EACH_EPOCH =
  "The validation data is evaluated at the end of each epoch; a shorter epoch is fewer --train-samples.";
const OF_SBATCH =
  "It is sbatch's own: it stands before the file, as in `sbatch --export=ALL,EPOCHS=200 FILE`; `hpctrain sbatch` passes it on " +
  "as --sbatch-arg=--OPTION.";

const INSTEAD: Readonly<Record<string, string>> = {
  "nproc-per-node": RANKS,
  "num-processes": RANKS,
  devices: RANKS,
  gpus: RANKS,
  "num-gpus": RANKS,
  "n-gpus": RANKS,
  "node-rank": OF_LAUNCH,
  "machine-rank": OF_LAUNCH,
  rendezvous: OF_LAUNCH,
  "rdzv-endpoint": OF_LAUNCH,
  "rdzv-backend": OF_LAUNCH,
  "rdzv-id": OF_LAUNCH,
  standalone: OF_LAUNCH,
  "max-restarts": OF_LAUNCH,
  strategy: STRATEGY,
  fsdp: STRATEGY,
  deepspeed: STRATEGY,
  "warmup-ratio": "Warm-up is a duration: --warmup 500steps or --warmup 1ep.",
  "warmup-epochs": "Warm-up is a duration: --warmup 5ep.",
  "eval-steps": EACH_EPOCH,
  "eval-strategy": EACH_EPOCH,
  "evaluation-strategy": EACH_EPOCH,
  "val-check-interval": EACH_EPOCH,
  "check-val-every-n-epoch": EACH_EPOCH,
  "save-strategy":
    "A checkpoint is saved at the end of each epoch, and more often with --save-interval 500steps or 30min.",
  "save-total-limit":
    "--keep-last N keeps the last N checkpoints of epochs; the latest and the best are always there.",
  "save-top-k":
    "--keep-last N keeps the last N checkpoints of epochs; the latest and the best are always there.",
  "report-to": "A W&B run is always written: --no-wandb leaves it out, --wandb-online uploads it too.",
  logger: "A W&B run is always written: --no-wandb leaves it out, --wandb-online uploads it too.",
  "fast-dev-run": "--preset debug trains for seconds; --max-steps 10 ends any run early.",
  "limit-train-batches": "Give it in samples: --train-samples N.",
  "limit-val-batches": "Give it in samples: --val-samples N.",
  "max-time":
    "--time is the limit of a job (`hpctrain sbatch`); the run in it stops in time, with a checkpoint.",
  dataset:
    "Data is named by its place, --data-path DIR, and where that does not tell, by its kind: --data-type KIND.",
  "dataset-name":
    "Data is named by its place, --data-path DIR, and where that does not tell, by its kind: --data-type KIND.",
  checkpoint: "--resume FILE goes on with a run, --init-from FILE takes the first weights from one.",
  debug:
    "It is short for --preset debug, where there is something to train. Where an error came from is told by --trace-errors.",
  export: OF_SBATCH,
  dependency: OF_SBATCH,
  array: OF_SBATCH,
  begin: OF_SBATCH,
  wrap: OF_SBATCH,
};

/** The sentence for who typed another program's flag; null for one that nobody is known to have. */
export const insteadOf = (flag: string): string | null => Object.hasOwn(INSTEAD, flag) ? INSTEAD[flag] : null;
