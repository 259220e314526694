// Lines about what was decided for a run. May import its siblings.
import type { Config } from "../config/settings.ts";
import type { BatchPlan } from "./batch_math.ts";
import type { Built } from "./build.ts";

export function precisionNote({ amp }: Built): string[] {
  return amp === "off" ? [] : [`Mixed precision: ${amp}`];
}

export function shardsNote({ training }: Config, { global }: BatchPlan): string[] {
  if (training.deterministic !== "world") return [];
  const count = training.virtual_shards;
  const sizes = [...new Set([Math.floor(global / count), Math.ceil(global / count)])].join(" or ");
  return [
    `The same bits on any number of ranks that divides ${count}, each with as many threads: ` +
    `${count} virtual shards of ${sizes} samples`,
  ];
}
