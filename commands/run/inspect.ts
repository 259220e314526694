// `hpctrain inspect`: what is in a checkpoint, an exported program, a data set, a W&B folder or a run.
import { isFolder } from "../../core/base/files.ts";
import {
  type CheckpointFile,
  describeCheckpoint,
  type Description,
  type Json,
  looksLikeCheckpoint,
  openCheckpoint,
} from "../../core/checkpoint/open.ts";
import { printable } from "../../core/base/file_bytes.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { findSetting, isSettingGroup } from "../../core/settings/settings.ts";
import { namesIn } from "../../core/data/arrays/files.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatCount, formatDuration, formatPlural, inColumns } from "../../core/base/format.ts";
import { inspectWandb, isWandb } from "./inspect_wandb.ts";
import { dirname, join } from "../../deps/path.ts";
import { type Attempt, endOfAttempt, type Lineage, lineageNow, lineagePath } from "../../core/run/lineage.ts";
import { type Archive, openExported } from "../../core/models/exported/archive.ts";
import { sizesText, warningsOf } from "../../core/models/exported/check.ts";
import { type GraphNode, type GraphValue, sourceLineOf } from "../../core/models/exported/graph.ts";
import { refusedTarget } from "../../core/models/exported/operators.ts";
import { OPTIONS, USAGE } from "../inspect.ts";
import { SANDBOX } from "../options.ts";

const HELP = `hpctrain inspect: what is in a checkpoint or a data set, or what became of a run

  ${USAGE}
      --json            the same as JSON, every tensor included
      --verify          of a checkpoint or packed shards: also compare every checksum (reads all of it)
      --sample N        of data: show this sample, counted from 0, in place of the first ones
      --png FILE        of images and maps: write the first 64, or the one of --sample, as a picture
      --augment LIST    of images and maps: draw 16 samples, or one 16 times, as training with this list sees them
      --data-type KIND  what kind of data it is, where its name does not say
      --sandbox         ${SANDBOX.help}

Reads .pt files of hpctrain and of torch.save, .safetensors files, and folders of these with an index. Nothing in the
file is executed.
For a .pt2 file, as torch.export.save writes it: its inputs, outputs, operations and weights.
For a .wandb file: its run, configuration, rows, steps, last values, end, and what is damaged (then exit code 3).
For a run's folder, logs/RUN, and beside a checkpoint of a run: its attempts, why each ended, and how much of their time
was training (goodput).
Reads data of every kind that training reads: its dimensions and coordinates, times that are missing or repeated, and
of each variable its units, range, mean, histogram and missing share; first samples. Images and maps are drawn in the
terminal. No column is chosen for it, and nothing is read that is not shown: of a large file the first samples.

Examples: hpctrain inspect checkpoints/run_latest.pt --verify
          hpctrain inspect logs/run
          hpctrain inspect maps.nc --png maps.png`;

export async function inspect(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, {
    ...OPTIONS,
    help: { kind: "bool", help: "show this help" },
  }, USAGE);
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  if (positionals.length !== 1) {
    throw new UserError("usage", `inspect takes one file, but got ${positionals.length}. Usage: ${USAGE}`);
  }
  const [path] = positionals;
  if (options["data-type"] === undefined && isFolder(path) && isRun(path)) {
    refuseOfData(options, path, "a run's folder");
    inspectRun(path, options.json);
    return 0;
  }
  if (options["data-type"] === undefined && isProgram(path) && !isFolder(path)) {
    refuseOfData(options, path, "an exported program");
    inspectProgram(path, options.json);
    return 0;
  }
  if (options["data-type"] === undefined && isWandb(path) && !isFolder(path)) {
    refuseOfData(options, path, "a W&B run");
    return inspectWandb(path, options.json);
  }
  if (options["data-type"] !== undefined || await isData(path)) {
    const { inspectData } = await import("./inspect_data.ts");
    await inspectData(path, { ...options, type: options["data-type"] ?? "auto" });
    return 0;
  }
  refuseOfData(options, path, "a checkpoint");
  using file = openCheckpoint(path);
  if (options.verify) file.verify();
  const description = describeCheckpoint(file);
  const { lineage, lines } = lineageBeside(description);
  if (options.json) {
    const { hasSums } = file;
    console.log(JSON.stringify({ ...description, hasSums, verified: options.verify, lineage }, null, 2));
  } else console.log([...render(description), ...lines, verdict(file, options.verify)].join("\n"));
  return 0;
}

