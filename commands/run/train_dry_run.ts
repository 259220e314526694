// `hpctrain train --dry-run`: prints what a run decides before its first step, and trains and writes nothing.
import { checkpointInterval } from "../../core/outputs/prediction.ts";
import { type RecordedStep, recordedStepOf } from "../../core/outputs/recorded_step.ts";
import { formatDuration, formatPlural } from "../../core/base/format.ts";
import { join } from "../../deps/path.ts";
import type { Config } from "../../core/settings/settings.ts";
import { layoutRequest, refuseIdleGpus, refuseJobLayout } from "../../core/ranks/job/layout.ts";
import { loadDataReader } from "../../core/data/open/open.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { planBatches, precisionNote, shardsNote } from "../../core/train/batches.ts";
import { build } from "../../core/train/build.ts";
import {
  decayNote,
  refuseGpus,
  refuseLayout,
  refuseMissingData,
  refuseOptimizer,
  refuseShare,
} from "../../core/train/checks.ts";
import { asUserError, openDevice, unusedGpus, whyNoCuda } from "../../core/train/device.ts";
import { chooseKernelSearch, gpuFactsOf, othersNote } from "../../core/train/gpu.ts";
import { decide } from "../../core/train/run.ts";
import { refuseMetrics, refuseMonitor } from "../../core/train/monitor.ts";
import { refuseZero } from "../../core/train/gradients/zero.ts";
import { rateLine, scaledLearningRate } from "../../core/train/schedule.ts";
import { openCourse } from "../../core/train/schedules/course.ts";
import { gpuLine, startLine } from "../../core/run/console.ts";
import { refuseOtherLayout, settingsNotes } from "../../core/train/setup/launch.ts";
import type { Resolve } from "./train.ts";
import { withTrainingCode } from "../user_code.ts";

export async function dryRun(resolve: Resolve, env: Record<string, string>): Promise<void> {
  const settings = resolve();
  const where = rankContext(env, placeFlags(settings.config.distributed));
  refuseJobLayout(env, where, layoutRequest(settings.config));
  const first = await withTrainingCode(resolve({ ranks: where.world }));
  refuseLayout(first, where);
  const { resolved, choice: { resume, scale, notes } } = await decide(
    { resolve, withUserCode: withTrainingCode, where },
    first,
    null,
  );
  const { config } = resolved;
  try {
    const { device: wished } = config.training;
    if (wished !== "auto") refuseOtherLayout(resolved, where, wished); // that does not fit, whatever GPUs there are
    refuseOptimizer(config);
    const { device, libtorch } = openDevice(config, where.localRank);
    refuseZero(config);
    const kind = device === "cpu" ? "cpu" : "cuda";
    refuseIdleGpus(env, kind, whyNoCuda, layoutRequest(config));
    refuseGpus(resolved, where, kind);
    refuseMissingData(resolved);
    const world = refuseOtherLayout(resolved, where, kind);
    await loadDataReader(config.data);
    const built = build(config, device, where.world, null, undefined, scale);
    refuseShare(resolved, built.data);
    refuseMetrics(built);
    refuseMonitor(config, built);
    const plan = planBatches(config.training, built.data.train.length, where.world);
    chooseKernelSearch(config, device, plan);
    const gpu = gpuFactsOf(config, device, built), { facts } = built.data.train;
    const course = openCourse(config, scaledLearningRate(config.training, plan.global), plan, facts);
    if (where.rank > 0) return; // every rank refuses what is refused
    const lines = [
      startLine(world),
      `libtorch ${libtorch.versionText} from ${libtorch.from}: ${libtorch.dir}`,
      ...settingsNotes(resolved, world.device),
      ...(resume ? [`Goes on from ${resume.path}`] : []),
      ...notes,
      ...built.data.notes,
      built.model.describe(),
      ...built.trained.notes,
      `${plan.note}. ${rateLine(config.training, plan.global, resolved.originText)}`,
      ...course.notes,
      ...(config.training.fit_batch
        ? [
          `Of the ${plan.global} samples a step, as many at once as fit and are fastest: a run measures it (--batch-size auto)`,
        ]
        : []),
      ...precisionNote(built),
      ...(gpu ? [gpuLine(gpu), ...othersNote(gpu)] : unusedGpus(config, device, env)),
      ...shardsNote(config, plan),
      ...decayNote(resolved, built.arena.parameters, built.trained.grouping),
      ...intervalNote(config, where.nodes),
      "Dry run: nothing was trained, and nothing written.",
    ];
    for (const line of lines) console.log(line);
  } catch (error) {
    throw asUserError(error);
  }
}

const A_NODE_FAILS_DAYS = 1000;

/** Nothing where this run has not yet trained and saved. */
function intervalNote({ output }: Config, nodes: number): string[] {
  let recorded: RecordedStep;
  try {
    recorded = recordedStepOf(join(output.save_dir, "logs", output.run_name));
  } catch {
    return [];
  }
  if (recorded.save === null) return [];
  const { stall } = recorded.save;
  const interval = Math.round(checkpointInterval(stall, A_NODE_FAILS_DAYS * 86_400 / nodes));
  return [
    `A save held training for ${formatDuration(stall)}: where each of ${
      formatPlural(nodes, "node")
    } fails once in ` +
    `${A_NODE_FAILS_DAYS} days, --save-interval ${interval}s loses least (Young/Daly).`,
  ];
}
