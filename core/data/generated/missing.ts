// Training on made universes without a path: they are generated into the run's folder first, where they fit.
// May import config, dist, packed, its siblings.
import { join } from "@std/path";
import type { Libtorch } from "../../../ffi/libraries/types.ts";
import type { Config } from "../../config/settings.ts";
import { cpusHere } from "../../dist/cpus.ts";
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../format.ts";
import { key } from "../../random.ts";
import { freeAt } from "../packed/faults.ts";
import { openProgress } from "../packed/progress.ts";
import { bytesOf, type Made } from "./made.ts";
import { madeFor } from "./open.ts";
import { hashOf, packMade } from "./pack.ts";

/** Generated data takes no more of what is free on the disk. */
const SHARE = 0.5;

export interface Ready {
  readonly config: Config;
  readonly notes: readonly string[];
}

/** The settings with the folder as the data's path; as they were where there is nothing to generate. */
export async function generateMissing(
  config: Config,
  libtorch: Libtorch,
  freeIn: (folder: string) => number | undefined = freeAt,
): Promise<Ready> {
  const { data, training: { seed }, model, output } = config;
  const made = data.data_path === "" ? madeFor({ data, seed, model }) : null;
  if (!made) return { config, notes: [] };
  const out = folderOf(made, output.save_dir);
  const bytes = bytesOf(made), free = freeIn(out);
  const said = `${formatPlural(samplesOf(made), "sample")} (${formatBytes(bytes)})`;
  if (free !== undefined && bytes > SHARE * free) {
    return { config, notes: [`Not kept on disk: ${said}, where ${formatBytes(free)} are free`] };
  }
  const quiet = output.quiet || output.json;
  if (!quiet) console.log(`Generating ${said} into ${out}, unless they are there`);
  const progress = openProgress("Generating", { quiet });
  const began = performance.now();
  let now = 0;
  const work = { out, who: { rank: 0, world: 1 }, threads: cpusHere(), libtorch };
  await packMade(made, {
    ...work,
    progress(at) {
      now = at.done - at.kept;
      progress.update(at);
    },
  }).finally(progress.clear);
  const seconds = (performance.now() - began) / 1000;
  const notes = [
    now === 0
      ? `Generated before: ${out}`
      : `Generated ${formatPlural(now, "sample")} in ${formatDuration(seconds)}, ` +
        `${formatRate(now / seconds)} a second; the next run finds them in ${out}`,
  ];
  return { config: { ...config, data: { ...data, data_path: out } }, notes };
}

const samplesOf = ({ train, val }: Made) => train.length + (val?.length ?? 0);

/** The same samples have the same name. */
const folderOf = (made: Made, saveDir: string): string => {
  const hash = key(made.train.length, made.val?.length ?? 0, hashOf(made)).toString(16).padStart(16, "0");
  return join(saveDir, "data", `${made.kind}-${hash.slice(0, 8)}`);
};