function refuseOfData(
  { sample, png, augment }: { sample?: string; png?: string; augment?: string },
  path: string,
  as: string,
): void {
  if (augment !== undefined) {
    throw new UserError("usage", `--augment is for data, and ${path} is taken for ${as}.`);
  }
  if (sample === undefined && png === undefined) return;
  throw new UserError("usage", `--sample and --png are for data, and ${path} is taken for ${as}.`);
}

/** By its name; a .bin may be either, and says itself which. A folder of checkpoints is refused as one. */
async function isData(path: string): Promise<boolean> {
  if (isFolder(path)) return !namesIn(path).some((name) => CHECKPOINT.test(name));
  if (CHECKPOINT.test(path)) return false;
  if (/\.bin$/i.test(path)) return !looksLikeCheckpoint(path);
  const [{ isNamedAsData }, { conversionOf }] = await Promise.all([
    import("../../core/data/open/formats.ts"),
    import("../../core/data/open/conversions.ts"),
  ]);
  // A file that has to be converted first is refused by the sentence that says how.
  return isNamedAsData(path) || (conversionOf(path) !== null && !looksLikeCheckpoint(path));
}

const CHECKPOINT = /\.(pt|safetensors)$/;

const FORMATS = {
  pt: "PyTorch checkpoint (.pt)",
  safetensors: "safetensors",
  sharded: "safetensors in several files",
};

export function render(description: Description): string[] {
  const { tensors, totals, metadata } = description;
  const format = FORMATS[description.format];
  const groups = Map.groupBy(tensors, ({ name }) => isState(name) ? name.slice(0, name.indexOf(".")) : "");
  const weights = groups.get("") ?? [];
  const lines = [
    `${printable(description.path)}: ${format}, ${formatBytes(description.fileBytes)}`,
    ...Object.entries(description.values).flatMap(([key, value]) =>
      key === "config"
        ? entry("config (defaults left out, --json has all)", chosen(value), "  ")
        : entry(key, value, "  ")
    ),
    ...Object.entries(metadata).map(([key, value]) => `  metadata ${printable(key)}: ${short(value)}`),
  ];
  for (const [key, group] of groups) {
    if (key === "") continue;
    const bytes = group.reduce((sum, tensor) => sum + tensor.bytes, 0);
    lines.push(
      `  ${printable(key)}: ${formatPlural(group.length, "tensor")}, ${
        formatBytes(bytes)
      } (listed by --json)`,
    );
  }
  const names = weights.map(({ name }) => printable(name));
  const shapes = weights.map(({ shape }) => `[${shape.join(", ")}]`);
  const [nameWidth, shapeWidth] = [names, shapes].map((column) =>
    column.reduce((most, text) => Math.max(most, text.length), 0)
  );
  weights.forEach(({ dtype, bytes }, i) => {
    lines.push(
      `  ${names[i].padEnd(nameWidth)}  ${dtype.padEnd(4)}  ${shapes[i].padEnd(shapeWidth)}  ${
        formatBytes(bytes).padStart(10)
      }`,
    );
  });
  lines.push(
    `total: ${formatPlural(totals.tensors, "tensor")}, ${formatCount(totals.elements)} numbers, ${
      formatBytes(totals.bytes)
    }`,
  );
  return lines;
}

/** The state of an optimizer and the like repeats the weights by number: a line is enough. Ours and Lightning's keys. */
function isState(name: string): boolean {
  return /^(optimizer|optimizer_states?|(optimizer|scheduler|scaler)_state_dict|lr_schedulers|callbacks|loops|hpctrain)\./
    .test(name);
}

function entry(key: string, value: Json, indent: string): string[] {
  const name = `${indent}${printable(key)}:`;
  if (typeof value !== "object" || value === null || Array.isArray(value) || indent.length > 8) {
    return [`${name} ${short(value)}`];
  }
  return [name, ...Object.entries(value).flatMap(([inner, item]) => entry(inner, item, indent + "  "))];
}

