// Writes a run's .wandb file from its events, in the writing thread.
import { dirname, join } from "../../../deps/path.ts";
import { EXIT } from "../../base/errors.ts";
import { pathExists } from "../../base/files.ts";
import { VERSION } from "../../base/version.ts";
import type { Event, HistogramsNote, Note } from "../../run/events.ts";
import type { Sink } from "../../run/output.ts";
import { type KeptRecords, readUploaded, rewrite } from "./resume.ts";
import { continueWandbFile, createWandbFile, type WandbFile } from "./file.ts";
import { writeConfusion } from "./confusion.ts";
import { link, METADATA, writeMetadata, writePictures } from "./media.ts";
import { jsonOf, recordItems, type RunRecord, type WandbRecord } from "./records.ts";
import { fillIn, type HistoryRow, type HistoryRows, openHistoryRows, type RowValues } from "../rows.ts";
import { openWandbSummary, rankItems, systemItems, type WandbSummary } from "./rows.ts";
import type { WandbSetup } from "./types.ts";

const SUMMARY_S = 1;

export function openWandbRun(setup: WandbSetup): Required<Sink> {
  const folder = join(dirname(setup.path), "files");
  let state = begin(setup, folder, put);
  if (setup.again) {
    fillIn(state.rows, setup.again, setup.events);
    state.rows.restart();
  }
  const linked = new Set<string>();
  let summaryAt = -Infinity, warnings = 0, rewinds = 0;
  let end: Ended | null = null;
  let begun = setup.again !== null; // a start that fails before its first step leaves nothing

  function put(row: HistoryRow): void {
    const items = [...row.values].map(([name, json]) => ({ key: [name], json }));
    state.file.append({ kind: "history", items });
    state.summary.seen(row);
  }
  /** Returns true after a change. */
  const writeSummary = (all = false): boolean => {
    const update = state.summary.changed(all);
    if (update.length > 0) state.file.append({ kind: "summary", update });
    return update.length > 0;
  };
  const linkFiles = () => {
    const now = setup.files.map((file) => link(folder, file)).filter((name) => name !== null);
    const fresh = now.filter((name) => !linked.has(name));
    for (const name of fresh) linked.add(name);
    if (fresh.length > 0) {
      state.file.append({ kind: "files", files: fresh.map((path) => ({ path, policy: "end" })) });
    }
  };
  /** Somebody may remove the folder; the run continues in a new file. */
  const lookAfter = () => {
    if (!state.file.gone) return;
    state.file.close();
    const file = createWandbFile(setup.path);
    for (const record of headOf(setup)(null)) file.append(record);
    linked.clear();
    state = { ...state, file };
  };
  const output = (stream: "stdout" | "stderr", t: number, line: string) =>
    state.file.append({ kind: "output", stream, t, text: `${line}\n` });
  const finish = ({ code, t }: Ended) => {
    linkFiles();
    const runtime = state.rows.runtime(t);
    state.summary.set("_wandb", jsonOf({ runtime: Math.floor(runtime) }));
    writeSummary(true);
    // W&B shows such a run as preempted, not as failed.
    if (code === EXIT.stopped) state.file.append({ kind: "preempting" });
    state.file.append({ kind: "exit", code, runtime });
  };

  return {
    write(event: Event) {
      begun ||= BEGINS.has(event.kind);
      switch (event.kind) {
        case "step":
        case "times":
        case "eval":
        case "epoch":
          state.rows.event(event);
          if (event.kind === "epoch") lookAfter();
          else if (event.t - summaryAt < SUMMARY_S && event.t >= summaryAt) return;
          // The first summary comes with the first row, even after times without a step.
          if (writeSummary()) summaryAt = event.t;
          return;
        case "system":
          return state.file.append({ kind: "stats", t: event.t, items: systemItems(event) });
        case "ranks":
          return state.file.append({ kind: "stats", t: event.t, items: rankItems(event) });
        case "save":
          return linkFiles();
        case "warning":
          return state.summary.set("warnings", String(++warnings));
        case "rewind":
          return state.summary.set("rewinds", String(++rewinds));
        case "exit":
          end = event; // the run's last lines follow, and belong before it
          lookAfter();
          state.rows.flush();
          if (!isFailure(event.code)) return;
          return output("stderr", event.t, `hpctrain: ${event.message}`);
      }
    },
    note(note: Note) {
      switch (note.kind) {
        case "console":
          return output(note.stream, note.t, note.text);
        case "histograms":
          return state.rows.add(note.step, note.t, histograms(note));
        case "confusion": {
          const { file, name, json } = writeConfusion(folder, note);
          state.file.append({ kind: "files", files: [{ path: file, type: "media" }] });
          return state.rows.add(note.step, note.t, new Map([[name, json]]));
        }
        case "pictures": {
          const { files, json } = writePictures(folder, note);
          state.file.append({ kind: "files", files: files.map((path) => ({ path, type: "media" })) });
          return state.rows.add(note.step, note.t, new Map([[note.name, json]]));
        }
      }
    },
    close(exitCode) {
      try {
        state.rows.flush();
        if (exitCode !== undefined) end ??= { code: exitCode, t: Date.now() / 1000 };
        if (end === null) writeSummary();
        else finish(end);
      } finally {
        state.file.close();
        if (!begun && end !== null && isFailure(end.code)) {
          Deno.removeSync(dirname(setup.path), { recursive: true });
        }
      }
    },
  };
}

