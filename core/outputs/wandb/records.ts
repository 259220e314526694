import type { Monitor } from "../../run/best.ts";
import {
  messageField,
  messageFields,
  numberField,
  type ProtoFields,
  ProtoWriter,
  readProto,
  textField,
  textFields,
} from "../proto.ts";
import type { EpochPosition } from "../../run/output.ts";

/** The value is JSON text, which may be NaN or a 64-bit integer. */
export interface HistoryItem {
  /** One name, or a path into an object. */
  readonly key: readonly string[];
  readonly json: string;
}

export interface RunRecord {
  readonly kind: "run";
  readonly id: string;
  readonly entity?: string;
  readonly project?: string;
  readonly config?: readonly HistoryItem[];
  readonly group?: string;
  readonly jobType?: string;
  readonly name?: string;
  readonly notes?: string;
  readonly tags?: readonly string[];
  readonly host?: string;
  readonly startingStep?: number;
  /** Unix seconds. */
  readonly startTime?: number;
  /** The run took these seconds before this file. */
  readonly runtime?: number;
  readonly git?: { readonly remote?: string; readonly commit?: string };
  /** The file continues the run of this id at the server. */
  readonly resume?: boolean;
  readonly resumed?: boolean;
  /** Only W&B's own program writes it, to rewind or to fork. */
  readonly branch?: { readonly run: string; readonly value: number; readonly metric: string };
}

export interface FileItem {
  readonly path: string;
  readonly policy?: "now" | "end" | "live";
  readonly type?: "other" | "wandb" | "media" | "artifact";
}

interface EnvironmentRecord {
  readonly kind: "environment";
  readonly os?: string;
  readonly python?: string;
  readonly startedAt?: number;
  readonly args?: readonly string[];
  readonly program?: string;
  readonly git?: { readonly remote?: string; readonly commit?: string };
  readonly root?: string;
  readonly host?: string;
  readonly user?: string;
  readonly executable?: string;
  readonly cores?: number;
  readonly threads?: number;
  readonly gpu?: string;
  readonly gpus?: number;
  readonly memoryBytes?: number;
  readonly slurm?: Readonly<Record<string, string>>;
}

export type WandbRecord =
  | { readonly kind: "header"; readonly producer: string; readonly minConsumer: string }
  | RunRecord
  | { readonly kind: "history"; readonly items: readonly HistoryItem[]; readonly step?: number }
  | {
    readonly kind: "summary" | "config";
    readonly update: readonly HistoryItem[];
    readonly remove?: readonly HistoryItem[];
  }
  | { readonly kind: "files"; readonly files: readonly FileItem[] }
  | { readonly kind: "stats"; readonly t: number; readonly items: readonly HistoryItem[] }
  | {
    readonly kind: "output";
    readonly stream: "stdout" | "stderr";
    readonly t: number;
    readonly text: string;
  }
  | EnvironmentRecord
  | {
    readonly kind: "telemetry";
    readonly python?: string;
    readonly cli?: string;
    readonly platform?: string;
  }
  | { readonly kind: "alert"; readonly title: string; readonly text: string; readonly level: string }
  | { readonly kind: "preempting" }
  | { readonly kind: "exit"; readonly code: number; readonly runtime: number }
  /** Nothing here needs this record; its field has the number. */
  | { readonly kind: "other"; readonly field: number };

export interface WandbSetup {
  /** .../offline-run-TIME-ID/run-ID.wandb; the file exists where `again` is set. */
  readonly path: string;
  readonly run: Omit<RunRecord, "kind" | "config">;
  readonly config: Readonly<Record<string, unknown>>;
  /** The summary's best evaluation is by it; absent: by the validation loss. */
  readonly monitor?: Monitor;
  readonly environment: {
    readonly python: string;
    readonly git?: RunRecord["git"];
    readonly [fact: string]: unknown;
  };
  readonly again: ResumedRun | null;
  /** The run's events.jsonl restores rows that a kill has taken. */
  readonly events: string;
  /** The server has rows up to this step, so they are neither dropped nor rewritten; -1 for none. */
  readonly after: number;
  readonly uploaded: readonly string[];
  readonly pace: EpochPosition;
  readonly files: readonly { readonly name: string; readonly source: string }[];
}

export interface ResumedRun {
  /** Rows beyond the done step and epochs are dropped. */
  readonly step: number;
  readonly epoch: number;
}

