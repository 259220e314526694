// Declares what computes, in which precision, and how it is watched.
import { bool, choice, duration, float, int } from "../setting.ts";

const AUTO = "chosen by itself";

export const precision = {
  amp: choice(["auto", "bf16", "fp16", "off"], "auto", {
    flag: "amp",
    spellings: ["precision", "mixed-precision", "use-amp"],
    common: true,
    aliases: ["training.use_amp"],
    yes: "auto",
    no: "off",
    shortcuts: { bf16: "bf16", fp16: "fp16" },
    words: {
      "bf16-mixed": "bf16",
      "16-mixed": "fp16",
      "16": "fp16",
      "32-true": "off",
      "32": "off",
      fp32: "off",
    },
    unlike: {
      "bf16-true": "Weights stay in fp32 here: bf16 computes in it.",
      "16-true": "Weights stay in fp32 here: fp16 computes in it.",
      "64-true": "Nothing trains in double precision here: off is fp32.",
      "64": "Nothing trains in double precision here: off is fp32.",
      fp8: "No fp8 is to be had here: bf16 is the nearest.",
    },
    help: "mixed precision; auto takes bf16 on a GPU that has it, fp16 on an older one, off on CPU",
  }),
  tf32: bool(true, { flag: "tf32", help: "TensorFloat-32 for fp32 matrix products on GPUs that have it" }),
  channels_last: choice(["auto", "on", "off"], "auto", {
    flag: "channels-last",
    yes: "on",
    no: "off",
    help:
      "memory layout of images; auto is on for convolutions on a GPU, and on a CPU for models that are faster so",
  }),
  loss_scale_init: float(65536, { min: 0, above: true, max: 2 ** 40, help: "first loss scale of fp16" }),
  loss_scale_growth_interval: int(2000, {
    min: 1,
    max: 1e9,
    help: "steps without an overflow before the loss scale of fp16 doubles",
  }),
  loss_scale_min: float(1, {
    min: 0,
    above: true,
    max: 2 ** 40,
    help: "the loss scale of fp16 never falls below",
  }),
  max_skipped_steps: int(20, {
    min: 1,
    max: 1e6,
    help: "non-finite steps in a row after which training gives up (exit code 6)",
  }),
};

export const computing = {
  device: choice(["auto", "cpu", "cuda"], "auto", {
    flag: "device",
    spellings: ["accelerator"],
    common: true,
    words: { gpu: "cuda" },
    unlike: {
      mps: "hpctrain computes on CPUs and on GPUs that CUDA drives.",
      tpu: "hpctrain computes on CPUs and on GPUs that CUDA drives.",
    },
    shortcuts: { "use-cpu": "cpu", "no-cuda": "cpu" },
    help: "where to compute; auto takes a GPU when there is one",
  }),
  threads: int(0, {
    min: 0,
    max: 4096,
    flag: "threads",
    empty: AUTO,
    help: "CPU threads a rank computes with",
  }),
  seed: int(0, {
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    flag: "seed",
    common: true,
    help: "start of all random numbers",
  }),
  deterministic: choice(["off", "on", "world"], "off", {
    flag: "deterministic",
    yes: "on",
    no: "off",
    bare: true,
    help: "the same bits on every run, at some speed; with =world also on any number of ranks",
  }),
  sync_bn: bool(false, {
    flag: "sync-bn",
    spellings: ["sync-batchnorm"],
    help: "batch norm over the samples of all ranks instead of each rank's own",
  }),
  virtual_shards: int(8, {
    min: 1,
    max: 1024,
    help:
      "parts of each global batch that are computed alone and added up in a fixed order (--deterministic=world)",
  }),
  compile: choice(["auto", "on", "fast", "exact", "off"], "auto", {
    flag: "compile",
    spellings: ["torch-compile"],
    yes: "on",
    no: "off",
    bare: true,
    once: { true: "auto" }, // it was the default, and had no effect on a CPU
    help: "training steps as one: captured as a CUDA graph on a GPU, made into machine code on a CPU",
    about: {
      auto: "fast on a GPU, op by op on a CPU",
      on: "on a CPU: exact with --deterministic, else fast; op by op where that is faster",
      fast: "products, loops and functions of its own, which round a little differently",
      exact: "the bits of the same run without it; on a GPU: libtorch's own kernels, captured",
    },
  }),
  logits_mib: int(512, {
    min: 0,
    help:
      "gpt's head computes the logits of as many tokens at once as have so many MiB in fp32; 0: of a whole micro-batch",
  }),
  memory_check: choice(["refuse", "warn", "off"], "refuse", {
    flag: "memory-check",
    help:
      "what to do on a CPU before the first step where training can't fit into memory; where it may not, a warning says so",
  }),
  gradient_checkpointing: bool(false, {
    flag: "gradient-checkpointing",
    help: "compute activations twice instead of keeping them: less memory, more time",
  }),
  profile_training: bool(false, { flag: "profile-training", help: "write where the time of a step goes" }),
  log_gpu_memory: bool(false, { flag: "log-gpu-memory", help: "log GPU memory with each logged step" }),
  log_interval: int(100, {
    min: 1,
    max: 1e9,
    flag: "log-interval",
    spellings: ["logging-steps", "log-every-n-steps"],
    common: true,
    help: "optimizer steps from one logged step to the next",
  }),
  save_interval: duration("0", ["steps", "epochs", "seconds"], {
    flag: "save-interval",
    spellings: ["save-steps"],
    common: true,
    empty: "at the end of each epoch only",
    help: "save a checkpoint this often, besides at the end of each epoch",
  }),
};