/** The writing thread imports this name. */
export { openWandbRun as openSink };

/** After one of these events the run is worth keeping. */
const BEGINS: ReadonlySet<Event["kind"]> = new Set(["step", "eval", "epoch", "save"]);

const isFailure = (code: number): boolean => code !== EXIT.done && code !== EXIT.stopped;

interface Ended {
  readonly code: number;
  readonly t: number;
}

interface State {
  readonly file: WandbFile;
  readonly rows: HistoryRows;
  readonly summary: WandbSummary;
}

function begin(setup: WandbSetup, folder: string, put: (row: HistoryRow) => void): State {
  const { again } = setup;
  Deno.mkdirSync(folder, { recursive: true });
  writeMetadata(folder, setup.environment);
  const summary = openWandbSummary();
  const uploaded = readUploaded(setup, summary.seen);
  let kept: KeptRecords = { ...uploaded, held: null, file: null };
  const head = headOf(setup);
  if (again && pathExists(setup.path)) {
    kept = rewrite(setup, again, head, summary.seen);
  }
  const file = kept.file
    ? continueWandbFile(setup.path, kept.file.end, kept.file.count)
    : createWandbFile(setup.path);
  if (!kept.file) { for (const record of head(null)) file.append(record); }
  const update = summary.changed();
  if (update.length > 0) file.append({ kind: "summary", update });
  const rows = openHistoryRows({
    put,
    pace: setup.pace,
    after: uploaded.step,
    last: Math.max(uploaded.step, kept.step),
    held: kept.held,
    runtime: Math.max(uploaded.runtime, kept.runtime),
    began: setup.run.startTime ?? Date.now() / 1000,
  });
  return { file, rows, summary };
}

/** `before` is the run record that began the file until now. */
const headOf = (setup: WandbSetup) => (before: RunRecord | null): WandbRecord[] => [
  { kind: "header", producer: `hpctrain ${VERSION}`, minConsumer: MIN_CONSUMER },
  {
    ...setup.run,
    kind: "run",
    config: recordItems(setup.config),
    startTime: before?.startTime ?? setup.run.startTime,
    resume: before?.resume ?? setup.run.resume,
    git: setup.environment.git,
  },
  { kind: "telemetry", python: setup.environment.python, cli: `hpctrain ${VERSION}` },
  { kind: "files", files: [{ path: METADATA, type: "wandb" }] },
];

/** W&B's own writers name this version. */
const MIN_CONSUMER = "0.70.0";

function histograms({ of }: HistogramsNote): RowValues {
  return new Map(
    Object.entries(of).map((
      [name, { values, bins }],
    ) => [name, jsonOf({ _type: "histogram", values, bins })]),
  );
}