const FIELD = {
  num: 1,
  history: 2,
  summary: 3,
  config: 5,
  files: 6,
  stats: 7,
  alert: 10,
  telemetry: 11,
  output: 13,
  run: 17,
  exit: 18,
  header: 21,
  preempting: 23,
  environment: 26,
} as const;
const NOT_KINDS = [FIELD.num, 16, 19, 200];

/** W&B writes NaN and infinities as bare words. */
export function jsonOf(value: unknown): string {
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value === null || value === undefined || typeof value === "function") return "null";
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const parts = Object.entries(value).filter(([, v]) => v !== undefined);
  return `{${parts.map(([k, v]) => `${JSON.stringify(k)}:${jsonOf(v)}`).join(",")}}`;
}

export function recordItems(values: Readonly<Record<string, unknown>>): HistoryItem[] {
  const items: HistoryItem[] = [];
  for (const key in values) {
    if (values[key] !== undefined) items.push({ key: [key], json: jsonOf(values[key]) });
  }
  return items;
}

/** A codec both writes and reads a field. */
interface FieldCodec {
  // deno-lint-ignore no-explicit-any
  write(to: ProtoWriter, field: number, value: any): void;
  read(body: ProtoFields, field: number): unknown;
}

const EMPTY: ProtoFields = new Map();

const text: FieldCodec = { write: (to, field, value) => to.text(field, value), read: textField };
const texts: FieldCodec = {
  write: (to, field, values = []) => {
    for (const value of values) to.text(field, value);
  },
  read: textFields,
};
const int: FieldCodec = {
  write: (to, field, value = 0) => to.int(field, Math.floor(value)),
  read: numberField,
};
const flag: FieldCodec = {
  write: (to, field, value = false) => to.int(field, value),
  read: (body, field) => numberField(body, field) !== 0,
};
/** Seconds and nanoseconds; `missing` replaces absent ones. */
const time = (missing?: number): FieldCodec => ({
  write(to, field, t) {
    if (t === undefined) return;
    const seconds = Math.floor(t);
    to.message(field, () => {
      to.int(1, seconds);
      to.int(2, Math.round((t - seconds) * 1e9));
    });
  },
  read(body, field) {
    const found = messageField(body, field);
    return found ? numberField(found, 1) + numberField(found, 2) / 1e9 : missing;
  },
});
const oneOf = (names: readonly string[], usual: string): FieldCodec => ({
  write: (to, field, name = usual) => to.int(field, names.indexOf(name)),
  read: (body, field) => names[numberField(body, field)] ?? usual,
});
/** Newer programs write typed values into the fields 3 to 8; all versions write `value_json`. */
const items: FieldCodec = {
  write(to, field, list = []) {
    for (const { key, json } of list) {
      to.message(field, () => {
        // Programs of 2024 know only the plain name.
        if (key.length === 1) to.text(1, key[0]);
        else for (const part of key) to.text(2, part);
        to.text(16, json);
      });
    }
  },
  read: (body, field) =>
    messageFields(body, field).map((item): HistoryItem => {
      const nested = textFields(item, 2);
      return { key: nested.length > 0 ? nested : [textField(item, 1)], json: readValue(item) };
    }),
};
/** `optional` leaves out the nested message with an undefined value. */
const inside = (inner: number, codec: FieldCodec, optional = false): FieldCodec => ({
  write(to, field, value) {
    if (!optional || value !== undefined) to.message(field, () => codec.write(to, inner, value));
  },
  read(body, field) {
    const found = messageField(body, field);
    return optional && !found ? undefined : codec.read(found ?? EMPTY, inner);
  },
});
const message = (fields: Fields): FieldCodec => ({
  write(to, field, value) {
    if (value !== undefined) to.message(field, () => writeFields(to, fields, value));
  },
  read(body, field) {
    const found = messageField(body, field);
    return found ? readFields(found, fields) : undefined;
  },
});
const messages = (fields: Fields): FieldCodec => ({
  write(to, field, values) {
    for (const value of values) to.message(field, () => writeFields(to, fields, value));
  },
  read: (body, field) => messageFields(body, field).map((one) => readFields(one, fields)),
});
const textMap: FieldCodec = {
  write(to, field, map = {}) {
    for (const entry of Object.entries(map)) {
      to.message(field, () => entry.forEach((part, i) => to.text(i + 1, part as string)));
    }
  },
  read: (body, field) =>
    Object.fromEntries(messageFields(body, field).map((entry) => [textField(entry, 1), textField(entry, 2)])),
};
const readOnly = (codec: FieldCodec): FieldCodec => ({ ...codec, write() {} });

