// Sends a file's lines in order, in pieces that a server takes; after a failure it asks what has come through, so that nothing is
// sent twice. May import api, contents, json_text, plan, progress.
import type { Api, Place, StreamBody } from "./api.ts";
import type { Contents } from "./contents.ts";
import { textOfJson } from "./json_text.ts";
import type { Plan } from "./plan.ts";
import { type Batch, KINDS, openProgress, type Progress } from "./progress.ts";
import type { Counts } from "./state.ts";

/** Of lines in one request; W&B takes some 10 MiB. */
export const MAX_REQUEST = 4 * 2 ** 20;

export interface End {
  readonly uploaded: readonly string[];
  readonly exitCode: number;
}

export interface Sending extends Pick<Progress, "uploaded" | "rows"> {
  /** Leaves out what the server has. Called after each reading, before `send`. */
  admit(contents: Contents): void;
  /** Sends all that waits; with `end` also that the run is over. */
  send(contents: Contents, end?: End): Promise<void>;
}

const FILES = { history: "wandb-history.jsonl", events: "wandb-events.jsonl", output: "output.log" } as const;

export function openSending(
  api: Api,
  place: Place,
  plan: Plan,
  { acknowledged, name }: { acknowledged: () => void; name: string },
): Sending {
  const progress = openProgress(plan);
  const { at, pass } = progress;
  let lastSummary = "", toldPreempting = false;

  async function send(contents: Contents, end?: End): Promise<void> {
    for (;;) {
      const batch = take(contents);
      const over = isEmpty(contents);
      const summary = contents.summary.size > 0 ? textOfJson(contents.summary) : "";
      const last = end && over ? end : undefined;
      const told = over && summary !== lastSummary ? summary : "";
      const more: More = {
        summary: told,
        preempting: over && contents.preempting && !toldPreempting,
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
      if (told !== "") lastSummary = told;
      toldPreempting ||= more.preempting;
      acknowledged();
      if (over) return;
    }
  }

  /** The server may have got some of it before it failed. */
  async function reckon(batch: Batch): Promise<void> {
    const status = await api.status({ entity: place.entity, project: place.project, name });
    const has = (kind: keyof Counts) =>
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

/** The first lines of each kind, as many as go into one request; one line always does. */
function take(contents: Contents): Batch {
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
  readonly end: End | undefined;
}

/** Null where there is nothing to say. */
function bodyOf(batch: Batch, at: Counts, { summary, preempting, end }: More): StreamBody | null {
  const files: NonNullable<StreamBody["files"]> = {};
  for (const kind of KINDS) {
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
