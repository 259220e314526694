// Declares the sections output, wandb, distributed and environment, and the guards of the section training.
import { PARTS } from "../../parts.ts";
import { bool, choice, duration, float, int, list, path, text } from "../setting.ts";

export const guards = {
  on_spike: choice(["off", "warn", "skip", "rewind"], "off", {
    flag: "on-spike",
    help:
      "when the loss jumps: say so, leave that step out, or go back to the last checkpoint and leave those batches out",
  }),
  spike_zscore: float(8, {
    min: 1,
    max: 1000,
    help: "a loss is a spike this many standard deviations above the mean of the last ones",
  }),
  spike_window: int(100, { min: 10, max: 1e6, help: "losses that a spike is judged by" }),
  peak_tflops: float(0, {
    min: 0,
    max: 1e9,
    flag: "peak-tflops",
    empty: "known of most GPUs",
    help:
      "what one device can do, in 1e12 operations a second: for the share of it that training makes use of (mfu)",
  }),
  profile_steps: text("10-20", {
    flag: "profile-steps",
    pattern: {
      regex: /^[1-9]\d{0,8}(-[1-9]\d{0,8})?$/,
      says: "steps of this start of the run such as 10-20",
    },
    help: "steps that --profile-training looks at, counted from where this process begins",
  }),
};

export const TRACKS: readonly string[] = Object.keys(PARTS.outputs);

const reporting = {
  track: list({
    flag: "track",
    empty: "none",
    choices: TRACKS,
    help: `files to write beside the run, separated by commas: ${TRACKS.join(", ")}`,
  }),
  prometheus_dir: path("", {
    part: "prometheus",
    flag: "prometheus-dir",
    empty: "the run's folder",
    help: "folder that the textfile collector of a node exporter reads, for --track prometheus",
  }),
  on_event: text("", {
    flag: "on-event",
    empty: "none",
    help: "command that gets warnings, spikes, failed saves and the end of the run as JSON on its input",
  }),
  system_interval: duration("10s", ["seconds"], {
    flag: "system-interval",
    help: "how often each rank notes memory, processor, disk, network and GPU; 0 never",
  }),
};

export const FILE_NAME = {
  regex: /^[\w][\w.+-]{0,127}$/,
  says: "a name for files, of at most 128 letters, digits, dots, dashes and underscores",
};

const FROM_ENV = "from the launcher's environment";

export const output = {
  save_dir: path(".", {
    flag: "save-dir",
    spellings: ["output-dir", "default-root-dir"],
    common: true,
    help: "folder that gets checkpoints/ and logs/",
  }),
  model_dir: path("", {
    flag: "model-dir",
    plain: ["CHECKPOINT_DIR"],
    spellings: ["checkpoint-dir"],
    empty: "checkpoints/ in the save folder",
    help: "folder for the checkpoints",
  }),
  run_name: text("", {
    flag: "run-name",
    common: true,
    empty: "made from model and data",
    pattern: FILE_NAME,
    help: "name of this run in files and logs",
  }),
  keep_last: int(0, {
    min: 0,
    max: 1e6,
    flag: "keep-last",
    empty: "keep all",
    help: "per-epoch checkpoints of this run to keep",
  }),
  keep_best: int(1, {
    min: 1,
    max: 1e6,
    flag: "keep-best",
    spellings: ["save-top-k"],
    help: "checkpoints of the best evaluations to keep: RUN_best.pt, and of the others RUN_best_EPOCH.pt",
  }),
  checkpoint_format: choice(["pt", "safetensors", "sharded"], "pt", {
    flag: "checkpoint-format",
    help:
      "format of checkpoints: PyTorch's, or safetensors with all that resuming needs: one file, or one from each rank",
  }),
  save_every_epoch: bool(false, {
    flag: "save-every-epoch",
    help: "also keep RUN_epoch_N.pt of each epoch",
  }),
  quiet: bool(false, { flag: "quiet", common: true, help: "print warnings, errors and the last line only" }),
  json: bool(false, { flag: "json", common: true, help: "print events as JSON, one a line" }),
  ...reporting,
};