type Fields = Readonly<Record<string, readonly [field: number, codec: FieldCodec]>>;

const GIT: Fields = { remote: [1, text], commit: [2, text] };
const CHANGE: Fields = { update: [1, items], remove: [2, items] };

type Known = Exclude<WandbRecord["kind"], "other">;

const RECORDS: Readonly<Record<Known, Fields>> = {
  header: { producer: [1, text], minConsumer: [2, text] },
  run: {
    id: [1, text],
    entity: [2, text],
    project: [3, text],
    config: [4, inside(1, items)],
    group: [6, text],
    jobType: [7, text],
    name: [8, text],
    notes: [9, text],
    tags: [10, texts],
    host: [13, text],
    startingStep: [14, int],
    startTime: [17, time()],
    resumed: [18, flag],
    runtime: [20, int],
    git: [21, message(GIT)],
    branch: [23, message({ run: [1, text], value: [2, int], metric: [3, text] })],
    resume: [24, flag],
  },
  // All programs look for the step in `_step`, so its field is not written.
  history: { items: [1, items], step: [2, readOnly(inside(1, int))] },
  summary: CHANGE,
  config: CHANGE,
  files: {
    files: [
      1,
      messages({
        path: [1, text],
        policy: [2, oneOf(["now", "end", "live"], "now")],
        type: [3, oneOf(["other", "wandb", "media", "artifact"], "other")],
      }),
    ],
  },
  stats: { t: [2, time(0)], items: [3, items] },
  output: { stream: [1, oneOf(["stderr", "stdout"], "stdout")], t: [2, time(0)], text: [3, text] },
  environment: {
    os: [1, text],
    python: [2, text],
    startedAt: [3, time()],
    args: [5, texts],
    program: [6, text],
    git: [9, message(GIT)],
    root: [11, text],
    host: [12, text],
    user: [13, text],
    executable: [14, text],
    cores: [16, int],
    threads: [17, int],
    gpu: [18, text],
    gpus: [19, int],
    memoryBytes: [21, inside(1, int, true)],
    slurm: [27, textMap],
  },
  telemetry: { python: [4, text], cli: [5, text], platform: [13, text] },
  alert: { title: [1, text], text: [2, text], level: [3, text] },
  preempting: {},
  exit: { code: [1, int], runtime: [2, int] },
};
const KINDS = Object.keys(RECORDS) as Known[];

function writeFields(to: ProtoWriter, fields: Fields, values: Readonly<Record<string, unknown>>): void {
  for (const name in fields) {
    const [field, codec] = fields[name];
    codec.write(to, field, values[name]);
  }
}

const readFields = (body: ProtoFields, fields: Fields): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([name, [field, codec]]) => [name, codec.read(body, field)]));

const out = new ProtoWriter();

/** `num` counts the records of the file from 1. The next call reuses the bytes. */
export function encodeRecord(record: WandbRecord, num: number): Uint8Array {
  out.reset();
  out.int(FIELD.num, num);
  const { kind, ...values } = record;
  if (kind === "other") return out.bytes();
  const write = () => writeFields(out, RECORDS[kind], values);
  out.message(FIELD[kind], kind === "header" ? () => out.message(1, write) : write);
  return out.bytes();
}

/** Throws ProtoError where the bytes are no record. */
export function decodeRecord(bytes: Uint8Array): WandbRecord {
  const fields = readProto(bytes);
  for (const kind of KINDS) {
    const body = messageField(fields, FIELD[kind]);
    if (!body) continue;
    const inner = kind === "header" ? messageField(body, 1) ?? EMPTY : body;
    return { kind, ...readFields(inner, RECORDS[kind]) } as WandbRecord;
  }
  const field = [...fields.keys()].find((number) => !NOT_KINDS.includes(number));
  return { kind: "other", field: field ?? 0 };
}

function readValue(item: ProtoFields): string {
  if (item.has(16)) return textField(item, 16);
  if (item.has(4)) return String(numberField(item, 4) !== 0);
  // sint64: zigzag
  if (item.has(5)) return String(unzigzag(numberField(item, 5)));
  if (item.has(6)) return jsonOf(numberField(item, 6));
  if (item.has(7)) return JSON.stringify(textField(item, 7));
  return textField(item, 8) || "null";
}

const unzigzag = (n: number): number => n % 2 === 0 ? n / 2 : -(n + 1) / 2;
