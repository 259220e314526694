// The arithmetic of a job, in lines.
import { assertEquals } from "@std/assert";
import { arithmetic } from "../../../../core/cluster/script/plan.ts";
import { defaultConfig } from "../../../../core/settings/settings.ts";
import { JOB } from "./helpers.ts";
import { sentenceNamed } from "../../../sentences.ts";

Deno.test("what a job asks for is added up over tasks and nodes", () => {
  const layout = { ...JOB.layout, gpuType: "h100" };
  assertEquals(arithmetic({ ...JOB, layout, limits: { ...JOB.limits, mem: "64G", time: "1:00:00" } }, null), [
    "Nodes: 2 nodes, 2 h100 GPUs on each (4 in all)",
    "Tasks: 2 tasks on each node, 4 in all; 4 ranks",
    "Cores: 4 a task, 8 on each node, 16 in all",
    "Memory: 64G on each node, 128G in all",
    "Time: 1:00:00",
  ]);
  const perNode = arithmetic({ ...JOB, layout: { ...layout, tasks: "per-node", gpusPerNode: 0 } }, null);
  assertEquals(perNode.slice(0, 4), [
    "Nodes: 2 nodes",
    "Tasks: 1 task on each node, 2 in all; 4 ranks",
    "Cores: 8 a task, 8 on each node, 16 in all",
    "Memory: the site's own for a node",
  ]);
});

Deno.test("steps of an epoch are told where the data's size is known", () => {
  const config = defaultConfig();
  config.data.train_samples = 1000;
  const last = () => arithmetic(JOB, { config, originText: () => "default" }).slice(-2);
  assertEquals(last(), [
    sentenceNamed("core/cluster/script/check: batch ranks accumulated"),
    sentenceNamed("core/cluster/script/check: learning rate default"),
  ]);
  config.data.data_path = "photos";
  assertEquals(last()[0], "Batch: 64 x 4 ranks x 1 accumulated = 256 samples a step");
});
