// The records of a run: console, events, lineage and the outputs that the command has registered.
import { gpuName } from "../../ffi/cuda.ts";
import { checkedDuration } from "../settings/setting.ts";
import type { Config } from "../settings/settings.ts";
import { type Console, openConsole } from "../run/console.ts";
import type { EventLog, Warn } from "../run/event_log.ts";
import { type LineageWriter, openLineage } from "../run/lineage.ts";
import type { SystemSetup } from "../run/system.ts";
import type { Output, RunFacts } from "../run/output.ts";
import { openRankTrack, openTrack } from "../run/writer/track.ts";
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { VERSION } from "../base/version.ts";
import { abandon, claim } from "./claim.ts";
import { shareSaves } from "./sharing.ts";
import { openAlerts } from "./guards/alerts.ts";
import { bestPath, latestPath, type RunPaths } from "./run_folder.ts";
import { parameterCount } from "../models/model.ts";
import { placeInEpoch } from "./batches.ts";
import { confusedClasses } from "./diagnostics.ts";
import type { Built } from "./build.ts";
import type { StateParts } from "../checkpoint/training_state.ts";
import type { Launch, Run } from "./launch.ts";

/** The run's name is claimed, and its files are opened; what fails here leaves none. `idle`: nothing is left to train. */
export function openFiles(
  launch: Launch,
  built: Built,
  { plan, cursor, parts, idle }: Pick<Run, "plan" | "cursor"> & {
    readonly parts: StateParts;
    readonly idle: boolean;
  },
) {
  const { team = null, config } = launch, first = (team?.rank ?? 0) === 0;
  const claimed = first ? claim(launch) : null;
  const paths = team?.gather(claimed, "the run's folders")[0] ?? claimed!;
  const files = orAbandon(launch, paths, () => {
    const sharing = config.output.checkpoint_format === "sharded" ? shareSaves(launch, paths, parts) : null;
    if (!first) return { paths, sharing, ...recordOfRank(launch, paths) };
    const facts = runFactsOf(launch, built, { plan, paths, cursor });
    const outputs: Output[] = idle ? [] : launch.outputs.map((open) => open(facts)).filter((o) => o !== null);
    return { paths, sharing, ...openRecord(launch, paths, cursor.step, idle, outputs) };
  });
  const id = files.outputs.find(({ id }) => id !== null)?.id ?? null;
  return { ...files, wandb: team?.gather(id, "the W&B run's id")[0] ?? id }; // each rank's part of a checkpoint has it
}

/** The new run's name is free after a failure. */
function orAbandon<T>({ resume, again, team }: Launch, paths: RunPaths, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (!resume && !again && (team?.rank ?? 0) === 0) abandon(paths);
    throw error;
  }
}

function openRecord(
  launch: Launch,
  paths: RunPaths,
  step: number,
  idle: boolean,
  outputs: readonly Output[],
) {
  const { config, resume, began } = launch, { run, logs } = paths;
  const { quiet, json, on_event: command } = config.output;
  let events: EventLog | null = null;
  const console = openConsole({
    quiet,
    json,
    onLine: (text, stream) => events?.note({ kind: "console", t: Date.now() / 1000, stream, text }),
  });
  const { warn } = console;
  const lineage = openLineage(logs, {
    run,
    began: began ?? Date.now() / 1000,
    step,
    resumedFrom: resume?.path ?? null,
    parent: resume && resume.run === null
      ? { run: resume.from ?? null, checkpoint: resume.path, step }
      : null,
    warn,
    idle,
  });
  const alerts = command === "" ? null : openAlerts({ command, run, logs, warn });
  events = openTrack(`${logs}/events.jsonl`, {
    warn,
    mirror: json ? console.event : undefined,
    observe(event, t) {
      lineage.observe(event, t);
      for (const output of outputs) output.observe?.(event, warn);
      alerts?.observe(event, t);
    },
    closed: () => alerts?.close(),
    system: systemOf(launch, logs),
    log: Deno.env.has("HPCTRAIN_LAUNCH") ? null : `${logs}/rank-0.log`, // launch keeps what its ranks print
    outputs,
  });
  return { console, lineage, events, outputs, warn: warning(console, events) };
}

function recordOfRank(launch: Launch, { logs }: RunPaths): ReturnType<typeof openRecord> {
  const console = consoleOfRank(launch.team?.rank ?? 0, logs);
  const system = systemOf(launch, logs);
  const events = system ? openRankTrack(system, console.warn) : noEvents;
  return { console, lineage: noLineage, events, outputs: [], warn: warning(console, events) };
}

function systemOf({ config, device, team }: Launch, logs: string): SystemSetup | null {
  const interval = checkedDuration(config.output.system_interval, "seconds").count;
  if (interval === 0) return null;
  const gpu = device === "cpu" ? null : gpuName(Number(device.slice("cuda:".length)));
  return { rank: team?.rank ?? 0, world: team?.world ?? 1, interval, logs, gpu };
}

function runFactsOf(
  { config, device, libtorch, resume, again, team, began }: Launch,
  { data, model, pass }: Pick<Built, "data" | "model" | "pass">,
  { plan, paths, cursor }: Pick<Run, "plan" | "cursor"> & { readonly paths: RunPaths },
): RunFacts {
  const goesOn = (resume !== null && resume.run !== null) || !!again;
  const world = team?.world ?? 1, onGpu = device !== "cpu";
  const { step, epoch } = cursor;
  const { stepInEpoch } = placeInEpoch(cursor, plan, data.train.length);
  const { count, unit } = checkedDuration(config.training.eval_interval);
  const within = unit !== "epochs" || !Number.isInteger(count);
  return {
    config: valuesWithoutSecrets(config),
    run: paths.run,
    logs: paths.logs,
    checkpoints: { best: bestPath(paths), latest: latestPath(paths) },
    resumed: goesOn ? { step, epoch } : null,
    id: goesOn ? resume?.wandb ?? null : null,
    parent: resume !== null && resume.run === null ? resume.saved as Partial<Config> | null : null,
    pace: {
      step,
      stepInEpoch,
      stepsPerEpoch: plan.stepsPerEpoch,
      maxSteps: config.training.max_steps,
      within,
    },
    facts: {
      version: VERSION,
      model: model.name,
      parameters: parameterCount(model.root),
      world_size: world,
      device: onGpu ? "cuda" : "cpu",
      libtorch: libtorch.versionText,
      train_samples: data.train.length,
      val_samples: data.val?.length ?? 0,
      steps_per_epoch: plan.stepsPerEpoch,
      global_batch_size: plan.global,
    },
    confuses: data.val !== null && confusedClasses(data.val, pass.loss) > 0,
    began: began ?? Date.now() / 1000,
    gpus: onGpu ? world : 0,
  };
}

const noEvents: EventLog = { emit() {}, note() {}, flush() {}, rewind() {}, lost: 0, close() {} };

function consoleOfRank(rank: number, logs: string): Console {
  const path = `${logs}/rank-${rank}.log`;
  const write = (text: string) => Deno.writeTextFileSync(path, text, { append: true });
  return openConsole({ quiet: true, json: false, isTerminal: false, write, writeError: write });
}

const noLineage: LineageWriter = { lines: [], observe() {}, stepped() {}, summary: () => null };

const warning =
  (console: { warn(text: string): void }, events: Pick<EventLog, "emit">): Warn => (message, step, about) => {
    console.warn(message);
    events.emit({ kind: "warning", step, message, about });
  };
