// From settings to a launch: what can't be is refused, data that is made is made, and notes say what was decided.
import { usableCores } from "../../base/topology.ts";
import { formatPlural } from "../../base/format.ts";
import { VERSION } from "../../base/version.ts";
import { generateMissing } from "../../data/open/generated.ts";
import { loadDataReader } from "../../data/open/open.ts";
import { hasColumns, hasTargets } from "../../data/open/formats.ts";
import type { RankContext } from "../../ranks/context.ts";
import { layoutRequest, refuseIdleGpus } from "../../ranks/job/layout.ts";
import type { OpenOutput } from "../../run/output.ts";
import { environmentLines } from "../../settings/environment.ts";
import { checkLayout, loadPreset, type World } from "../../settings/presets.ts";
import type { Resolved, SettingsRequest } from "../../settings/resolve.ts";
import { type Config, findSetting, readSetting } from "../../settings/settings.ts";
import { checkedDuration, UNIT_SUFFIX } from "../../settings/setting.ts";
import { formatOrigin, isTyped } from "../../settings/values.ts";
import type { Device } from "../../../ffi/tensor.ts";
import { settingsRead } from "../../settings/sections/schedule.ts";
import { refuseGpus, refuseOptimizer } from "../checks.ts";
import { loaderThreads, unusedGpus, whyNoCuda } from "../device.ts";
import { inCommon } from "../gpu.ts";
import { refuseZero } from "../gradients/zero.ts";
import type { Launch } from "../launch.ts";
import { type Near, nearMemory } from "../near_memory.ts";
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
  ...unreadSettings(resolved),
  ...withoutProfile(resolved),
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

/** Nothing where the machine has one domain. */
export function nearSentence({ domains, ofMachine, memory }: Near): string {
  if (ofMachine === 1) return "";
  if (domains.length > 1) return ` on ${formatPlural(domains.length, "NUMA domain")} of ${ofMachine}`;
  const where = ` of NUMA domain ${domains[0]} (of ${ofMachine})`;
  return memory === null
    ? `${where}, whose memory the kernel does not let it prefer`
    : `${where}, whose memory is taken first`;
}

/** Data that is made up has no files. */
const OF_FILES = ["data.stage", "data.bad_samples"];

const OF_COLUMNS = [
  ...["data.features", "data.split", "data.validate_on", "data.test_on"],
  ...["data.history", "data.lead", "data.folds", "data.fold", "data.rollout"],
];

/** Mixed precision is chosen by a GPU, and its memory is a GPU's. */
function onCpus(
  { config: { training }, origin, originText }: Resolved,
  device: "cpu" | "cuda",
): string[] {
  const idle = [
    ...(training.amp === "auto" ? ["training.amp"] : []),
    ...(training.log_gpu_memory ? ["training.log_gpu_memory"] : []),
  ].filter((path) => device === "cpu" && isTyped(origin(path)));
  return idle.length === 0
    ? []
    : [`No effect on a CPU: ${idle.map((path) => `${path} (${originText(path)})`).join(", ")}.`];
}

/** Bare flags meant other data to some who typed them. */
function unnamedData({ config: { data }, origin }: Resolved): string[] {
  const named = data.data_path !== "" || data.code !== "" || origin("data.type").kind !== "default";
  return named ? [] : [
    "No data was named, so it is made up, as the next line says: --data-path FILE trains on yours, --data-type des on simulated " +
    "universes.",
  ];
}

/** A checkpoint and a file may name every setting: a default there is no request. */
function isAsked({ config, origin }: Resolved, path: string): boolean {
  const { kind } = origin(path);
  const differs = JSON.stringify(readSetting(config, path)) !==
    JSON.stringify(findSetting(path)?.setting.default);
  return kind === "flag" || (kind !== "default" && kind !== "preset" && differs);
}

/** Lines about typed settings of other optimizers and schedulers. */
export function unreadSettings(resolved: Resolved): string[] {
  const { optimizer, scheduler } = resolved.config.training,
    read = settingsRead(optimizer.type, scheduler.type);
  return [
    ...unreadOf(resolved, "optimizer", optimizer.type, read.optimizer),
    ...unreadOf(resolved, "scheduler", scheduler.type, read.scheduler),
  ];
}

function unreadOf(
  resolved: Resolved,
  group: "optimizer" | "scheduler",
  type: string,
  reads: Readonly<Record<string, readonly string[]>>,
): string[] {
  const { origin, originText } = resolved, read = reads[type];
  const unread = [...new Set(Object.values(reads).flat())]
    .filter((name) => !read.includes(name))
    .map((name) => `training.${group}.${name}`)
    .filter((path) => isTyped(origin(path)) && isAsked(resolved, path));
  return unread.length === 0 ? [] : [
    `No effect with --${group} ${type}, which reads ${read.join(", ") || "nothing of these"}: ${
      unread.map((path) => `${path} (${originText(path)})`).join(", ")
    }.`,
  ];
}

function withoutProfile(resolved: Resolved): string[] {
  const { config: { training }, originText } = resolved, steps = "training.profile_steps";
  return training.profile_training || !isAsked(resolved, steps)
    ? []
    : [`No effect without --profile-training: ${steps} (${originText(steps)}).`];
}

function withoutEffect(resolved: Resolved): string[] {
  const { config, originText } = resolved;
  const ofFiles = config.data.data_path === "" ? OF_FILES : [];
  const ofColumns = [
    ...(hasColumns(config.data) ? [] : OF_COLUMNS),
    ...(hasTargets(config.data) ? [] : ["data.targets"]),
  ];
  const without = [...ofFiles, ...ofColumns];
  const given = without.filter((path) => isAsked(resolved, path));
  return given.length === 0 ? [] : [
    `No effect in hpctrain ${VERSION}: ${given.map((path) => `${path} (${originText(path)})`).join(", ")}.`,
  ];
}

export function unitsTaken({ config, unitless }: Pick<Resolved, "config" | "unitless">): string[] {
  return unitless.flatMap(({ path, origin }) => {
    const units = findSetting(path)?.setting.units;
    if (!units) return [];
    const { count } = checkedDuration(String(readSetting(config, path)), units[0]);
    const others = units.slice(1).map((unit) => `${count}${UNIT_SUFFIX[unit]}`);
    const instead = others.length > 0 ? ` Write ${others.join(" or ")} if that was meant.` : "";
    return `${path} ${count} (${formatOrigin(origin)}) has no unit: it is taken as ${
      formatPlural(count, units[0].slice(0, -1))
    }.${instead}`;
  });
}
