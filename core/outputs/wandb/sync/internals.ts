// W&B keeps versions, metrics and the environment of a run under "_wandb" in its configuration.
import {
  messageField,
  messageFields,
  numberField,
  type ProtoFields,
  readProto,
  textField,
  textFields,
} from "../../proto.ts";
import { quotedJson, type Tree } from "./json_text.ts";

/** Only this file reads these fields of Record. */
export const TELEMETRY = 11, METRIC = 12, ENVIRONMENT = 26;

export interface Internals {
  telemetry(fields: ProtoFields): void;
  metric(fields: ProtoFields): void;
  environment(fields: ProtoFields): void;
  /** `fallback` replaces a missing writer. */
  tree(fallback: { writer: string; version: string }): Tree;
  /** wandb-metadata.json gets it; null where the file has none. */
  metadata(): Tree | null;
}

export function openInternals(): Internals {
  const flags = new Map<number, Set<number>>();
  const texts = new Map<number, string>();
  const metrics: Metrics = { named: new Map(), globs: new Map() };
  let where: Tree | null = null, writer = "";

  return {
    telemetry(fields) {
      for (const [field, values] of fields) {
        if (FLAGS.includes(field)) {
          const set = flags.get(field) ?? new Set();
          for (const value of values) {
            if (value instanceof Uint8Array) { for (const flag of readProto(value).keys()) set.add(flag); }
          }
          flags.set(field, set);
        } else if (TEXTS.includes(field)) texts.set(field, textField(fields, field));
      }
    },
    metric(fields) {
      const name = textField(fields, 1), glob = textField(fields, 2);
      if (name !== "") metrics.named.set(name, metricOf(fields, true));
      else if (glob !== "") metrics.globs.set(glob, metricOf(fields, false));
    },
    environment(fields) {
      where = new Map([...where ?? [], ...environmentOf(fields)]);
      writer = textField(fields, 199) || writer;
    },
    tree(fallback) {
      const tree: Tree = new Map();
      const cli = texts.get(5), python = texts.get(4);
      if (cli !== undefined) tree.set("cli_version", quotedJson(cli));
      if (python !== undefined) tree.set("python_version", quotedJson(python));
      tree.set("t", telemetryOf(flags, texts, fallback.version));
      tree.set("m", `[${metricsOf(metrics).join(",")}]`);
      if (where !== null) tree.set("e", new Map([[writer || fallback.writer, where]]));
      return tree;
    },
    metadata: () => where,
  };
}

/** FLAGS are messages of flags, TEXTS are plain texts. */
const FLAGS = [1, 2, 3, 8, 10], TEXTS = [4, 5, 6, 12, 13];

/** The server takes a run without telemetry as not begun, so it is never empty. */
function telemetryOf(
  flags: ReadonlyMap<number, ReadonlySet<number>>,
  texts: ReadonlyMap<number, string>,
  version: string,
): Tree {
  const tree: Tree = new Map();
  for (const [field, set] of flags) tree.set(String(field), `[${[...set].join(",")}]`);
  for (const [field, text] of texts) tree.set(String(field), quotedJson(text));
  if (!tree.has("12")) tree.set("12", quotedJson(version));
  return tree;
}

interface Metric {
  readonly step: string;
  readonly options: readonly number[];
  readonly summary: readonly number[];
  readonly goal: number;
}

/** Globs are patterns such as "val/*". */
interface Metrics {
  readonly named: Map<string, Metric>;
  readonly globs: Map<string, Metric>;
}

/** Only a definition by name counts as defined (3). */
function metricOf(fields: ProtoFields, named: boolean): Metric {
  const set = (field: number, known: readonly number[]) =>
    known.filter((flag) => numberField(messageField(fields, field) ?? new Map(), flag) !== 0);
  return {
    step: textField(fields, 4),
    options: [...set(6, [1]), ...(named ? [3] : []), ...set(6, [2])],
    summary: set(7, [1, 2, 3, 5, 6, 8]),
    goal: numberField(fields, 8),
  };
}