export const distributed = {
  backend: choice(["auto", "nccl", "mpi", "shm", "tcp", "gloo"], "auto", {
    flag: "distributed-backend",
    spellings: ["dist-backend", "ddp-backend"],
    help:
      "how ranks talk; auto: nccl on GPUs; on CPUs mpi where it started them, else what gloo is here: shm on one node, tcp between nodes",
  }),
  world_size: int(0, { min: 0, max: 1e6, flag: "world-size", empty: FROM_ENV, help: "number of ranks" }),
  rank: int(-1, { min: -1, max: 1e6, flag: "rank", empty: FROM_ENV, help: "number of this rank, from 0" }),
  local_rank: int(-1, {
    min: -1,
    max: 1e6,
    flag: "local-rank",
    empty: FROM_ENV,
    help: "number of this rank on its node",
  }),
  master_addr: text("", { flag: "master-addr", empty: FROM_ENV, help: "host of rank 0" }),
  master_port: int(0, { min: 0, max: 65535, flag: "master-port", empty: FROM_ENV, help: "port of rank 0" }),
  timeout: duration("10min", ["seconds"], {
    flag: "timeout",
    spellings: ["ddp-timeout"],
    env: ["NCCL_TIMEOUT"],
    help: "longest wait for another rank",
  }),
  network: choice(["auto", "infiniband", "ethernet"], "auto", {
    flag: "network",
    help: "what GPUs on several nodes talk over; auto leaves the choice to NCCL",
  }),
  nodes: int(0, {
    min: 0,
    max: 1e6,
    flag: "nodes",
    plain: ["NODES"],
    spellings: ["nnodes", "num-nodes"],
    aliases: ["training.num_nodes", "distributed.num_nodes"],
    empty: "as the allocation has",
    help: "machines the run is for",
  }),
  gpus_per_node: int(0, {
    min: 0,
    max: 1024,
    flag: "gpus-per-node",
    plain: ["GPUS"],
    empty: "as the allocation has",
    help: "GPUs the run takes on each machine",
  }),
  capture: bool(true, {
    help: "on GPUs: capture steps of several ranks too, NCCL's collectives included",
  }),
  bucket_mb: int(0, {
    min: 0,
    max: 4096,
    flag: "bucket-mb",
    empty: "25 between GPUs, 4 between CPUs",
    help: "megabytes of gradients that ranks add up at a time, while backward goes on",
  }),
  reduce: choice(["fp32", "bf16"], "fp32", {
    help: "type in which ranks add gradients up; bf16 sends half the bytes and keeps 3 digits of each sum",
  }),
  zero: int(0, {
    min: 0,
    max: 1,
    flag: "zero",
    help: "1: each rank updates its part of the weights and holds the optimizer's state of that part alone",
  }),
  debug: choice(["off", "info", "detail"], "off", {
    flag: "debug-ranks",
    env: ["TORCH_DISTRIBUTED_DEBUG"],
    words: { OFF: "off", INFO: "info", DETAIL: "detail" },
    help:
      "info: each rank says where it is and what it computes on; detail: ranks compare each collective before it begins, at some speed",
  }),
  any_layout: bool(false, {
    flag: "any-layout",
    help: "train on a layout that the preset is not made for, or that a job's tasks and GPUs don't fit",
  }),
};

export const environment = {
  libtorch: path("", {
    flag: "libtorch",
    common: true,
    empty: "searched for",
    help: "folder of the libtorch to use",
  }),
};

// The variables are those of W&B's own program.

/** W&B takes this as a run's id, and file systems take it as a part of a name. */
export const RUN_ID = {
  regex: /^[^:;,#?/'\\\s\0]{1,128}$/,
  says: "a run's id of up to 128 characters, none of them : ; , # ? / ' \\ or a space",
};

const PROJECT = {
  regex: /^[^/\\#?%:\0]{1,128}$/,
  says: "a project's name of up to 128 characters, none of them / \\ # ? % :",
};

export const wandb = {
  enabled: bool(true, { flag: "wandb", help: "write a Weights & Biases run" }),
  disabled: bool(false, { env: ["WANDB_DISABLED"], help: "the same the other way round, for its variable" }),
  mode: choice(["offline", "online", "disabled"], "offline", {
    shortcuts: { "wandb-offline": "offline", "wandb-online": "online" },
    words: { dryrun: "offline", run: "online" }, // W&B's own, of before it had the others
    env: ["WANDB_MODE"],
    help: "online also uploads while training; offline sends nothing anywhere",
  }),
  project: text("hpctrain", {
    flag: "wandb-project",
    env: ["WANDB_PROJECT"],
    pattern: PROJECT,
    help: "project the run belongs to",
  }),
  entity: text("", {
    flag: "wandb-entity",
    env: ["WANDB_ENTITY"],
    empty: "the account's own",
    help: "user or team",
  }),
  run_name: text("", {
    flag: "wandb-run-name",
    env: ["WANDB_NAME"],
    empty: "the run's name",
    help: "display name; as a flag or in a file it also names the run that has no run_name",
  }),
  id: text("", {
    flag: "wandb-id",
    env: ["WANDB_RUN_ID"],
    empty: "made, and kept in checkpoints",
    pattern: RUN_ID,
    help: "id of the run at W&B",
  }),
  group: text("", {
    flag: "wandb-group",
    env: ["WANDB_RUN_GROUP"],
    empty: "none",
    help: "group of runs it belongs to",
  }),
  job_type: text("", {
    flag: "wandb-job-type",
    env: ["WANDB_JOB_TYPE"],
    empty: "train",
    help: "what kind of run it is",
  }),
  tags: list({ flag: "wandb-tags", env: ["WANDB_TAGS"], empty: "none", help: "tags, separated by commas" }),
  notes: text("", {
    flag: "wandb-notes",
    env: ["WANDB_NOTES"],
    empty: "none",
    help: "what there is to say of it",
  }),
  dir: path("", {
    flag: "wandb-dir",
    env: ["WANDB_DIR"],
    empty: "the folder logs/",
    help: "folder that gets wandb/offline-run-*",
  }),
  files: list({
    flag: "wandb-files",
    empty: "none",
    help: "files that go with the run: best, latest, report, lineage, separated by commas",
  }),
  histograms: int(0, {
    min: 0,
    max: 1e9,
    flag: "wandb-histograms",
    spellings: ["histograms"],
    empty: "none",
    help: "steps from one histogram of weights and gradients to the next",
  }),
  images: int(4, {
    min: 0,
    max: 64,
    flag: "wandb-images",
    spellings: ["images"],
    empty: "none",
    help: "validation samples that are shown as pictures, where samples are pictures",
  }),
};
