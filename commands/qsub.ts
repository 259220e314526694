// `hpctrain qsub`: its flags and its help. commands/run/qsub.ts is loaded when it runs.
import { JOB_OPTIONS } from "./sbatch.ts";
import type { Command } from "./mod.ts";

export const OPTIONS = {
  ...JOB_OPTIONS,
  "qsub-arg": {
    kind: "text",
    value: "OPTION",
    help: "any option of qsub, untouched, such as --qsub-arg='-l software=x'; may be given again",
  },
} as const;

export const command: Command = {
  usage: "hpctrain qsub [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  examples: [
    "hpctrain qsub --preset cpu-cluster --nodes 2 --partition workq --time 04:00:00 --submit",
    "hpctrain qsub --pbs torque --preset single-gpu --output job.sh",
  ],
  settings: true,
  options: OPTIONS,
  run: async (argv) => await (await import("./run/qsub.ts")).qsub(argv),
};
