// Encodes and decodes the typed records of a .wandb file.
import {
  messageField,
  messageFields,
  numberField,
  type ProtoFields,
  type ProtoWriter,
  protoWriter,
  readProto,
  textField,
  textFields,
} from "./proto.ts";
import type { EnvironmentRecord, Item, RunRecord, WandbRecord } from "./types.ts";

export type * from "./types.ts";

/** Field numbers of Record. */
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
const POLICIES = ["now", "end", "live"] as const;
const TYPES = ["other", "wandb", "media", "artifact"] as const;
const STREAMS = ["stderr", "stdout"] as const;

/** JSON as W&B writes it: NaN and infinities are bare words. */
export function jsonOf(value: unknown): string {
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value === null || value === undefined || typeof value === "function") return "null";
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const parts = Object.entries(value).filter(([, v]) => v !== undefined);
  return `{${parts.map(([k, v]) => `${JSON.stringify(k)}:${jsonOf(v)}`).join(",")}}`;
}

/** Leaves out undefined values. */
export function recordItems(values: Readonly<Record<string, unknown>>): Item[] {
  const items: Item[] = [];
  for (const key in values) {
    if (values[key] !== undefined) items.push({ key: [key], json: jsonOf(values[key]) });
  }
  return items;
}

const out = protoWriter();

/** Encodes the record that is the `num`-th of its file, from 1. The next call reuses the bytes. */
export function encodeRecord(record: WandbRecord, num: number): Uint8Array {
  out.reset();
  out.int(FIELD.num, num);
  if (record.kind !== "other") out.message(FIELD[record.kind], () => writeKind(out, record));
  return out.bytes();
}

function writeKind(to: ProtoWriter, record: Exclude<WandbRecord, { kind: "other" }>): void {
  switch (record.kind) {
    case "header":
      return to.message(1, () => {
        to.text(1, record.producer);
        to.text(2, record.minConsumer);
      });
    case "run":
      return writeRun(to, record);
    case "history":
      // All programs look for the step in `_step`, and none reads the field for it.
      for (const item of record.items) writeItem(to, 1, item);
      return;
    case "summary":
    case "config":
      for (const item of record.update) writeItem(to, 1, item);
      for (const item of record.remove ?? []) writeItem(to, 2, item);
      return;
    case "files":
      for (const { path, policy, type } of record.files) {
        to.message(1, () => {
          to.text(1, path);
          to.int(2, POLICIES.indexOf(policy ?? "now"));
          to.int(3, TYPES.indexOf(type ?? "other"));
        });
      }
      return;
    case "stats":
      writeTime(to, 2, record.t);
      for (const item of record.items) writeItem(to, 3, item);
      return;
    case "output":
      to.int(1, STREAMS.indexOf(record.stream));
      writeTime(to, 2, record.t);
      return to.text(3, record.text);
    case "environment":
      return writeEnvironment(to, record);
    case "telemetry":
      to.text(4, record.python);
      to.text(5, record.cli);
      return to.text(13, record.platform);
    case "alert":
      to.text(1, record.title);
      to.text(2, record.text);
      return to.text(3, record.level);
    case "exit":
      to.int(1, record.code);
      return to.int(2, Math.floor(record.runtime));
  }
}

function writeRun(to: ProtoWriter, run: RunRecord): void {
  to.text(1, run.id);
  to.text(2, run.entity);
  to.text(3, run.project);
  to.message(4, () => {
    for (const item of run.config ?? []) writeItem(to, 1, item);
  });
  to.text(6, run.group);
  to.text(7, run.jobType);
  to.text(8, run.name);
  to.text(9, run.notes);
  for (const tag of run.tags ?? []) to.text(10, tag);
  to.text(13, run.host);
  to.int(14, run.startingStep ?? 0);
  if (run.startTime !== undefined) writeTime(to, 17, run.startTime);
  to.int(18, run.resumed ?? false);
  to.int(20, Math.floor(run.runtime ?? 0));
  if (run.git) writeGit(to, 21, run.git);
  to.int(24, run.resume ?? false);
}

function writeEnvironment(to: ProtoWriter, e: EnvironmentRecord): void {
  to.text(1, e.os);
  to.text(2, e.python);
  if (e.startedAt !== undefined) writeTime(to, 3, e.startedAt);
  for (const arg of e.args ?? []) to.text(5, arg);
  to.text(6, e.program);
  if (e.git) writeGit(to, 9, e.git);
  to.text(11, e.root);
  to.text(12, e.host);
  to.text(13, e.user);
  to.text(14, e.executable);
  to.int(16, e.cores ?? 0);
  to.int(17, e.threads ?? 0);
  to.text(18, e.gpu);
  to.int(19, e.gpus ?? 0);
  if (e.memoryBytes !== undefined) to.message(21, () => to.int(1, e.memoryBytes!));
  for (const [key, value] of Object.entries(e.slurm ?? {})) {
    to.message(27, () => {
      to.text(1, key);
      to.text(2, value);
    });
  }
}

function writeItem(to: ProtoWriter, field: number, { key, json }: Item): void {
  to.message(field, () => {
    // Programs of 2024 know only the plain name.
    if (key.length === 1) to.text(1, key[0]);
    else for (const part of key) to.text(2, part);
    to.text(16, json);
  });
}

