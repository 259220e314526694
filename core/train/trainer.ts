// A run that is opened: an opener for each part of it, in order. All refusals of settings come before the run's files.
import { wantsOf } from "../run/output.ts";
import { batchesInAll, isUnfinished } from "./batches.ts";
import { openChangeGradients } from "./clipping.ts";
import { keepsRefusals, modeOfRun, openRefusals } from "./compiled_choice.ts";
import { type Reports, stepCompiler } from "./compiler.ts";
import { dataFacts } from "./data_facts.ts";
import { openMemory } from "./device.ts";
import { openConfusion } from "./diagnostics.ts";
import { openRunFeed } from "./feed.ts";
import { openDiagnostics } from "./held_diagnostics.ts";
import { buffersOf, openGradients, openWeightUpdate } from "./weight_update.ts";
import { openGuard } from "./guards/spikes.ts";
import { openInstruments } from "./throughput.ts";
import type { Launch } from "./launch.ts";
import { openHistograms, openPictures } from "./media.ts";
import { monitorNotes, refuseMetrics, refuseMonitor } from "./monitor.ts";
import { pausesIn } from "./pauses.ts";
import { openProfile } from "./profile.ts";
import { noSaver, openRankGroup } from "./rank_group.ts";
import { openFiles } from "./record.ts";
import { openSaver } from "./save.ts";
import { notesOf, openModel, openStart } from "./setup/model.ts";
import { refuseCourse, refuseUnknownWeights, remediesOf } from "./checks.ts";
import { openRequests } from "./stop.ts";
import { openThaw } from "./trained_parameters.ts";

export type Trainer = Awaited<ReturnType<typeof openTrainer>>;

/** The last losses of this attempt, which the end of the run names. */
interface Losses {
  step?: { step: number; loss: number };
  epoch?: { epoch: number; loss: number };
}

export async function openTrainer(given: Launch) {
  const { device, team = null, control = null } = given, first = (team?.rank ?? 0) === 0;
  let files: ReturnType<typeof openFiles> | null = null;
  const reports: Reports = { // nobody has a console before there are files
    line(message) {
      files?.console.line(message);
      files?.events.emit({ kind: "compiled", step: start.cursor.step, message });
    },
    warn: (message) => files?.warn(message, start.cursor.step + 1),
  };
  const model = openModel(given), { launch, config, plan, data, pass } = model, { training } = config;
  refuseUnknownWeights(launch);
  refuseMetrics(model);
  refuseMonitor(config, model);
  const mode = modeOfRun(training, pass.onGpu, batchesInAll(training, plan));
  const compiler = mode && await stepCompiler();
  const update = openWeightUpdate(launch, model, reports, compiler, mode), { zero, parts } = update;
  refuseCourse(model.schedule, config, {
    evaluates: data.val !== null,
    moving: update.optimizer.move !== undefined,
  });
  const notes = notesOf(model, zero), start = openStart(model, update), { cursor } = start;
  const feed = openRunFeed(launch, model, plan), instruments = openInstruments(launch, model, feed, cursor);
  const refusals = openRefusals(cursor, team, keepsRefusals(training, mode));
  const gradients = openGradients(launch, model, update, instruments.account, reports, refusals.own);
  const idle = !isUnfinished(training, cursor); // starting a finished run again is no attempt at it

  const record = files = openFiles(launch, model, { plan, cursor, parts, idle });
  const { paths, sharing, console, events, outputs } = record, { logs } = paths, wants = wantsOf(outputs);
  const losses: Losses = {};
  const requests = openRequests(first ? logs : null, console.warn, {
    signals: config.cluster.stop_signals,
    busy: pausesIn(plan, gradients.shards) > 0,
  });
  const saver = first || sharing
    ? openSaver({ ...model, ...record, cursor, parts, facts: dataFacts(model, config), gather: zero?.gather })
    : noSaver(zero?.gather);
  const diagnose = first && !idle ? openDiagnostics(data.val, config.data, logs) : null;
  return {
    ...{ ...model, ...update, ...instruments, ...record },
    ...{ cursor, feed, gradients, requests, saver, losses },
    notes: [...notes, ...start.notes, ...monitorNotes(config, cursor)],
    clipNorm: training.clip_norm,
    changeGradients: openChangeGradients({
      ...{ config, model: model.model, arena: model.arena, optimizer: update.optimizer },
      ...{ updated: gradients.updated, places: zero?.owned.places ?? null },
    }),
    guard: openGuard({
      on: training.on_spike,
      zscore: training.spike_zscore,
      window: training.spike_window,
      mostSkipped: training.max_skipped_steps,
      remedies: remediesOf(training),
    }),
    goBack: () => start.goBack(paths),
    /** Null where no parameter waits for an epoch of its own. */
    thaw: openThaw(model, update.optimizer),
    /** Puts into the cursor what it has to know of compiled steps. Every rank calls it before a save. */
    keepRefusals: refusals.keep,
    /** Null where this rank is alone. */
    ranks: team && control && openRankGroup(team, control, buffersOf(model.model), model.arena.flat),
    profile: openProfile(launch, instruments.account, logs, console),
    // A rank that updates a part of the weights has no whole gradients.
    inspect: wants.histograms === 0
      ? null
      : openHistograms(wants.histograms, model.arena, zero === null, events.note),
    pictures: openPictures(data.val, wants.pictures, events.note),
    confusion: openConfusion(data.val, pass.loss, wants.confusion, events.note),
    diagnose,
    /** Resident bytes on a CPU, allocated ones on a GPU. */
    memory: openMemory(device),
    /** The events of a save come before the log's end, and signals are heeded to the last. */
    async close(): Promise<void> {
      await saver.close();
      diagnose?.close(); // a save no longer copies the weights
      feed.close();
      await events.close();
      console.close();
      requests.close();
    },
  };
}
