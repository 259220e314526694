// `hpctrain convert`: a model's weights from .pt to .safetensors and back. Imports core/checkpoint, core/config/options.
import { fromJson, type Json, printable, toJson } from "../core/checkpoint/describe.ts";
import { type CheckpointFile, openCheckpoint } from "../core/checkpoint/open.ts";
import { writePt } from "../core/checkpoint/pt.ts";
import { writeSafetensors } from "../core/checkpoint/safetensors.ts";
import { findStateDict } from "../core/checkpoint/state_dict.ts";
import { type Key, OrderedDict, type TensorData, type Value } from "../core/checkpoint/value.ts";
import { parseOptions } from "../core/config/options.ts";
import { UserError } from "../core/errors.ts";
import { formatBytes, formatPlural } from "../core/format.ts";

const USAGE = "hpctrain convert IN OUT [--strip PREFIX] [--force]";
const HELP = `hpctrain convert: a model's weights from .pt to .safetensors and back

  ${USAGE}
      --strip PREFIX   take PREFIX off the tensors' names, e.g. --strip model.
      --force          replace OUT if it exists

The ending of OUT chooses the format. Weights are carried as they are; numbers, text and the configuration beside
them go into the safetensors metadata and come back from there; an optimizer's state is not carried.

Example: hpctrain convert checkpoints/run_best.pt weights.safetensors`;

/** Where the values beside the weights travel in a safetensors file. */
const METADATA_KEY = "hpctrain";

interface Weights {
  tensors: Map<string, TensorData>;
  values: { [key: string]: Json };
  dropped: string[];
}

// deno-lint-ignore require-await
export async function convert(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, {
    strip: { kind: "text", help: "take this off the names", value: "PREFIX" },
    force: { kind: "bool", help: "replace OUT if it exists" },
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
  const format = formatOf(to);
  using file = openCheckpoint(from);
  refuseOverwrite(from, to, options.force);
  const weights = readWeights(file);
  const tensors = options.strip === undefined
    ? weights.tensors
    : stripped(weights.tensors, options.strip, from);
  if (format === "pt") writePt(to, ptRoot(tensors, weights.values));
  else writeSafetensors(to, tensors, metadataOf(weights.values));
  const bytes = Deno.statSync(to).size;
  console.log(`Wrote ${formatPlural(tensors.size, "tensor")} to ${to} (${formatBytes(bytes)}).`);
  if (weights.dropped.length > 0) console.log(`Not carried: ${weights.dropped.map(printable).join(", ")}.`);
  return 0;
}

function formatOf(path: string): "pt" | "safetensors" {
  if (path.endsWith(".safetensors")) return "safetensors";
  if (/\.(pt|pth|ckpt|bin)$/.test(path)) return "pt";
  throw new UserError(
    "usage",
    `${path}: its ending must say the format: .pt (or .pth, .ckpt, .bin) or .safetensors.`,
  );
}

function refuseOverwrite(from: string, to: string, force: boolean): void {
  let found: Deno.FileInfo;
  try {
    found = Deno.statSync(to);
  } catch {
    return; // not there; anything else that is wrong shows when it is written
  }
  const source = Deno.statSync(from);
  if (found.dev === source.dev && found.ino === source.ino) {
    throw new UserError("usage", `${to} is the file to be converted itself; name another one to write.`);
  }
  if (!force) {
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