function writeGit(to: ProtoWriter, field: number, git: NonNullable<RunRecord["git"]>): void {
  to.message(field, () => {
    to.text(1, git.remote);
    to.text(2, git.commit);
  });
}

function writeTime(to: ProtoWriter, field: number, t: number): void {
  const seconds = Math.floor(t);
  to.message(field, () => {
    to.int(1, seconds);
    to.int(2, Math.round((t - seconds) * 1e9));
  });
}

/** Throws ProtoError where the bytes are no record. */
export function decodeRecord(bytes: Uint8Array): WandbRecord {
  const fields = readProto(bytes);
  for (const kind of KINDS) {
    const body = messageField(fields, FIELD[kind]);
    if (body) return readers[kind](body);
  }
  const field = [...fields.keys()].find((number) => !NOT_KINDS.includes(number));
  return { kind: "other", field: field ?? 0 };
}

type Known = Exclude<WandbRecord["kind"], "other">;

const readers: { [K in Known]: (body: ProtoFields) => WandbRecord } = {
  header(body) {
    const version = messageField(body, 1) ?? new Map();
    return { kind: "header", producer: textField(version, 1), minConsumer: textField(version, 2) };
  },
  run: readRun,
  history: (body) => ({
    kind: "history",
    items: readItems(body, 1),
    step: numberField(messageField(body, 2) ?? new Map(), 1),
  }),
  summary: (body) => ({ kind: "summary", update: readItems(body, 1), remove: readItems(body, 2) }),
  config: (body) => ({ kind: "config", update: readItems(body, 1), remove: readItems(body, 2) }),
  files: (body) => ({
    kind: "files",
    files: messageFields(body, 1).map((file) => ({
      path: textField(file, 1),
      policy: POLICIES[numberField(file, 2)] ?? "now",
      type: TYPES[numberField(file, 3)] ?? "other",
    })),
  }),
  stats: (body) => ({ kind: "stats", t: readTime(body, 2) ?? 0, items: readItems(body, 3) }),
  output: (body) => ({
    kind: "output",
    stream: STREAMS[numberField(body, 1)] ?? "stdout",
    t: readTime(body, 2) ?? 0,
    text: textField(body, 3),
  }),
  environment: readEnvironment,
  telemetry: (body) => ({
    kind: "telemetry",
    python: textField(body, 4),
    cli: textField(body, 5),
    platform: textField(body, 13),
  }),
  alert: (body) => ({
    kind: "alert",
    title: textField(body, 1),
    text: textField(body, 2),
    level: textField(body, 3),
  }),
  preempting: () => ({ kind: "preempting" }),
  exit: (body) => ({ kind: "exit", code: numberField(body, 1), runtime: numberField(body, 2) }),
};

const KINDS = Object.keys(readers) as Known[];

function readRun(body: ProtoFields): RunRecord {
  const branch = messageField(body, 23);
  return {
    kind: "run",
    id: textField(body, 1),
    entity: textField(body, 2),
    project: textField(body, 3),
    config: readItems(messageField(body, 4) ?? new Map(), 1),
    group: textField(body, 6),
    jobType: textField(body, 7),
    name: textField(body, 8),
    notes: textField(body, 9),
    tags: textFields(body, 10),
    host: textField(body, 13),
    startingStep: numberField(body, 14),
    startTime: readTime(body, 17),
    resumed: numberField(body, 18) !== 0,
    runtime: numberField(body, 20),
    git: readGit(body, 21),
    branch: branch
      ? { run: textField(branch, 1), value: numberField(branch, 2), metric: textField(branch, 3) }
      : undefined,
    resume: numberField(body, 24) !== 0,
  };
}

function readEnvironment(body: ProtoFields): EnvironmentRecord {
  const memory = messageField(body, 21);
  return {
    kind: "environment",
    os: textField(body, 1),
    python: textField(body, 2),
    startedAt: readTime(body, 3),
    args: textFields(body, 5),
    program: textField(body, 6),
    git: readGit(body, 9),
    root: textField(body, 11),
    host: textField(body, 12),
    user: textField(body, 13),
    executable: textField(body, 14),
    cores: numberField(body, 16),
    threads: numberField(body, 17),
    gpu: textField(body, 18),
    gpus: numberField(body, 19),
    memoryBytes: memory ? numberField(memory, 1) : undefined,
    slurm: Object.fromEntries(
      messageFields(body, 27).map((entry) => [textField(entry, 1), textField(entry, 2)]),
    ),
  };
}

/** Newer programs write typed values into the fields 3 to 8; all versions write `value_json`. */
function readItems(body: ProtoFields, field: number): Item[] {
  return messageFields(body, field).map((item) => {
    const nested = textFields(item, 2);
    return { key: nested.length > 0 ? nested : [textField(item, 1)], json: readValue(item) };
  });
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

function readGit(body: ProtoFields, field: number): RunRecord["git"] {
  const git = messageField(body, field);
  return git ? { remote: textField(git, 1), commit: textField(git, 2) } : undefined;
}

function readTime(body: ProtoFields, field: number): number | undefined {
  const time = messageField(body, field);
  return time ? numberField(time, 1) + numberField(time, 2) / 1e9 : undefined;
}
