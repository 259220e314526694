// `hpctrain qsub`: its flags and its help. commands/run/job.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { JOB_OPTIONS } from "./options.ts";

export const command: Command = {
  usage: "hpctrain qsub [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  examples: [
    "hpctrain qsub --preset cpu-cluster --nodes 2 --partition workq --time 04:00:00 --submit",
    "hpctrain qsub --pbs torque --preset single-gpu --output job.sh",
  ],
  settings: true,
  options: JOB_OPTIONS.pbs,
  run: async (argv) => await (await import("./run/job.ts")).makeJob("pbs", argv),
};
