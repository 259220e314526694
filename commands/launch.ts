// `hpctrain launch`: its flags and its help. commands/run/launch.ts is loaded when it runs.
import type { Command } from "./mod.ts";

const OPTIONS = {
  n: {
    kind: "text",
    value: "N",
    help:
      "ranks on this node; also --nproc-per-node and --gpus-per-node, and gpu, cpu, numa or auto for N (default: one on each " +
      "GPU, or each of several NUMA domains)",
  },
  nodes: { kind: "text", value: "M", help: "nodes that take part, each with its own launch (default: 1)" },
  "node-rank": { kind: "text", value: "K", help: "which of them this is, from 0" },
  rendezvous: {
    kind: "text",
    value: "HOST:PORT",
    help:
      "where rank 0 can be reached from the other nodes: the host of node 0, and a port that is free there",
  },
  "ranks-per-gpu": {
    kind: "text",
    value: "R",
    help:
      "so many ranks share each GPU, to try a job of many ranks on few GPUs: each has its part of the time and memory (default: 1)",
  },
  "max-restarts": {
    kind: "text",
    value: "R",
    help:
      "start all ranks again after a failure, from the newest good checkpoint, at most so often (default: 0)",
  },
} as const;

export const command: Command = {
  usage:
    "hpctrain launch [-n N] [--nodes M --node-rank K --rendezvous HOST:PORT --max-restarts R] -- [FLAGS]",
  examples: [
    "hpctrain launch -n 4 -- --preset cpu-cluster --any-layout",
    "hpctrain launch --nproc-per-node gpu --max-restarts 2 -- --config run.yaml",
    "hpctrain launch -n 8 pack photos packed --resize 256",
  ],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/launch.ts")).launch(argv),
};
