// Writes a run's .wandb file from its events, in the writing thread.
import { dirname, join } from "../../../deps/path.ts";
import { EXIT } from "../../base/errors.ts";
import { pathExists } from "../../base/files.ts";
import { VERSION } from "../../base/version.ts";
import type {
  ConfusionNote,
  Event,
  HistogramsNote,
  Note,
  PicturesNote,
  RanksEvent,
  SystemEvent,
} from "../../run/events.ts";
import type { Sink } from "../../run/output.ts";
import {
  continueWandbFile,
  createWandbFile,
  type KeptRecords,
  readUploaded,
  rewrite,
  type WandbFile,
} from "./file.ts";
import { link, METADATA, writeConfusion, writeMetadata, writePictures } from "./media.ts";
import {
  type HistoryItem,
  jsonOf,
  recordItems,
  type RunRecord,
  type WandbRecord,
  type WandbSetup,
} from "./records.ts";
import {
  fillIn,
  type HistoryRow,
  type HistoryRows,
  openHistoryRows,
  type RowValues,
  shortNumber,
} from "../rows.ts";
import { isBetter, LOSS, type Monitor } from "../../run/best.ts";
import { TIME_PARTS } from "../../run/account.ts";
import { eachSystemScalar } from "../scalars.ts";

const SUMMARY_S = 1;

export class WandbRun implements Required<Sink> {
  readonly #setup: WandbSetup;
  /** Pictures and links to other files are in it. */
  readonly #folder: string;
  #file: WandbFile;
  readonly #rows: HistoryRows;
  readonly #summary: WandbSummary;
  readonly #linked = new Set<string>();
  #summaryAt = -Infinity;
  #warnings = 0;
  #rewinds = 0;
  #end: Ended | null = null;
  /** A start that fails before its first step leaves nothing. */
  #begun: boolean;

