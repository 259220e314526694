// The picture of a learning-rate sweep: the loss of each step over its rate, as an SVG that follows the reader's light or dark.
import { formatLearningRate } from "../base/format.ts";
import type { FoundRate } from "../train/finders/rate.ts";

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