/** The model, and the settings that are not at their default. */
function chosen(value: Json, path = ""): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const kept = Object.entries(value).flatMap(([key, item]): [string, Json][] => {
    const full = path === "" ? key : `${path}.${key}`;
    const standard = findSetting(full)?.setting.default;
    if (full !== "model.name" && JSON.stringify(item) === JSON.stringify(standard)) return [];
    const rest = chosen(item, full);
    return isSettingGroup(full) && Object.keys(rest as object).length === 0 ? [] : [[key, rest]];
  });
  return Object.fromEntries(kept);
}

function short(value: Json): string {
  const text = printable(typeof value === "string" ? value : JSON.stringify(value));
  return text.length > 200 ? `${text.slice(0, 200)}... (${text.length} characters)` : text;
}

function verdict({ hasSums }: CheckpointFile, verified: boolean): string {
  if (!hasSums) {
    return "verified: sizes and offsets fit (safetensors files that hpctrain did not write have no checksums)";
  }
  return verified
    ? "verified: every checksum is right"
    : "checksums: those of the tensors were not compared (--verify compares them)";
}

// `hpctrain inspect` of a run's folder: its attempts, as lineage.json tells them.

/** Attempts that are shown; --json has all. */
const SHOWN = 20;

/** A folder that a run writes to. */
const isRun = (folder: string): boolean =>
  namesIn(folder).some((name) => name === "events.jsonl" || name === "lineage.json");

function inspectRun(folder: string, json: boolean): void {
  const lineage = lineageNow(folder);
  if (lineage === null) {
    throw new UserError(
      "data",
      `${folder} is a run's folder without a lineage.json, which a run has from its next start on; ` +
        "events.jsonl tells what was measured.",
    );
  }
  console.log(json ? JSON.stringify(lineage, null, 2) : renderRun(lineagePath(folder), lineage).join("\n"));
}

/** The lineage of the run that wrote a checkpoint, where its logs lie beside it. */
function lineageBeside({ path, values }: Description): { lineage: Lineage | null; lines: string[] } {
  const run = field(values.hpctrain, "run"), saveDir = field(field(values.config, "output"), "save_dir");
  if (typeof run !== "string" || !/^[\w.+-]+$/.test(run)) return { lineage: null, lines: [] };
  const folders = [join(dirname(path), ".."), ...(typeof saveDir === "string" ? [saveDir] : [])];
  for (const logs of folders.map((folder) => join(folder, "logs", run))) {
    try {
      const lineage = lineageNow(logs);
      if (lineage?.run === run) return { lineage, lines: renderRun(lineagePath(logs), lineage) };
    } catch (error) {
      return { lineage: null, lines: [messageOf(error)] };
    }
  }
  return { lineage: null, lines: [] };
}

function renderRun(path: string, { run, parent, goodput_percent: goodput, attempts }: Lineage): string[] {
  const good = goodput === null ? "" : `, goodput ${goodput.toFixed(1)}%`;
  const left = attempts.slice(-SHOWN);
  const head = [
    `${printable(path)}: run ${printable(String(run))}, ${formatPlural(attempts.length, "attempt")}${good}`,
    ...(parent
      ? [`  went on from ${printable(String(parent.checkpoint))} at step ${Number(parent.step)}`]
      : []),
    ...(left.length < attempts.length ? [`  the last ${SHOWN} (--json has all):`] : []),
  ];
  return [...head, ...inColumns(left.map(row))];
}

function row(attempt: Attempt): string[] {
  const { attempt: number, started, last_seen, host, job_id, ranks, first_step, last_step, lost } = attempt;
  const steps = last_step < first_step ? "no step" : `steps ${first_step} to ${last_step}`;
  const costs = [
    `start ${formatDuration(lost.restart_s)}`,
    `saves ${formatDuration(lost.save_stall_s)}`,
    ...(lost.redone_steps > 0
      ? [`${formatPlural(lost.redone_steps, "step")} again ${formatDuration(lost.redone_s)}`]
      : []),
  ];
  return [
    `  ${number}`,
    `${new Date(started * 1000).toISOString().slice(0, 19)}Z`,
    job_id === null ? host : `${host} (job ${job_id})`,
    formatPlural(ranks, "rank"),
    steps,
    `${endOfAttempt(attempt)} after ${formatDuration(last_seen - started)}`,
    `lost: ${costs.join(", ")}`,
  ].map((cell) => printable(String(cell)));
}

const field = (value: Json | undefined, key: string): Json | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value[key] : undefined;

// `hpctrain inspect my.pt2`: what an exported program takes, gives, holds and does; and whether this machine's
// libtorch can run it.

