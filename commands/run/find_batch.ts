// `hpctrain find-batch`: which batch sizes fit, and how fast each of them is.
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatDuration, formatMilliseconds, formatRate } from "../../core/base/format.ts";
import { type FoundBatch, searchBatches, type TriedBatch } from "../../core/train/finders/batch.ts";
import { beginAsRun } from "../../core/train/finders/probe.ts";
import { stepTimer } from "../../core/train/finders/timing.ts";
import { measureNoise, type Noise } from "../../core/train/finders/noise.ts";
import { asUserError } from "../../core/train/device.ts";
import { mostAtOnce } from "../../core/train/memory.ts";
import { USAGE } from "../find_batch.ts";
import { openForFinder } from "./find_here.ts";

export async function findBatch(argv: string[]): Promise<number> {
  try {
    const { resolved: { config }, device, built } = await openForFinder("find-batch", argv, USAGE);
    const { json, quiet } = config.output,
      say = (line: string) => json || quiet ? undefined : console.log(line);
    const notes: string[] = [],
      time = stepTimer(config, built, device, beginAsRun(config, built, device, notes));
    [...notes, built.model.describe()].forEach(say);
    say(HEAD);
    const most = {
      samples: built.data.train.length,
      memory: device === "cpu" ? mostAtOnce(config, built) : null,
    };
    const found = searchBatches(most, time, (tried) => say(line(tried)));
    if (found === null) {
      throw new UserError(
        "memory",
        "Not even the smallest batch fits into memory: try --amp bf16, --gradient-checkpointing or a smaller model.",
      );
    }
    const least = found.tried[0].size;
    const small = Math.min(
      Math.max(least, config.training.batch_size),
      Math.max(least, Math.floor(built.data.train.length / 8)),
      found.largest,
    );
    const noise = measureNoise(config, built, device, small);
    if (json) console.log(JSON.stringify({ device, ...found, noise_scale: noise && finite(noise.samples) }));
    else [adviceOf(found), ...(noise ? [noiseText(noise)] : [])].forEach((line) => console.log(line));
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

const finite = (value: number) => Number.isFinite(value) ? value : null;

const noiseText = ({ samples }: Noise): string =>
  Number.isFinite(samples)
    ? `Gradient noise scale with these weights: ${
      Math.round(samples)
    } samples. Far smaller batches learn more by growing, far ` +
      "larger ones hardly; it grows as a model learns (--init-from FILE measures a checkpoint)."
    : "The gradient is lost in its noise: batches of any of these sizes learn more by growing.";

const row = (...cells: string[]) => cells.map((cell) => cell.padStart(12)).join("");
const HEAD = row("batch", "samples/s", "a step", "memory");

const line = ({ size, rate, seconds, memory }: TriedBatch): string =>
  rate === null
    ? row(String(size), "does not fit")
    : row(String(size), formatRate(rate), formatStep(seconds!), formatBytes(memory!));

const formatStep = (seconds: number): string =>
  seconds < 1 ? formatMilliseconds(1000 * seconds) : formatDuration(seconds);

const ENDS: Readonly<Record<FoundBatch["end"], string>> = {
  memory: "the next one does not fit into memory",
  samples: "there are no more training samples",
  "no faster": "larger ones are no faster",
};

const adviceOf = ({ suggestion, fastest, largest, end }: FoundBatch): string =>
  `Suggested: --batch-size ${suggestion}, ${
    suggestion === fastest ? "the fastest" : `nearly as fast as ${fastest}, the fastest,`
  } of those up to ${largest}; ${ENDS[end]}. A step was timed op by op, with its samples at hand.`;
