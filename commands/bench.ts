// `hpctrain bench`: its flags and its help. commands/run/bench.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { MACHINE_SETTINGS, PLACE, settingsAmong } from "./options.ts";

export const USAGE =
  "hpctrain bench allreduce [--sizes 4KiB,1MiB] [FLAGS] | scaling RUN [RUN...] [--predict 1..4096]";

export const OPTIONS = {
  sizes: {
    kind: "text",
    value: "SIZES",
    help: "such as 4KiB,1MiB (default: nine sizes, 4 KiB to 256 MiB)",
  },
  predict: {
    kind: "text",
    value: "RANKS",
    help: "scaling: from a recorded run, what more ranks would do: 1..4096 (by doubling), or 8,64,512",
  },
  network: {
    kind: "text",
    value: "LINK",
    help: "the link of a node: alpha=2us,beta=25GB/s (or 200Gbit/s); also busy=0.3, cores that it keeps busy",
  },
  "node-network": {
    kind: "text",
    value: "LINK",
    help: "the link between ranks of a node (default: alpha=2us,beta=100GB/s)",
  },
  measured: {
    kind: "text",
    value: "FILE",
    help: "in place of --network: what `bench allreduce --json` printed on two nodes",
  },
  "ranks-per-node": { kind: "text", value: "N", help: "ranks of a node (default: 1)" },
  "cores-per-rank": {
    kind: "text",
    value: "N",
    help: "cores that a rank has; below 1 where ranks share them",
  },
  bucket: {
    kind: "text",
    value: "MB",
    help: "size of a bucket of gradients (default: 25, which is that of NCCL)",
  },
  accumulate: { kind: "text", value: "N", help: "micro-batches of a step (default: 1)" },
  mtbf: {
    kind: "text",
    value: "DAYS",
    help: "days between two failures of one node, such as 1000 (default: nodes do not fail)",
  },
} as const;

export const SETTINGS = settingsAmong(MACHINE_SETTINGS, PLACE, /^distributed\./);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain launch -n 4 -- bench allreduce --device cpu",
    "srun hpctrain bench allreduce --json",
    "hpctrain bench scaling one-gpu four-gpus eight-gpus",
    "hpctrain bench scaling one-node --predict 1..4096 --network alpha=5us,beta=25GB/s --mtbf 1000",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  words: ["allreduce", "scaling"],
  positionals: 1,
  run: async (argv) => await (await import("./run/bench.ts")).bench(argv),
};
