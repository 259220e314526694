// `hpctrain find-lr`: sweeps the learning rate over a few steps, and writes a picture and the numbers.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatLearningRate, formatPlural } from "../../core/base/format.ts";
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
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

// The picture of a learning-rate sweep: the loss of each step over its rate, as an SVG that follows the reader's light or dark.

const WIDTH = 720, HEIGHT = 400, LEFT = 62, RIGHT = 18, TOP = 34, BOTTOM = 52;
const TICKS = 5;

const STYLE = `
  svg { background: #fff; font: 13px system-ui, sans-serif; fill: #333; }
  .grid { stroke: #e3e3e3; } .axis { stroke: #888; } .raw { stroke: #9db7d5; } .smoothed { stroke: #1f5fa8; }
  .mark { stroke: #b4510e; } .dot, .said { fill: #b4510e; } .line { fill: none; }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181c; fill: #d6d6d6; } .grid { stroke: #2c3036; } .axis { stroke: #777; }
    .raw { stroke: #46617f; } .smoothed { stroke: #79b0ee; } .mark { stroke: #f0a15e; } .dot, .said { fill: #f0a15e; }
  }`;

export function ratePicture({ swept, suggestion, lowest }: FoundRate, title: string): string {
  const rates = swept.map(({ rate }) => Math.log10(rate)), smoothed = swept.map((one) => one.smoothed);
  const [from, to] = [rates[0], rates[rates.length - 1]];
  // The last steps, which explode, would press all others flat.
  const least = Math.min(...smoothed), first = smoothed[0];
  const top = Math.max(
    first,
    Math.min(Math.max(...smoothed), least + 2.5 * (first - least || Math.abs(first) || 1)),
  );
  const margin = 0.06 * (top - least || 1), low = least - margin, high = top + margin;
  const x = (log: number) => LEFT + (WIDTH - LEFT - RIGHT) * (log - from) / (to - from || 1);
  const y = (loss: number) => {
    const at = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (loss - low) / (high - low);
    return Math.min(HEIGHT - BOTTOM, Math.max(TOP, at));
  };
  const path = (values: readonly number[]) =>
    values.map((value, i) => `${i === 0 ? "M" : "L"}${x(rates[i]).toFixed(1)} ${y(value).toFixed(1)}`).join(
      "",
    );
  const decades = Array.from({ length: Math.floor(to) - Math.ceil(from) + 1 }, (_, i) => Math.ceil(from) + i);
  const losses = roundBetween(low, high);
  const chosen = suggestion === null ? -1 : swept.findIndex(({ rate }) => rate === suggestion);
  const mark = chosen < 0 ? "" : `
  <path class="mark" stroke-dasharray="4 4" d="M${x(rates[chosen]).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}"/>
  <circle class="dot" r="5" cx="${x(rates[chosen]).toFixed(1)}" cy="${y(smoothed[chosen]).toFixed(1)}"/>
  <text class="said" x="${x(rates[chosen]).toFixed(1)}" y="${TOP - 6}" text-anchor="middle">${
    formatLearningRate(suggestion!)
  }</text>`;
  const about = suggestion === null
    ? "The loss never falls."
    : `It falls fastest at ${formatLearningRate(suggestion)} and is lowest at ${formatLearningRate(lowest)}.`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="t d">
  <title id="t">${escaped(title)}</title>
  <desc id="d">Loss over the learning rate. ${about}</desc>
  <style>${STYLE}
  </style>
${
    decades.map((log) =>
      `  <path class="grid" d="M${x(log).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}"/><text x="${
        x(log).toFixed(1)
      }" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">1e${log}</text>`
    ).join("\n")
  }
${
    losses.map((loss) =>
      `  <path class="grid" d="M${LEFT} ${y(loss).toFixed(1)}H${WIDTH - RIGHT}"/><text x="${LEFT - 8}" y="${
        (y(loss) + 4).toFixed(1)
      }" text-anchor="end">${Number(loss.toPrecision(6))}</text>`
    ).join("\n")
  }
  <path class="line axis" d="M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}"/>
  <path class="line raw" d="${path(swept.map(({ loss }) => loss))}"/>
  <path class="line smoothed" stroke-width="2" d="${path(smoothed)}"/>${mark}
  <text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">learning rate</text>
  <text x="${LEFT}" y="18">loss: each step, and smoothed</text>
</svg>
`;
}

/** About five round numbers. */
function roundBetween(low: number, high: number): number[] {
  const rough = (high - low) / TICKS, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough)!,
    first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
