// Sends a file's lines in order, and asks the server after a failure so that nothing is sent twice.
import type { Api, ServerRun, ServerStatus, StreamBody } from "./api.ts";
import type { Contents, HistoryLine } from "./contents.ts";
import { type JsonValue, textOfJson, type Tree } from "./json_text.ts";
import { LINE_KINDS, type LineCounts, type SyncStart, type UploadState } from "./state.ts";
import type { RunRecord } from "../records.ts";

/** W&B takes some 10 MiB of lines in one request. */
export const MAX_REQUEST = 4 * 2 ** 20;

interface RunEnd {
  readonly uploaded: readonly string[];
  readonly exitCode: number;
}

export interface LineSender extends Pick<UploadProgress, "uploaded" | "rows"> {
  /** Drops the lines that the server has. Call it between reading and `send`. */
  admit(contents: Contents): void;
  send(contents: Contents, end?: RunEnd): Promise<void>;
}

const FILES = { history: "wandb-history.jsonl", events: "wandb-events.jsonl", output: "output.log" } as const;

export function openLineSender(
  api: Api,
  place: ServerRun,
  plan: UploadPlan,
  { acknowledged, name }: { acknowledged: () => void; name: string },
): LineSender {
  const progress = openUploadProgress(plan);
  const { at, pass } = progress;
  let lastSummary = "", sentPreempting = false;

  async function send(contents: Contents, end?: RunEnd): Promise<void> {
    for (;;) {
      const batch = take(contents);
      const over = isEmpty(contents);
      const summary = contents.summary.size > 0 ? textOfJson(contents.summary) : "";
      const last = end && over ? end : undefined;
      const changed = over && summary !== lastSummary ? summary : "";
      const more: More = {
        summary: changed,
        preempting: over && contents.preempting && !sentPreempting,
        end: last,
      };
      const body = bodyOf(batch, at, more);
      if (body === null) return;
      await api.stream(place, body, async () => {
        await reckon(batch);
        return bodyOf(batch, at, more);
      });
      pass(batch, {
        history: batch.history.length,
        events: batch.events.length,
        output: batch.output.length,
      });
      if (changed !== "") lastSummary = changed;
      sentPreempting ||= more.preempting;
      acknowledged();
      if (over) return;
    }
  }

  /** The server may have taken a part of the batch before it failed. */
  async function reckon(batch: LineBatch): Promise<void> {
    const status = await api.status({ entity: place.entity, project: place.project, name });
    const has = (kind: keyof LineCounts) =>
      Math.min(Math.max((status?.[kind] ?? 0) - at[kind], 0), batch[kind].length);
    pass(batch, { history: has("history"), events: has("events"), output: has("output") });
  }

  return {
    admit: progress.admit,
    send,
    rows: progress.rows,
    get uploaded() {
      return progress.uploaded;
    },
  };
}

/** Returns at least one line. */
function take(contents: Contents): LineBatch {
  let room = MAX_REQUEST;
  const from = <T>(list: T[], size: (one: T) => number): T[] => {
    let count = 0;
    for (; count < list.length && (room === MAX_REQUEST || size(list[count]) <= room); count++) {
      room -= size(list[count]);
    }
    return list.splice(0, count);
  };
  const batch = {
    history: from(contents.history.rows, ({ text }) => text.length),
    events: from(contents.events.texts, ({ length }) => length),
    output: from(contents.output.texts, ({ length }) => length),
  };
  contents.pending = isEmpty(contents) ? 0 : Math.max(0, contents.pending - (MAX_REQUEST - room));
  return batch;
}

const isEmpty = ({ history, events, output }: Contents): boolean =>
  history.rows.length + events.texts.length + output.texts.length === 0;

interface More {
  readonly summary: string;
  readonly preempting: boolean;
  readonly end: RunEnd | undefined;
}

function bodyOf(batch: LineBatch, at: LineCounts, { summary, preempting, end }: More): StreamBody | null {
  const files: NonNullable<StreamBody["files"]> = {};
  for (const kind of LINE_KINDS) {
    const content = batch[kind].map((line) => typeof line === "string" ? line : line.text);
    if (content.length > 0) files[FILES[kind]] = { offset: at[kind], content };
  }
  if (summary !== "") files["wandb-summary.json"] = { offset: 0, content: [summary] };
  const body: StreamBody = {
    ...(Object.keys(files).length > 0 ? { files } : {}),
    ...(end?.uploaded.length ? { uploaded: end.uploaded } : {}),
    ...(preempting ? { preempting } : {}),
    ...(end ? { complete: true, exitcode: end.exitCode } : {}),
  };
  return Object.keys(body).length > 0 ? body : null;
}

export interface UploadPlan {
  readonly start: SyncStart;
  /** The server expects this number for the next line of each kind. */
  readonly at: LineCounts;
  readonly skip: LineCounts & { readonly upToStep: number | null; readonly upToTime: number | null };
  /** It is null until the first request shows it. */
  readonly base: LineCounts | null;
  readonly lastStep: number | null;
  readonly continues: boolean;
}

const ZERO: LineCounts = { history: 0, events: 0, output: 0 };
const NONE = { ...ZERO, upToStep: null, upToTime: null };

