// Settings of the sections output, distributed and environment.
import { bool, choice, duration, int, path, text } from "./kinds.ts";
import { telling } from "./settings_track.ts";

export const FILE_NAME = {
  regex: /^[\w][\w.+-]{0,127}$/,
  says: "a name for files, of letters, digits, dots, dashes and underscores",
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
    help: "per-epoch checkpoints to keep",
  }),
  checkpoint_format: choice(["pt", "safetensors", "sharded"], "pt", {
    flag: "checkpoint-format",
    help:
      "format of checkpoints: PyTorch's, or safetensors with all that resuming needs: one file, or one from each rank",
  }),
  save_every_epoch: bool(false, {
    flag: "save-every-epoch",
    help: "also keep checkpoint_epoch_N.pt of each epoch",
  }),
  quiet: bool(false, { flag: "quiet", common: true, help: "print warnings, errors and the last line only" }),
  json: bool(false, { flag: "json", common: true, help: "print events as JSON, one a line" }),
  ...telling,
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
  bucket_mb: int(0, {
    min: 0,
    max: 4096,
    flag: "bucket-mb",
    empty: "25 between GPUs, 4 between CPUs",
    help: "megabytes of gradients that ranks add up at a time, while backward goes on",
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
