// `hpctrain predict CHECKPOINT --out FILE`: what a model says of each sample. May import core, @std/path.
import { resolve as absolute } from "@std/path";
import { openCheckpoint } from "../core/checkpoint/open.ts";
import { judgedWeights } from "../core/checkpoint/judged_weights.ts";
import { loadWeights } from "../core/checkpoint/training_state.ts";
import { ownWords, parseOptions } from "../core/config/options.ts";
import { resolve, type Resolved } from "../core/config/resolve.ts";
import type { Config } from "../core/config/settings.ts";
import { loadReader } from "../core/data/open.ts";
import { openProgress } from "../core/data/packed/progress.ts";
import type { Source } from "../core/data/source.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { formatPlural } from "../core/format.ts";
import { columnsOf, type Part } from "../core/predict/columns.ts";
import { checkOut, writePredictions } from "../core/predict/file.ts";
import { predict as predictAll } from "../core/predict/predict.ts";
import { openBreath } from "../core/train/breath.ts";
import { build } from "../core/train/build.ts";
import { asUserError, openDevice } from "../core/train/device.ts";
import { openFeed } from "../core/train/feed.ts";
import { withOwnFigures } from "../core/train/figures.ts";
import { loaderThreads } from "../core/train/loader_threads.ts";
import { savedConfig } from "../core/train/resume.ts";
import { PREDICT_OPTIONS } from "./options.ts";
import { withUserCode } from "./user_code.ts";

const USAGE = "hpctrain predict CHECKPOINT --out FILE.npz|.csv|.nc [--all] [FLAGS]";

export async function predict(argv: string[]): Promise<number> {
  const { own, rest } = ownWords(argv, PREDICT_OPTIONS);
  const { options } = parseOptions(own, PREDICT_OPTIONS, USAGE);
  const env = Deno.env.toObject();
  const [path] = resolve({ argv: rest, env, positionals: 1, usage: USAGE }).positionals;
  if (path === undefined || options.out === undefined) {
    const what = path === undefined ? "Which checkpoint should predict?" : "Where should the predictions go?";
    throw new UserError("usage", `${what} Usage: ${USAGE}`);
  }
  checkOut(options.out);
  const saved = savedConfig(path);
  const resolved = await withUserCode(
    resolve({ argv: rest, env, positionals: 1, usage: USAGE, checkpoint: saved }),
  );
  try {
    return await toFile({ path, out: options.out, all: options.all, saved }, resolved, argv);
  } catch (error) {
    throw asUserError(error);
  }
}

/** Whether the data is not the run's own, however it was named: then all of its samples are new. */
function othersData({ data }: Config, saved: unknown): boolean {
  const own = (saved as Partial<Config> | null)?.data;
  const same = (a: string, b: string | undefined) => (a && absolute(a)) === (b && absolute(b));
  return !same(data.data_path, own?.data_path ?? "") || !same(data.code, own?.code ?? "");
}

interface Asked {
  readonly path: string;
  readonly out: string;
  readonly all: boolean;
  /** The run's own settings. */
  readonly saved: unknown;
}

async function toFile({ path, out, all, saved }: Asked, resolved: Resolved, argv: string[]): Promise<number> {
  using file = openCheckpoint(path);
  const config = withOwnFigures(resolved.config, file.root);
  const { quiet, json } = config.output;
  const { device } = openDevice(config);
  await loadReader(config.data);
  const { data, model, pass, channelsLast } = build(config, device, 1, true);
  loadWeights(model.root.stateDict(), judgedWeights(file.root).root, path);
  const others = othersData(config, saved);
  const sources = sourcesOf(data, all || others);
  const size = config.training.eval_batch_size || config.training.batch_size;
  const { loaders } = loaderThreads(resolved, device);
  const lanes = sources.map(({ source }) => ({ source, rows: size, parts: 1 }));
  const threads = { count: loaders, prefetch: config.data.prefetch_mib * 2 ** 20, lanes };
  const feed = openFeed({ device, channelsLast, loss: pass.loss, threads });
  const progress = openProgress("Predicting", { quiet: quiet || json });
  const breath = openBreath();
  const total = sources.reduce((sum, { source }) => sum + source.length, 0);
  const parts: Part[] = [];
  let before = 0;
  for (const { role, source } of sources) {
    const predictions = await predictAll(pass, source, feed, size, async (done) => {
      progress.update({ done: before + done, kept: 0, total });
      if (breath.due()) await breath.take();
    });
    parts.push({ role, predictions });
    before += source.length;
  }
  progress.clear();
  feed.close();
  const oneTable = sources.every(({ source }) => source.indices);
  const columns = columnsOf(parts, { oneTable, split: !others || !oneTable }, sources[0].source.names ?? []);
  writePredictions(out, columns, ["hpctrain predict", ...argv].join(" "));
  const said = columns.map(({ name, shape }) => `${name} [${shape.join(", ")}]`).join(", ");
  if (json) {
    console.log(
      JSON.stringify({
        checkpoint: path,
        out,
        samples: total,
        columns: columns.map(({ name, shape }) => ({ name, shape })),
      }),
    );
  } else console.log(`Wrote ${said} of ${formatPlural(total, "sample")} to ${out}.`);
  return EXIT.done;
}

function sourcesOf({ train, val }: { train: Source; val: Source | null }, all: boolean) {
  if (all) return [{ role: "train", source: train }, ...(val ? [{ role: "val", source: val }] : [])];
  if (val) return [{ role: "val", source: val }];
  throw new UserError(
    "data",
    "There is no validation data: give --all for all samples, or --data-path for others.",
  );
}