/** The list refers to step metrics by position, from 1; those without a definition follow. */
function metricsOf({ named, globs }: Metrics): string[] {
  const steps = new Set([...named.values(), ...globs.values()].map(({ step }) => step));
  const others = [...steps].filter((step) => step !== "" && !named.has(step));
  const places = [...named.keys(), ...globs.keys(), ...others];
  const line = (name: string, metric: Metric | undefined, field: number) => {
    const place = metric?.step ? places.indexOf(metric.step) : -1;
    const parts = [
      `"${field}":${quotedJson(name)}`,
      ...(place >= 0 ? [`"5":${place + 1}`] : []),
      `"6":[${(metric?.options ?? []).join(",")}]`,
      `"7":[${(metric?.summary ?? []).join(",")}]`,
      ...(metric?.goal ? [`"8":${metric.goal}`] : []),
    ];
    return `{${parts.join(",")}}`;
  };
  return [
    ...[...named].map(([name, metric]) => line(name, metric, 1)),
    ...[...globs].map(([name, metric]) => line(name, metric, 2)),
    ...others.map((name) => line(name, undefined, 1)),
  ];
}

type Shape =
  | "text"
  | "texts"
  | "int"
  /** W&B writes 64-bit integers as text. */
  | "long"
  | "time"
  | { readonly message: Names }
  | { readonly list: Names }
  | { readonly map: Names | "text" };
type Names = Readonly<Record<number, readonly [string, Shape]>>;

const CAPACITY: Names = { 1: ["total", "long"], 2: ["used", "long"] };
const GPU: Names = {
  1: ["name", "text"],
  2: ["memoryTotal", "long"],
  3: ["cudaCores", "int"],
  4: ["architecture", "text"],
  5: ["uuid", "text"],
};

const NAMES: Names = {
  1: ["os", "text"],
  2: ["python", "text"],
  3: ["startedAt", "time"],
  4: ["docker", "text"],
  5: ["args", "texts"],
  6: ["program", "text"],
  7: ["codePath", "text"],
  8: ["codePathLocal", "text"],
  9: ["git", { message: { 1: ["remote", "text"], 2: ["commit", "text"] } }],
  10: ["email", "text"],
  11: ["root", "text"],
  12: ["host", "text"],
  13: ["username", "text"],
  14: ["executable", "text"],
  15: ["colab", "text"],
  16: ["cpu_count", "int"],
  17: ["cpu_count_logical", "int"],
  18: ["gpu", "text"],
  19: ["gpu_count", "int"],
  20: ["disk", { map: CAPACITY }],
  21: ["memory", { message: CAPACITY }],
  22: ["cpu", { message: { 1: ["count", "int"], 2: ["countLogical", "int"], 3: ["model", "text"] } }],
  24: ["gpu_nvidia", { list: GPU }],
  25: ["cudaVersion", "text"],
  27: ["slurm", { map: "text" }],
  199: ["writerId", "text"],
};

const environmentOf = (fields: ProtoFields): Tree => treeOf(fields, NAMES);

function treeOf(fields: ProtoFields, names: Names): Tree {
  const tree: Tree = new Map();
  for (const [number, [name, shape]] of Object.entries(names)) {
    const field = Number(number);
    if (fields.has(field)) tree.set(name, jsonOf(fields, field, shape));
  }
  return tree;
}

function jsonOf(fields: ProtoFields, field: number, shape: Shape) {
  if (shape === "text") return quotedJson(textField(fields, field));
  if (shape === "texts") return `[${textFields(fields, field).map(quotedJson).join(",")}]`;
  if (shape === "int") return String(numberField(fields, field));
  if (shape === "long") return quotedJson(String(numberField(fields, field)));
  if (shape === "time") return quotedJson(timeText(messageField(fields, field) ?? new Map()));
  if ("message" in shape) return treeOf(messageField(fields, field) ?? new Map(), shape.message);
  const messages = messageFields(fields, field);
  if ("list" in shape) {
    return `[${messages.map((one) => textOfFlat(treeOf(one, shape.list))).join(",")}]`;
  }
  const { map } = shape;
  return new Map(messages.map((entry) => [
    textField(entry, 1),
    map === "text" ? quotedJson(textField(entry, 2)) : treeOf(messageField(entry, 2) ?? new Map(), map),
  ]));
}

const textOfFlat = (tree: Tree): string =>
  `{${[...tree].map(([key, v]) => `${quotedJson(key)}:${v}`).join(",")}}`;

/** "2026-11-22T00:24:52.854932Z" has as many digits as needed. */
function timeText(time: ProtoFields): string {
  const seconds = new Date(numberField(time, 1) * 1000);
  if (!Number.isFinite(seconds.getTime())) return "";
  const nanos = String(numberField(time, 2)).padStart(9, "0");
  const digits = nanos.endsWith("000000") ? 3 : nanos.endsWith("000") ? 6 : 9;
  const part = Number(nanos) === 0 ? "" : `.${nanos.slice(0, digits)}`;
  return `${seconds.toISOString().slice(0, 19)}${part}Z`;
}
