// `hpctrain sbatch`: its flags and its help. commands/run/job.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { JOB_OPTIONS } from "./options.ts";

export const command: Command = {
  usage: "hpctrain sbatch [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  examples: [
    "hpctrain sbatch --preset multi-node --nodes 2 --gpus-per-node 4 --time 04:00:00 --submit",
    "hpctrain sbatch --site lumi --nodes 2 --account project_465000000 --time 04:00:00 --submit",
    "hpctrain sbatch --config run.yaml --preset single-gpu --output job.sh",
    "hpctrain sbatch --preset cpu-cluster --nodes 4 --ntasks-per-node 8 --dry-run",
  ],
  settings: true,
  options: JOB_OPTIONS.slurm,
  run: async (argv) => await (await import("./run/job.ts")).makeJob("slurm", argv),
};
