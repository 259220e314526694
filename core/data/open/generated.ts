// Training without a path generates into the run's folder first, where the data fits.
import type { Libtorch } from "../../../ffi/libraries/find.ts";
import { join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatDuration, formatPlural, formatRate } from "../../base/format.ts";
import { fileSizeOf, freeAt } from "../../base/new_file.ts";
import { key } from "../../base/random.ts";
import { usableCores } from "../../base/topology.ts";
import type { DataKind } from "../../settings/formats.ts";
import { parseDuration } from "../../settings/setting.ts";
import type { Config } from "../../settings/settings.ts";
import type { Made } from "../format.ts";
import { isMade } from "./formats.ts";
import { loadReaderOf } from "./readers.ts";
import { looksPacked } from "../shards/index.ts";
import { INDEX } from "../shards/schema.ts";
import { openProgress } from "../../base/progress.ts";
import { bytesOf, hashOf, packMade } from "../synthetic/generate.ts";

/** Generated data takes at most this share of the free disk. */
const SHARE = 0.5;
const POLL_MS = 100;

interface Ready {
  readonly config: Config;
  readonly notes: readonly string[];
}

interface RankShare {
  readonly rank: number;
  readonly world: number;
  readonly localWorld: number;
}
const ALONE: RankShare = { rank: 0, world: 1, localWorld: 1 };

/** The result names the folder as the data's path where the ranks generated something. */
export async function generateMissing(
  config: Config,
  libtorch: Libtorch,
  who: RankShare = ALONE,
  { from, freeIn = freeAt }: {
    /** Who wants it: it takes minutes, and a shell's variable may be forgotten. */
    readonly from?: string;
    readonly freeIn?: (folder: string) => number | undefined;
  } = {},
): Promise<Ready> {
  const { data, output, distributed } = config;
  if (data.data_path !== "" || !isMade(data.type)) return { config, notes: [] };
  const made = (await loadReaderOf(data.type as DataKind)).made!(config);
  const out = folderOf(made, output.save_dir);
  const bytes = bytesOf(made), amount = `${formatPlural(samplesOf(made), "sample")} (${formatBytes(bytes)})`;
  // Data that was begun fitted then, and takes a part of what is no longer free.
  const free = looksPacked(out) ? undefined : freeIn(out);
  if (free !== undefined && bytes > SHARE * free) {
    return { config, notes: [`Not kept on disk: ${amount}, where ${formatBytes(free)} are free`] };
  }
  const quiet = output.quiet || output.json || who.rank > 0;
  const say = (line: string) => quiet ? undefined : console.log(line);
  say(`Generating ${amount} into ${out}, unless they are there${from ? `: ${from}` : ""}`);
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

async function generate(
  made: Made,
  out: string,
  libtorch: Libtorch,
  who: RankShare,
  quiet: boolean,
): Promise<number> {
  const progress = openProgress("Generating", { quiet });
  const threads = Math.max(1, Math.floor(usableCores() / who.localWorld));
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

/** The last rank writes the index. Added shards show that another rank still works. */
async function othersDone(
  out: string,
  { rank, world }: RankShare,
  patience: number,
  say: (line: string) => void,
): Promise<void> {
  let seen = -1, since = performance.now();
  while (fileSizeOf(join(out, INDEX)) < 0) {
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

const folderOf = (made: Made, saveDir: string): string => {
  const hash = key(made.train.length, made.val?.length ?? 0, hashOf(made)).toString(16).padStart(16, "0");
  return join(saveDir, "data", `${made.kind}-${hash.slice(0, 8)}`);
};
