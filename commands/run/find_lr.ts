// `hpctrain find-lr`: sweeps the learning rate over a few steps, and writes a picture and the numbers.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatLearningRate, formatPlural } from "../../core/base/format.ts";
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { ratePicture } from "../../core/outputs/rate_picture.ts";
import { openProbe } from "../../core/train/finders/probe.ts";
import { type FoundRate, type RateSweep, sweepRates } from "../../core/train/finders/rate.ts";
import { asUserError } from "../../core/train/device.ts";
import { OPTIONS, USAGE } from "../find_lr.ts";
import { openForFinder } from "./find_here.ts";

const DEFAULTS: RateSweep = { from: 1e-7, to: 10, steps: 100 };
/** Fewer show no fall. */
const LEAST_STEPS = 10;

export async function findRate(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const sweep = sweepOf(options), out = options.out ?? "find-lr";
  try {
    const { resolved: { config }, device, built, loaders } = await openForFinder("find-lr", rest, USAGE);
    const { json, quiet } = config.output, notes: string[] = [];
    const probe = openProbe(config, built, device, loaders, notes);
    const say = (line: string) => json || quiet ? undefined : console.log(line);
    [...built.data.notes, ...notes, built.model.describe()].forEach(say);
    say(
      `Sweep: ${formatPlural(sweep.steps, "step")} of ${formatPlural(probe.samples, "sample")}, from ${
        formatLearningRate(sweep.from)
      } to ${formatLearningRate(sweep.to)}, with ${config.training.optimizer.type}`,
    );
    const found = sweepRates(sweep, probe.step);
    probe.close();
    if (found.swept.length === 0) throw explodedAtOnce(sweep);
    const { type } = config.training.optimizer;
    write(`${out}.svg`, ratePicture(found, `Learning rates of ${config.model.name} with ${type}`));
    write(
      `${out}.json`,
      JSON.stringify({ optimizer: type, samples: probe.samples, ...found }, null, 1) + "\n",
    );
    if (json) {
      console.log(
        JSON.stringify({ ...found, swept: undefined, picture: `${out}.svg`, numbers: `${out}.json` }),
      );
    } else for (const line of linesOf(found, out)) console.log(line);
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

const write = (path: string, text: string) =>
  writeAtomically(path, (file) => writeAll(file, new TextEncoder().encode(text)));

function linesOf({ suggestion, lowest, exploded, swept }: FoundRate, out: string): string[] {
  const end = exploded === null
    ? `The loss never grew far: all ${swept.length} steps were taken.`
    : `At ${formatLearningRate(exploded)} the loss exploded, after ${formatPlural(swept.length, "step")}.`;
  const advice = suggestion === null
    ? "The loss falls nowhere: give more --steps, a higher --to, or look at the data."
    : `Suggested: --lr ${suggestion.toPrecision(2)}, where the loss falls fastest; it is lowest at ${
      formatLearningRate(lowest)
    }.`;
  return [end, advice, `Written: ${out}.svg, ${out}.json`];
}

const explodedAtOnce = ({ from }: RateSweep): UserError =>
  new UserError(
    "numerics",
    `The loss of the first step is no number, at a rate of ${from}: look at the data with hpctrain inspect, or give a ` +
      "lower --from.",
  );

function sweepOf(options: { from?: string; to?: string; steps?: string }): RateSweep {
  const number = (name: "from" | "to" | "steps") => {
    const text = options[name];
    if (text === undefined) return DEFAULTS[name];
    const value = text.trim() === "" ? NaN : Number(text);
    if (value > 0 && value < Infinity) return value;
    throw new UserError("usage", `--${name} takes a number above 0, and "${text}" is none. Usage: ${USAGE}`);
  };
  const sweep = { from: number("from"), to: number("to"), steps: number("steps") };
  if (sweep.to <= sweep.from) {
    throw new UserError(
      "usage",
      `--to ${sweep.to} is not above --from ${sweep.from}: give a range to go up through.`,
    );
  }
  if (!Number.isInteger(sweep.steps) || sweep.steps < LEAST_STEPS) {
    throw new UserError(
      "usage",
      `--steps ${sweep.steps}: give a whole number of steps, at least ${LEAST_STEPS}.`,
    );
  }
  return sweep;
}