/** This program keeps `known` beside the file; either program writes `start`. */
export function uploadPlanOf(
  run: RunRecord,
  status: ServerStatus | null,
  start: SyncStart | null,
  known: UploadState | null,
): UploadPlan {
  const own = start ?? { step: run.startingStep ?? 0, runtime: 0 };
  if (status === null) {
    return { start: own, at: ZERO, base: ZERO, skip: NONE, lastStep: null, continues: false };
  }
  const { history, events, output } = status;
  const at = { history, events, output };
  const lastStep = numberIn(status.lastRow, "_step");
  const continues = run.resume === true;
  if (known !== null) {
    // The server has fewer lines than before this file: the run was made anew.
    const base = {
      history: Math.min(history, known.base.history),
      events: Math.min(events, known.base.events),
      output: Math.min(output, known.base.output),
    };
    const skip = {
      ...NONE,
      history: history - base.history,
      events: events - base.events,
      output: output - base.output,
    };
    return { start: own, at, base, skip, lastStep: known.lastStep, continues };
  }
  if (start === null && continues) {
    const step = history > 0 && lastStep !== null ? lastStep + 1 : run.startingStep ?? 0;
    return {
      start: { step, runtime: runtimeOf(status) },
      at,
      base: at,
      skip: NONE,
      lastStep: null,
      continues,
    };
  }
  // Rows from before the start of this file belong to another one, and this file's rows follow them.
  const lastTime = numberIn(status.lastRow, "_timestamp");
  const others = history > 0 && lastTime !== null && lastTime < (run.startTime ?? 0);
  const begun = history > 0 && !others && (lastStep === null || lastStep >= own.step);
  const skip = {
    ...NONE,
    output: others || continues ? 0 : output,
    upToStep: begun ? lastStep : null,
    upToTime: numberIn(status.lastEvents, "_timestamp"),
  };
  return { start: own, at, base: null, skip, lastStep, continues };
}

/** Unit: milliseconds. */
function runtimeOf({ summary, lastRow, lastEvents }: ServerStatus): number {
  const inner = summary.get("_wandb");
  const known = inner instanceof Map ? numberIn(inner, "runtime") : numberIn(summary, "_runtime");
  const seconds = Math.max(
    known ?? 0,
    numberIn(lastRow, "_runtime") ?? 0,
    numberIn(lastEvents, "_runtime") ?? 0,
  );
  return Math.trunc(seconds) * 1000;
}

function numberIn(tree: Tree | null, key: string): number | null {
  const value: JsonValue | undefined = tree?.get(key);
  const number = typeof value === "string" && value !== "null" ? Number(value) : NaN;
  return Number.isFinite(number) ? number : null;
}

interface LineBatch {
  readonly history: HistoryLine[];
  readonly events: string[];
  readonly output: string[];
}

interface UploadProgress {
  readonly at: Readonly<LineCounts>;
  readonly rows: { sent: number; had: number };
  readonly uploaded: Omit<UploadState, "to" | "alerts"> | null;
  admit(contents: Contents): void;
  pass(batch: LineBatch, counts: LineCounts): void;
}

export function openUploadProgress(plan: UploadPlan): UploadProgress {
  const at: LineCounts = { ...plan.at };
  const skip = { ...plan.skip };
  let { base, lastStep } = plan;
  const rows = { sent: 0, had: 0 };
  /** The server has these lines of the file, from this upload or an earlier one. */
  const done: LineCounts = { history: 0, events: 0, output: 0 };

  return {
    at,
    rows,
    get uploaded() {
      return base && { base, sent: difference(at, base), lastStep };
    },
    admit({ history, events, output }) {
      while (history.rows.length > 0 && (skip.history > 0 || history.rows[0].step <= (skip.upToStep ?? -1))) {
        skip.history--;
        const { step } = history.rows[0];
        history.rows.shift();
        lastStep = Math.max(step, lastStep ?? step);
        rows.had++;
        done.history++;
      }
      while (
        events.texts.length > 0 && (skip.events > 0 || timeIn(events.texts[0]) <= (skip.upToTime ?? -1))
      ) {
        skip.events--;
        events.texts.shift();
        done.events++;
      }
      const had = Math.min(Math.max(skip.output, 0), output.texts.length);
      output.texts.splice(0, had);
      skip.output -= had;
      done.output += had;
      // Once each kind has a line that the server lacks, the position of the file there is known.
      if (base === null && history.rows.length > 0 && (events.texts.length > 0 || skip.upToTime === null)) {
        base = difference(at, done);
      }
    },
    pass(batch, counts) {
      for (const kind of LINE_KINDS) {
        const passed = batch[kind].splice(0, counts[kind]);
        at[kind] += passed.length;
        done[kind] += passed.length;
        if (kind !== "history") continue;
        rows.sent += passed.length;
        lastStep = (passed.at(-1) as HistoryLine | undefined)?.step ?? lastStep;
      }
    },
  };
}

const difference = (a: LineCounts, b: LineCounts): LineCounts => ({
  history: a.history - b.history,
  events: a.events - b.events,
  output: a.output - b.output,
});

function timeIn(line: string): number {
  const found = /"_timestamp":([^,}]+)/.exec(line);
  return found ? Number(found[1]) : Infinity;
}