  constructor(setup: WandbSetup) {
    this.#setup = setup;
    this.#folder = join(dirname(setup.path), "files");
    this.#begun = setup.again !== null;
    const { file, rows, summary } = begin(setup, this.#folder, (row) => this.#put(row));
    this.#file = file;
    this.#rows = rows;
    this.#summary = summary;
    if (setup.again) {
      fillIn(rows, setup.again, setup.events);
      rows.restart();
    }
  }

  write(event: Event): void {
    this.#begun ||= BEGINS.has(event.kind);
    switch (event.kind) {
      case "step":
      case "times":
      case "eval":
      case "epoch":
        return this.#scalars(event);
      case "system":
        return this.#file.append({ kind: "stats", t: event.t, items: systemItems(event) });
      case "ranks":
        return this.#file.append({ kind: "stats", t: event.t, items: rankItems(event) });
      case "save":
        return this.#linkFiles();
      case "warning":
        return this.#summary.set("warnings", String(++this.#warnings));
      case "rewind":
        return this.#summary.set("rewinds", String(++this.#rewinds));
      case "exit":
        this.#end = event; // the run's last lines follow, and belong before it
        this.#poll();
        this.#rows.flush();
        if (isFailure(event.code)) this.#output("stderr", event.t, `hpctrain: ${event.message}`);
    }
  }

  note(note: Note): void {
    switch (note.kind) {
      case "console":
        return this.#output(note.stream, note.t, note.text);
      case "histograms":
        return this.#rows.add(note.step, note.t, histograms(note));
      case "confusion": {
        const { file, name, json } = writeConfusion(this.#folder, note);
        return this.#media(note, [file], name, json);
      }
      case "pictures": {
        const { files, json } = writePictures(this.#folder, note);
        return this.#media(note, files, note.name, json);
      }
    }
  }

  close(exitCode?: number): void {
    try {
      this.#rows.flush();
      if (exitCode !== undefined) this.#end ??= { code: exitCode, t: Date.now() / 1000 };
      if (this.#end === null) this.#writeSummary();
      else this.#finish(this.#end);
    } finally {
      this.#file.close();
      if (!this.#begun && this.#end !== null && isFailure(this.#end.code)) {
        Deno.removeSync(dirname(this.#setup.path), { recursive: true });
      }
    }
  }

  /** `rows` calls it with each row that is whole. */
  #put(row: HistoryRow): void {
    const items = [...row.values].map(([name, json]) => ({ key: [name], json }));
    this.#file.append({ kind: "history", items });
    this.#summary.seen(row);
  }

  #scalars(event: Event): void {
    this.#rows.event(event);
    if (event.kind === "epoch") this.#poll();
    else if (event.t - this.#summaryAt < SUMMARY_S && event.t >= this.#summaryAt) return;
    // The first summary comes with the first row, even after times without a step.
    if (this.#writeSummary()) this.#summaryAt = event.t;
  }

  /** Returns true after a change. */
  #writeSummary(all = false): boolean {
    const update = this.#summary.changed(all);
    if (update.length > 0) this.#file.append({ kind: "summary", update });
    return update.length > 0;
  }

  #output(stream: "stdout" | "stderr", t: number, line: string): void {
    this.#file.append({ kind: "output", stream, t, text: `${line}\n` });
  }

  #media(
    { step, t }: ConfusionNote | PicturesNote,
    files: readonly string[],
    name: string,
    json: string,
  ): void {
    this.#file.append({ kind: "files", files: files.map((path) => ({ path, type: "media" })) });
    this.#rows.add(step, t, new Map([[name, json]]));
  }

  #linkFiles(): void {
    const now = this.#setup.files.map((file) => link(this.#folder, file)).filter((name) => name !== null);
    const fresh = now.filter((name) => !this.#linked.has(name));
    for (const name of fresh) this.#linked.add(name);
    if (fresh.length > 0) {
      this.#file.append({ kind: "files", files: fresh.map((path) => ({ path, policy: "end" })) });
    }
  }

  /** Somebody may remove the folder; the run continues in a new file. */
  #poll(): void {
    if (!this.#file.gone) return;
    this.#file.close();
    const file = createWandbFile(this.#setup.path);
    for (const record of headOf(this.#setup)(null)) file.append(record);
    this.#linked.clear();
    this.#file = file;
  }

  #finish({ code, t }: Ended): void {
    this.#linkFiles();
    const runtime = this.#rows.runtime(t);
    this.#summary.set("_wandb", jsonOf({ runtime: Math.floor(runtime) }));
    this.#writeSummary(true);
    // W&B shows such a run as preempted, not as failed.
    if (code === EXIT.stopped) this.#file.append({ kind: "preempting" });
    this.#file.append({ kind: "exit", code, runtime });
  }
}

/** The writing thread imports this name. */
export const openSink = (setup: unknown): Sink => new WandbRun(setup as WandbSetup);

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
  const summary = openWandbSummary(setup.monitor);
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

// W&B's summary of a run, and its rows of system metrics.

interface WandbSummary {
  seen(row: HistoryRow): void;
  set(name: string, json: string): void;
  changed(all?: boolean): HistoryItem[];
}

export function openWandbSummary(monitor: Monitor = { name: LOSS, mode: "min" }): WandbSummary {
  const values: RowValues = new Map();
  let touched = new Set<string>();
  const field = monitor.name === LOSS ? "val/loss" : `val/${monitor.name}`;
  let best: number | null = null;
  const set = (name: string, json: string) => {
    if (values.get(name) === json) return;
    values.set(name, json);
    touched.add(name);
  };
  return {
    set,
    seen({ step, values: row }) {
      for (const [name, json] of row) if (!json.startsWith('{"_type":"histogram"')) set(name, json);
      const value = Number(row.get(field) ?? NaN);
      if (!isBetter(monitor.mode, value, best)) return;
      best = value;
      if (monitor.name !== LOSS) set("best/monitor", JSON.stringify(monitor.name));
      set("best/step", String(step));
      set("best/epoch", row.get("epoch") ?? "null");
      for (const [name, json] of row) {
        if (name.startsWith("val/") && name !== "val/seconds") set(`best/${name.slice(4)}`, json);
      }
    },
    changed(all = false) {
      const names = all ? [...values.keys()] : [...touched];
      touched = new Set();
      return names.map((name) => ({ key: [name], json: values.get(name) ?? "null" }));
    },
  };
}

function systemItems(event: SystemEvent): HistoryItem[] {
  const items: HistoryItem[] = [];
  eachSystemScalar(event, (name, value) => items.push({ key: [name], json: shortNumber(value) }));
  return items;
}

function rankItems(event: RanksEvent): HistoryItem[] {
  return TIME_PARTS.flatMap((part) =>
    (event[`${part}_s`] ?? []).map((s, rank) => ({
      key: [`rank.${rank}.${part}_ms`],
      json: shortNumber(1000 * s / event.steps),
    }))
  );
}
