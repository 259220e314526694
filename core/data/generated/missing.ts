// Training on made universes without a path: they are generated into the run's folder first, where they fit.
// May import config, dist, errors, packed, its siblings.
import { join } from "../../../deps/path.ts";
import type { Libtorch } from "../../../ffi/libraries/types.ts";
import { parseDuration } from "../../config/duration.ts";
import type { Config } from "../../config/settings.ts";
import { cpusHere } from "../../dist/cpus.ts";
import type { Where } from "../../dist/where.ts";
import { UserError } from "../../errors.ts";
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../format.ts";
import { key } from "../../random.ts";
import { freeAt } from "../packed/faults.ts";
import { INDEX } from "../packed/format.ts";
import { looksPacked } from "../packed/index_file.ts";
import { sizeOf } from "../packed/new_file.ts";
import { openProgress } from "../packed/progress.ts";
import { bytesOf, type Made } from "./made.ts";
import { madeFor } from "./open.ts";
import { hashOf, packMade } from "./pack.ts";

/** Generated data takes no more of what is free on the disk. */
const SHARE = 0.5;
const POLL_MS = 100;

export interface Ready {
  readonly config: Config;
  readonly notes: readonly string[];
}

/** Which part of the work is this process's. */
export type Part = Pick<Where, "rank" | "world" | "localWorld">;
const ALONE: Part = { rank: 0, world: 1, localWorld: 1 };

/** The settings with the folder as the data's path; as they were where there is nothing to generate. Ranks share the work. */
export async function generateMissing(
  config: Config,
  libtorch: Libtorch,
  who: Part = ALONE,
  freeIn: (folder: string) => number | undefined = freeAt,
): Promise<Ready> {
  const { data, training: { seed }, model, output, distributed } = config;
  const made = data.data_path === "" ? madeFor({ data, seed, model }) : null;
  if (!made) return { config, notes: [] };
  const out = folderOf(made, output.save_dir);
  const bytes = bytesOf(made), said = `${formatPlural(samplesOf(made), "sample")} (${formatBytes(bytes)})`;
  // What was begun once fitted then, and is a part of what is no longer free.
  const free = looksPacked(out) ? undefined : freeIn(out);
  if (free !== undefined && bytes > SHARE * free) {
    return { config, notes: [`Not kept on disk: ${said}, where ${formatBytes(free)} are free`] };
  }
  const quiet = output.quiet || output.json || who.rank > 0;
  const say = (line: string) => quiet ? undefined : console.log(line);
  say(`Generating ${said} into ${out}, unless they are there`);
  const began = performance.now();
  const now = await generate(made, out, libtorch, who, quiet);
  const seconds = (performance.now() - began) / 1000;
  const patience = parseDuration(distributed.timeout, "seconds")!.count;
  if (who.world > 1) await othersDone(out, who, patience, say);
  const notes = [
    now === 0
      ? `Generated before: ${out}`
      : `Generated ${formatPlural(now, "sample")} in ${formatDuration(seconds)}, ` +
        `${formatRate(now / seconds)} a second; the next run finds them in ${out}`,
  ];
  return { config: { ...config, data: { ...data, data_path: out } }, notes };
}

/** This rank's share; how many samples it made now. */
async function generate(
  made: Made,
  out: string,
  libtorch: Libtorch,
  who: Part,
  quiet: boolean,
): Promise<number> {
  const progress = openProgress("Generating", { quiet });
  const threads = Math.max(1, Math.floor(cpusHere() / who.localWorld));
  let now = 0;
  await packMade(made, {
    out,
    who,
    threads,
    libtorch,
    progress(at) {
      now = at.done - at.kept;
      progress.update(at);
    },
  }).finally(progress.clear);
  return now;
}

/** The last rank to end writes the index. As long as shards are added, somebody is at it. */
async function othersDone(
  out: string,
  { rank, world }: Part,
  patience: number,
  say: (line: string) => void,
): Promise<void> {
  let seen = -1, since = performance.now();
  while (sizeOf(join(out, INDEX)) < 0) {
    if (seen < 0) say("Waiting for the other ranks, which generate theirs");
    const there = [...Deno.readDirSync(out)].length;
    if (there !== seen) [seen, since] = [there, performance.now()];
    if (performance.now() - since > 1000 * patience) {
      throw new UserError(
        "communication",
        `Rank ${rank} of ${world} has generated its share of ${out}, and for ${formatDuration(patience)} ` +
          "(distributed.timeout) no other rank has added a shard: look at what those said. Started again, all " +
          "go on where they were.",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const samplesOf = ({ train, val }: Made) => train.length + (val?.length ?? 0);

/** The same samples have the same name. */
const folderOf = (made: Made, saveDir: string): string => {
  const hash = key(made.train.length, made.val?.length ?? 0, hashOf(made)).toString(16).padStart(16, "0");
  return join(saveDir, "data", `${made.kind}-${hash.slice(0, 8)}`);
};
