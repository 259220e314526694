// `hpctrain inspect`: what is in a checkpoint or a data set. Imports core/checkpoint, core/config, core/format,
// core/errors, inspect_run, and inspect_data when it is data.
import { describeCheckpoint, type Description, type Json } from "../core/checkpoint/describe.ts";
import { printable } from "../core/checkpoint/file_bytes.ts";
import { type CheckpointFile, looksLikeCheckpoint, openCheckpoint } from "../core/checkpoint/open.ts";
import { parseOptions } from "../core/config/options.ts";
import { isGroup, lookUp } from "../core/config/tree.ts";
import { isFolder, namesIn } from "../core/data/files.ts";
import { UserError } from "../core/errors.ts";
import { formatBytes, formatCount, formatPlural } from "../core/format.ts";
import { inspectProgram, isProgram } from "./inspect_pt2.ts";
import { inspectRun, isRun, lineageBeside } from "./inspect_run.ts";
import { inspectWandb, isWandb } from "./inspect_wandb.ts";

const USAGE = "hpctrain inspect FILE|FOLDER [--json] [--verify] [--sample N] [--png FILE]";
const HELP = `hpctrain inspect: what is in a checkpoint or a data set, or what became of a run

  ${USAGE}
      --json            the same as JSON, every tensor included
      --verify          of a checkpoint or packed shards: also compare every checksum (reads all of it)
      --sample N        of data: show this sample, counted from 0, in place of the first ones
      --png FILE        of images and maps: write the first 64, or the one of --sample, as a picture
      --data-type KIND  what kind of data it is, where its name does not say

Reads .pt files of hpctrain and of torch.save, .safetensors files, and folders of these with an index. Nothing in the
file is executed.
Of a .pt2 file, as torch.export.save writes it: its inputs, outputs, operations and weights.
Of a .wandb file: its run, configuration, rows, steps, last values, end, and what is damaged (then exit code 3).
Of a run's folder, logs/RUN, and beside a checkpoint of a run: its attempts, why each ended, and how much of their time
was training (goodput).
Reads data of every kind that training reads: its schema, counts, ranges and first samples. Images and maps are drawn
in the terminal. No column is chosen for it, and nothing is read that is not shown: of a large file the first samples.

Examples: hpctrain inspect checkpoints/run_latest.pt --verify
          hpctrain inspect logs/run
          hpctrain inspect maps.nc --png maps.png`;

export async function inspect(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, {
    json: { kind: "bool", help: "print JSON" },
    verify: { kind: "bool", help: "compare every checksum" },
    sample: { kind: "text", help: "show this sample", value: "a sample's number" },
    png: { kind: "text", help: "write pictures", value: "a file's name" },
    "data-type": { kind: "text", help: "kind of data", value: "a kind of data" },
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
  if (options["data-type"] !== undefined || isData(path)) {
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
    console.log(JSON.stringify({ ...description, verified: options.verify, lineage }, null, 2));
  } else {console.log(
      [...render(description), ...lines, ...(options.verify ? [verdict(file)] : [])].join("\n"),
    );}
  return 0;
}

function refuseOfData({ sample, png }: { sample?: string; png?: string }, path: string, as: string): void {
  if (sample === undefined && png === undefined) return;
  throw new UserError("usage", `--sample and --png are for data, and ${path} is taken for ${as}.`);
}

/** By its name; a .bin may be either, and says itself which. A folder of checkpoints is refused as one. */
function isData(path: string): boolean {
  if (isFolder(path)) return !namesIn(path).some((name) => /\.(pt|safetensors)$/.test(name));
  if (/\.bin$/i.test(path)) return !looksLikeCheckpoint(path);
  return DATA.test(path);
}

const DATA = /\.(np[yz]|csv|tsv|txt|nc4?|cdf|h5|hdf5)$|idx\d-ubyte(\.gz)?$/i;

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
    const standard = lookUp(full)?.setting.default;
    if (full !== "model.name" && JSON.stringify(item) === JSON.stringify(standard)) return [];
    const rest = chosen(item, full);
    return isGroup(full) && Object.keys(rest as object).length === 0 ? [] : [[key, rest]];
  });
  return Object.fromEntries(kept);
}

function short(value: Json): string {
  const text = printable(typeof value === "string" ? value : JSON.stringify(value));
  return text.length > 200 ? `${text.slice(0, 200)}... (${text.length} characters)` : text;
}

function verdict({ hasSums }: CheckpointFile): string {
  return hasSums
    ? "verified: every checksum is right"
    : "verified: sizes and offsets fit (safetensors files that hpctrain did not write have no checksums)";
}
