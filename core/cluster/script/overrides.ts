// The variables of a job's environment that stand for flags, so that `sbatch --export=ALL,EPOCHS=200 FILE` does what it
// says: those that need no prefix, and our own of the settings that the script gives by flags, which would win else.
import { prefixedOf } from "../../config/environment.ts";
import type { Resolved } from "../../config/resolve.ts";
import { ALL } from "../../config/tree.ts";

type Overrides = readonly (readonly [variable: string, flag: string])[];

/** The size of a job: the script itself sees to these, for every command. */
export const OF_THE_SIZE = ["NODES", "GPUS"];

/** Every variable without a prefix that is about training. */
const PLAIN: Overrides = ALL.flatMap(({ setting: { plain = [], flag } }) =>
  plain.filter((name) => !OF_THE_SIZE.includes(name)).map((name) => [name, flag!] as const)
);

const GENERATE: Overrides = [
  ["DATA_TYPE", "data-type"],
  ["TRAIN_SAMPLES", "samples"],
  ["HPCTRAIN_SAMPLES", "samples"],
  ["HPCTRAIN_VAL_SAMPLES", "val-samples"],
  ["HPCTRAIN_SEED", "seed"],
  ["HPCTRAIN_OUT", "out"],
];

export function overridesOf(command: string, { layer }: Resolved): Overrides {
  if (command === "generate-data") return GENERATE;
  if (command !== "train") return [];
  const typed = ALL.filter(({ path, setting }) =>
    setting.flag && layer(path) === "flag" && !/^(cluster|distributed)\./.test(path)
  );
  return [
    ...PLAIN,
    ...typed.flatMap((declared) =>
      prefixedOf(declared).map((name) => [name, declared.setting.flag!] as const)
    ),
  ];
}

/** Variables that a job of this command has no use for, and refuses. */
export const uselessFor = (command: string): readonly string[] =>
  command !== "generate-data"
    ? []
    : PLAIN.map(([name]) => name).filter((name) => !GENERATE.some(([used]) => used === name));
