// The arithmetic of a job, in lines: what it asks for, what each step trains on. Pure. May import config, train, format.
import type { Resolved } from "../../config/resolve.ts";
import { formatPlural } from "../../format.ts";
import { planBatches } from "../../train/batch_math.ts";
import { rateLine } from "../../train/rate.ts";
import { type Job, tasksOf } from "./job.ts";

/** Throws where the numbers can't be: a batch that is larger than the data, say. */
export function arithmetic(job: Job, trains: Pick<Resolved, "config" | "origin"> | null): string[] {
  const { layout, limits } = job;
  const { nodes, ranksPerNode, gpusPerNode, gpuType } = layout;
  const { perNode, cpus, all } = tasksOf(layout);
  const world = nodes * ranksPerNode;
  const gpus = gpusPerNode > 0
    ? `, ${formatPlural(gpusPerNode, `${gpuType}${gpuType && " "}GPU`)} on each (${
      nodes * gpusPerNode
    } in all)`
    : "";
  return [
    `Nodes: ${formatPlural(nodes, "node")}${gpus}`,
    `Tasks: ${formatPlural(perNode, "task")} on each node, ${all} in all; ${formatPlural(world, "rank")}`,
    `Cores: ${cpus} a task, ${perNode * cpus} on each node, ${all * cpus} in all`,
    `Memory: ${
      limits.mem === ""
        ? "the site's own for a node"
        : limits.mem === "0"
        ? "all of each node"
        : memory(limits.mem, nodes)
    }`,
    `Time: ${limits.time || "the site's own limit"}`,
    ...(trains ? training(trains, world) : []),
  ];
}

function memory(mem: string, nodes: number): string {
  const [, count, unit] = /^(\d+)(.*)$/.exec(mem)!;
  return `${count}${unit || "M"} on each node, ${Number(count) * nodes}${unit || "M"} in all`;
}

/** How many samples data in files has is seen by the job. */
function training({ config, origin }: Pick<Resolved, "config" | "origin">, world: number): string[] {
  const { training, data } = config;
  const made = data.data_path === "" && ["auto", "synthetic", "fields"].includes(data.type);
  const plan = planBatches(training, made ? data.train_samples : Number.MAX_SAFE_INTEGER, world);
  return [
    made ? plan.said : plan.said.replace(/, [^,]*$/, ""),
    rateLine(training, plan.global, origin),
  ];
}
