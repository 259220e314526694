// `hpctrain convert`: from .pt to .safetensors and back, one file or several.
import {
  type CheckpointFile,
  fromJson,
  type Json,
  openCheckpoint,
  toJson,
} from "../../core/checkpoint/open.ts";
import { printable } from "../../core/base/file_bytes.ts";
import { writePt } from "../../core/checkpoint/pt.ts";
import { writeSafetensors, writeWhole } from "../../core/checkpoint/safetensors_writer.ts";
import { writeAllShards } from "../../core/checkpoint/sharded_writer.ts";
import { flattenTree } from "../../core/checkpoint/safetensors.ts";
import { findStateDict } from "../../core/checkpoint/state_dict.ts";
import { type Key, OrderedDict, type TensorData, type Value } from "../../core/checkpoint/value.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { UserError } from "../../core/base/errors.ts";
import { formatBytes, formatPlural } from "../../core/base/format.ts";
import { OPTIONS, USAGE } from "../convert.ts";
import { SANDBOX } from "../options.ts";

const HELP =
  `hpctrain convert: checkpoints from .pt to .safetensors and back, from one file to several and back

  ${USAGE}
      --whole          carry the optimizer, the averages and the place in the run too, so that --resume takes OUT
      --shards N       write N safetensors files and their index (as Hugging Face names them) into the folder OUT
      --strip PREFIX   take PREFIX off the tensors' names, e.g. --strip model.
      --force          replace OUT if it exists
      --sandbox        ${SANDBOX.help}

The ending of OUT chooses the format; IN is a file or a folder with an index. Weights are carried as they are, under the
model's own names; numbers, text and the configuration beside them go into the safetensors metadata and come back from
there. An optimizer's state is carried by --whole alone: then the weights are named model.NAME.

Examples: hpctrain convert checkpoints/run_best.pt weights.safetensors
          hpctrain convert checkpoints/run_latest.pt run_latest.ckpt --whole --shards 4`;

/** The values beside the weights travel under this key of a safetensors file's metadata. */
const METADATA_KEY = "hpctrain";

interface Weights {
  tensors: Map<string, TensorData>;
  values: { [key: string]: Json };
  dropped: string[];
}

// deno-lint-ignore require-await
export async function convert(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, {
    ...OPTIONS,
    help: { kind: "bool", help: "show this help" },
  }, USAGE);
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  if (positionals.length !== 2) {
    throw new UserError("usage", `convert takes two files, but got ${positionals.length}. Usage: ${USAGE}`);
  }
  const [from, to] = positionals;
  const { whole, strip } = options;
  const shards = countOf(options.shards);
  const format = shards > 0 ? "sharded" : formatOf(to);
  if (whole && strip !== undefined) {
    throw new UserError("usage", "--strip is for weights alone: leave out --whole, or --strip.");
  }
  using file = openCheckpoint(from);
  refuseOverwrite(from, to, { force: options.force, folder: shards > 0 });
  const { count, dropped } = whole
    ? writeState(file, to, format, shards)
    : writeWeights(file, to, format, shards, strip);
  using written = openCheckpoint(to);
  console.log(`Wrote ${formatPlural(count, "tensor")} to ${to} (${formatBytes(written.fileBytes)}).`);
  if (dropped.length > 0) console.log(`Not carried: ${dropped.map(printable).join(", ")}.`);
  return 0;
}

interface Outcome {
  count: number;
  dropped: string[];
}

type Format = "pt" | "safetensors" | "sharded";

function writeState(file: CheckpointFile, to: string, format: Format, shards: number): Outcome {
  const flat = flattenTree(file.root, file.path);
  if (format === "pt") writePt(to, file.root, { verify: true });
  else if (format === "safetensors") writeWhole(to, file.root, { verify: true });
  else writeAllShards(to, shards, flat);
  return { count: flat.tensors.size, dropped: [] };
}

function writeWeights(
  file: CheckpointFile,
  to: string,
  format: Format,
  shards: number,
  strip?: string,
): Outcome {
  const { tensors: found, values, dropped } = readWeights(file);
  const tensors = strip === undefined ? found : stripped(found, strip, file.path);
  if (format === "pt") writePt(to, ptRoot(tensors, values));
  else if (format === "safetensors") {
    writeSafetensors(to, tensors, { metadata: metadataOf(values), sums: true });
  } else writeAllShards(to, shards, { tensors, metadata: metadataOf(values) });
  return { count: tensors.size, dropped };
}

function countOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new UserError("usage", `--shards takes a number of files from 1 to 99999, but got "${text}".`);
}

function formatOf(path: string): Format {
  if (path.endsWith(".safetensors")) return "safetensors";
  if (/\.(pt|pth|ckpt|bin)$/.test(path)) return "pt";
  throw new UserError(
    "usage",
    `${path}: its ending must say the format: .pt (or .pth, .ckpt, .bin) or .safetensors.`,
  );
}

function refuseOverwrite(
  from: string,
  to: string,
  { force, folder }: { force: boolean; folder: boolean },
): void {
  let found: Deno.FileInfo;
  try {
    found = Deno.statSync(to);
  } catch {
    return; // not there; anything else that is wrong shows when it is written
  }
  if (folder && !found.isDirectory) {
    throw new UserError("usage", `${to} is a file, and --shards writes a folder; name another one.`);
  }
  const source = Deno.statSync(from);
  if (found.dev === source.dev && found.ino === source.ino) {
    throw new UserError("usage", `${to} is the file to be converted itself; name another one to write.`);
  }
  if (!force && !(folder && [...Deno.readDirSync(to)].length === 0)) {
    throw new UserError("usage", `${to} exists already; name another file, or replace it with --force.`);
  }
}

function readWeights(file: CheckpointFile): Weights {
  const { key, tensors, others } = findStateDict(file.root, file.path);
  const weights: Weights = {
    tensors,
    values: {},
    dropped: others.map((name) => key === "" ? name : `${key}.${name}`),
  };
  const keep = (name: string, value: Value) => {
    const json = toJson(value);
    if (json === undefined) weights.dropped.push(name);
    else weights.values[name] = json;
  };
  if (key === "") {
    // Beside the tensors of a bare state dict; what is no JSON was dropped above.
    weights.dropped = [];
    for (const name of others) keep(name, (file.root as Map<Key, Value>).get(name) ?? null);
  } else {
    for (const [name, value] of file.root as Map<Key, Value>) if (name !== key) keep(String(name), value);
  }
  for (const [name, text] of Object.entries(file.metadata)) {
    if (name === METADATA_KEY) Object.assign(weights.values, parseValues(text, file.path));
    else if (name !== "format") weights.values[name] = text;
  }
  return weights;
}

function parseValues(text: string, path: string): { [key: string]: Json } {
  try {
    const values = JSON.parse(text);
    // Nested deeper than any of ours: refused before something recurses over it.
    if (toJson(fromJson(values)) !== undefined && typeof values === "object" && !Array.isArray(values)) {
      return values ?? {};
    }
  } catch {
    // The same sentence for all that is wrong with it.
  }
  throw new UserError(
    "checkpoint",
    `${path}: its metadata "${METADATA_KEY}" is not the JSON that hpctrain writes.`,
  );
}

function stripped(tensors: Map<string, TensorData>, prefix: string, path: string): Map<string, TensorData> {
  const renamed = new Map(
    [...tensors].map((
      [name, tensor],
    ) => [name.startsWith(prefix) ? name.slice(prefix.length) : name, tensor]),
  );
  const [first] = tensors.keys();
  if (![...tensors.keys()].some((name) => name.startsWith(prefix))) {
    throw new UserError(
      "usage",
      `${path}: no tensor's name begins with "${prefix}"; the first is "${printable(first)}".`,
    );
  }
  if (renamed.size === tensors.size && !renamed.has("")) return renamed;
  throw new UserError("usage", `${path}: without "${prefix}" two tensors would have one name, or none.`);
}

function ptRoot(tensors: Map<string, TensorData>, values: { [key: string]: Json }): Value {
  const stateDict = new OrderedDict(tensors);
  if (Object.keys(values).length === 0) return stateDict;
  return new Map<Key, Value>([
    ...Object.entries(values).map(([key, value]) => [key, fromJson(value)] as const),
    ["model_state_dict", stateDict],
  ]);
}

/** "format" is what other readers of safetensors ask for. */
function metadataOf(values: { [key: string]: Json }): Record<string, string> {
  const metadata: Record<string, string> = { format: "pt" };
  if (Object.keys(values).length > 0) metadata[METADATA_KEY] = JSON.stringify(values);
  return metadata;
}
