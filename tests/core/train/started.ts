// A whole run without the command line: settings, data, model, files in a folder that is removed. Test helper.
import { createHash } from "node:crypto";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { tensorBytes, TensorData } from "../../../core/checkpoint/value.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { loadDataReader } from "../../../core/data/open/open.ts";
import { openTrainer, type Trainer } from "../../../core/train/trainer.ts";
import { type Ending, giveSignalsBack } from "../../../core/train/stop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { useLibtorch } from "../../libtorch.ts";
import { settings } from "./rig.ts";

const libtorch = useLibtorch();
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // steps are compiled by default, and what that opens stays open

/** Prepares a run with these flags, lets `use` have it, and closes it. */
export async function started<T>(
  folder: string,
  flags: readonly string[],
  use: (prepared: Trainer) => T | Promise<T>,
  resume: string | null = null,
): Promise<T> {
  // Two runs have two ids at W&B, which would be all that differs in their checkpoints.
  const always = ["--quiet", "--log-interval", "1", "--threads", "1", "--no-wandb"];
  const config = settings("--save-dir", folder, ...always, ...flags);
  const loaders = config.data.num_workers;
  await loadDataReader(config.data);
  const from = resume === null ? null : { path: resume, run: "resumed" };
  const prepared = await openTrainer({
    config,
    preset: null,
    device: "cpu",
    libtorch,
    notes: [],
    outputs: [],
    resume: from,
    loaders,
  });
  try {
    return await use(prepared);
  } finally {
    await prepared.saver.close();
    prepared.feed.close();
    prepared.console.close();
    prepared.requests.close();
    giveSignalsBack();
    await prepared.events.close();
  }
}

type Line = { readonly kind: string; readonly [field: string]: any };

/** What the run has told. Another thread writes it, so the log is closed first: nothing more is written after it. */
export async function eventsIn({ events, paths }: Trainer): Promise<readonly Line[]> {
  await events.close();
  const lines = Deno.readTextFileSync(`${paths.logs}/events.jsonl`).trim().split("\n");
  return lines.filter(Boolean).map((line) => JSON.parse(line));
}

export interface Trained {
  readonly ending: Ending;
  /** Its last checkpoint. */
  readonly path: string;
  readonly events: readonly Line[];
}

export function trained(
  folder: string,
  flags: readonly string[],
  resume: string | null = null,
): Promise<Trained> {
  return started(folder, flags, async (prepared) => {
    const ending = await trainLoop(prepared);
    return { ending, path: latestPath(prepared.paths), events: await eventsIn(prepared) };
  }, resume);
}

/** A checkpoint's numbers and texts, and its tensors' digests, by their place in the file. */
export function contents(path: string): Map<string, string> {
  const found = new Map<string, string>();
  using file = openCheckpoint(path);
  const walk = (value: unknown, at: string) => {
    if (value instanceof Map) { for (const [key, item] of value) walk(item, `${at}/${key}`); }
    else if (Array.isArray(value)) value.forEach((item, i) => walk(item, `${at}/${i}`));
    else if (value instanceof TensorData) {
      found.set(at, createHash("sha256").update(tensorBytes(value)).digest("hex"));
    } else found.set(at, String(value));
  };
  walk(file.root, "");
  return found;
}