const isProgram = (path: string): boolean => /\.pt2$/i.test(path);

function inspectProgram(path: string, json: boolean): void {
  using archive = openExported(path);
  const found = describeProgram(archive);
  console.log(json ? JSON.stringify(found, null, 2) : renderProgram(found).join("\n"));
}

interface Field {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly (number | string)[];
}

export function describeProgram(archive: Archive) {
  const { path, program, weights, constants, fileBytes } = archive;
  const field = (value: GraphValue): Field[] => {
    if (value.kind !== "tensor") return [];
    const meta = program.tensors.get(value.name);
    return [{ name: value.name, dtype: meta?.dtype ?? "?", shape: meta?.sizes ?? [] }];
  };
  const trained = new Set(program.inputs.flatMap((i) => i.kind === "parameter" ? [i.of] : []));
  const counts = Map.groupBy(program.nodes, ({ target }) => target.replace(/^torch\.ops\./, ""));
  return {
    path,
    fileBytes,
    format: "exported program (.pt2)",
    torch: program.torch,
    schema: program.version,
    inputs: program.inputs.flatMap((i) => i.kind === "user" ? field(i.value) : []),
    outputs: program.outputs.flatMap((o) => o.kind === "user" || o.kind === "loss" ? field(o.value) : []),
    operations: Object.fromEntries(
      [...counts].map(([target, nodes]) => [target, nodes.length] as const).sort((a, b) => b[1] - a[1]),
    ),
    refused: refusedIn(program.nodes),
    tensors: [...weights].map(([name, { dtype, shape, numel, byteLength }]) => ({
      name,
      dtype,
      shape,
      numbers: numel,
      bytes: byteLength,
      kind: trained.has(name) ? "parameter" : "buffer",
    })),
    constants: constants.size,
    warnings: warningsOf(archive),
  };
}

/** Operations that no machine runs: each kind once, with the line of Python that made the first. */
function refusedIn(nodes: readonly GraphNode[]): { operation: string; why: string; place: string }[] {
  const first = new Map<string, GraphNode>();
  for (const node of nodes) if (!first.has(node.target)) first.set(node.target, node);
  return [...first.values()].flatMap((node) => {
    const why = refusedTarget(node.target);
    return why === "" ? [] : [{ operation: node.target, why, place: sourceLineOf(node) }];
  });
}

function renderProgram(found: ReturnType<typeof describeProgram>): string[] {
  const { inputs, outputs, operations, tensors } = found;
  const nodes = Object.values(operations).reduce((sum, count) => sum + count, 0);
  const fields = (title: string, all: readonly Field[]) =>
    all.map(({ name, dtype, shape }) => `  ${title} ${printable(name)}: ${dtype} ${sizesText(shape)}`);
  const most = Object.entries(operations).slice(0, 12)
    .map(([target, count]) =>
      `${printable(target).replace(/^aten\./, "").replace(/\.default$/, "")} ${count}`
    );
  const more = Object.keys(operations).length - most.length;
  const names = tensors.map(({ name }) => printable(name));
  const width = names.reduce((longest, name) => Math.max(longest, name.length), 0);
  const numbers = tensors.filter(({ kind }) => kind === "parameter").reduce((sum, t) => sum + t.numbers, 0);
  return [
    `${printable(found.path)}: ${found.format}, ${formatBytes(found.fileBytes)}`,
    `  written by PyTorch ${printable(found.torch)}, schema ${found.schema}`,
    ...fields("input", inputs),
    ...fields("output", outputs),
    `  ${nodes} operations: ${most.join(", ")}${more > 0 ? `, and ${more} other kinds` : ""}`,
    ...found.refused.map(({ operation, why, place }) =>
      printable(`  refused: ${operation}: ${why}${place === "" ? "" : ` (${place})`}`)
    ),
    ...found.warnings.map((line) => `  ${line}`),
    ...tensors.map(({ dtype, shape, bytes, kind }, i) =>
      `  ${names[i].padEnd(width)}  ${kind.padEnd(9)}  ${dtype.padEnd(4)}  ${
        formatBytes(bytes).padStart(10)
      }  [${shape.join(", ")}]`
    ),
    `total: ${formatCount(numbers)} trained numbers. Train it: hpctrain --model ${printable(found.path)} ...`,
  ];
}
