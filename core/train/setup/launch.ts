// From settings to a launch: what can't be is refused, data that is made is made, and notes say what was decided.
import { usableCores } from "../../base/topology.ts";
import { generateMissing } from "../../data/open/generated.ts";
import { loadDataReader } from "../../data/open/open.ts";
import type { RankContext } from "../../ranks/context.ts";
import { layoutRequest, refuseIdleGpus } from "../../ranks/job/layout.ts";
import type { OpenOutput } from "../../run/output.ts";
import { environmentLines } from "../../settings/environment.ts";
import { checkLayout, loadPreset, type World } from "../../settings/presets.ts";
import type { Resolved, SettingsRequest } from "../../settings/resolve.ts";
import type { Config } from "../../settings/settings.ts";
import type { Device } from "../../../ffi/tensor.ts";
import { onCpus, refuseGpus, refuseOptimizer, unitsTaken, unnamedData, withoutEffect } from "../checks.ts";
import { loaderThreads, unusedGpus, whyNoCuda } from "../device.ts";
import { inCommon } from "../gpu.ts";
import { refuseZero } from "../gradients/zero.ts";
import type { Launch } from "../launch.ts";
import { nearMemory, nearSentence } from "../near_memory.ts";
import type { ResumeChoice } from "../restart.ts";
import { unlessStopped } from "../stop.ts";

export interface TrainRequest {
  /** Resolves the settings, with what shows only later: the number of ranks, and the checkpoint that the run goes on from. */
  resolve(more?: Pick<SettingsRequest, "ranks" | "checkpoint">): Resolved;
  /** Opens the user's files that the settings name. */
  withUserCode(resolved: Resolved): Promise<Resolved>;
  /** The command's words; null where a program of the user's own trains, which no command repeats. */
  readonly argv: readonly string[] | null;
  readonly env: Record<string, string>;
  /** Unix seconds at which the process was started. */
  readonly began: number;
  readonly where: RankContext;
  /** Those that the settings of the run ask for. */
  outputs(config: Config): Promise<readonly OpenOutput[]>;
}

/** `sharing` is the number of ranks that use the same cores. */
export async function launchOf(
  { env, where, began, outputs }: TrainRequest,
  resolved: Resolved,
  { resume, again, scale, notes }: ResumeChoice,
  opened: Pick<Launch, "device" | "libtorch" | "team" | "control" | "notes">,
  sharing: number,
): Promise<{ readonly launch: Launch; readonly world: World }> {
  const { device, libtorch } = opened;
  const kind = device === "cpu" ? "cpu" : "cuda";
  refuseZero(resolved.config);
  refuseOptimizer(resolved.config);
  refuseIdleGpus(env, kind, whyNoCuda, layoutRequest(resolved.config));
  refuseGpus(resolved, where, kind);
  const world = refuseOtherLayout(resolved, where, kind);
  const from = `data.type ${resolved.config.data.type} (${resolved.originText("data.type")})`;
  const ready = await unlessStopped(generateMissing(resolved.config, libtorch, where, { from }));
  const { config, notes: kinds } = inCommon(ready.config, device, opened.team ?? null);
  await loadDataReader(config.data);
  const loading = loaderThreads(resolved, device, sharing);
  const launch = {
    ...{ ...opened, config, resume, again, scale, began, resolved },
    outputs: await outputs(config),
    preset: resolved.preset,
    loaders: loading.loaders,
    ranksHere: where.localWorld,
    notes: [
      ...opened.notes,
      ...kinds,
      ...unusedGpus(config, device, env),
      ...settingsNotes(resolved, kind),
      ...ready.notes,
      ...loading.notes,
      ...nearNote(device),
      ...notes,
    ],
  };
  return { launch, world };
}

/** These settings may be other than somebody thinks. */
export const settingsNotes = (resolved: Resolved, kind: World["device"]): string[] => [
  ...environmentLines(resolved),
  ...withoutEffect(resolved),
  ...onCpus(resolved, kind),
  ...unnamedData(resolved),
  ...unitsTaken(resolved),
];

/** Where memory has several domains, whose cores a rank has decides its speed. */
function nearNote(device: Device): string[] {
  const near = device === "cpu" ? nearSentence(nearMemory()) : "";
  return near === "" ? [] : [`Cores: ${usableCores()}${near}.`];
}

export function refuseOtherLayout(
  { preset, config }: Resolved,
  { nodes, world: ranks }: RankContext,
  device: World["device"],
): World {
  const world: World = { nodes, ranks, device };
  if (preset && !config.distributed.any_layout) checkLayout(loadPreset(preset), world);
  return world;
}
