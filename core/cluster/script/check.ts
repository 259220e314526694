// The arithmetic of a job, in lines: what it asks for, what each step trains on. Pure. May import config, train, format.
import type { Config } from "../../config/settings.ts";
import { formatLearningRate, formatPlural } from "../../format.ts";
import { planBatches, scaledLearningRate } from "../../train/batch_math.ts";
import { type Job, tasksOf } from "./job.ts";

/** Throws where the numbers can't be: a batch that is larger than the data, say. */
export function arithmetic(job: Job, config: Config | null): string[] {
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
    ...(config ? training(config, world) : []),
  ];
}

function memory(mem: string, nodes: number): string {
  const [, count, unit] = /^(\d+)(.*)$/.exec(mem)!;
  return `${count}${unit || "M"} on each node, ${Number(count) * nodes}${unit || "M"} in all`;
}

/** How many samples data in files has is seen by the job. */
function training({ training, data }: Config, world: number): string[] {
  const made = data.data_path === "" && ["auto", "synthetic", "fields"].includes(data.type);
  const plan = planBatches(training, made ? data.train_samples : Number.MAX_SAFE_INTEGER, world);
  const rate = formatLearningRate(scaledLearningRate(training, plan.global));
  const scaled = training.lr_scaling === "linear"
    ? ` (${training.optimizer.learning_rate} x ${plan.global} / ${training.base_batch_size})`
    : "";
  return [made ? plan.said : plan.said.replace(/, [^,]*$/, ""), `Learning rate: ${rate}${scaled}`];
}
