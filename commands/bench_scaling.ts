// `hpctrain bench scaling RUN RUN...`: recorded runs on 1 to N ranks beside what would be ideal. Imports core.
import { resolve } from "../core/config/resolve.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { formatRate } from "../core/format.ts";
import { findRun } from "../core/track/find_run.ts";
import { doubts, type Scaled, scaling, speedOf } from "../core/track/scaling.ts";

const USAGE = "hpctrain bench scaling RUN RUN... [--save-dir DIR] [--json]";
const MOST = 1000;

export function benchScaling(argv: string[]): number {
  const { config, positionals } = resolve({
    argv,
    env: Deno.env.toObject(),
    positionals: MOST,
    usage: USAGE,
  });
  const names = positionals.slice(1);
  if (names.length < 2) {
    throw new UserError(
      "usage",
      `bench scaling compares two runs or more, on different numbers of ranks. Usage: ${USAGE}`,
    );
  }
  const speeds = names.map((name) => speedOf(findRun(name, config.output.save_dir)));
  const doubt = doubts(speeds);
  const rows = scaling(speeds);
  if (config.output.json) {
    console.log(JSON.stringify({ bench: "scaling", doubt, runs: rows }));
    return EXIT.done;
  }
  if (doubt !== null) console.error(`warning: ${doubt}`);
  const width = Math.max(3, ...rows.map(({ run }) => run.length));
  const line = (first: string, ...cells: string[]) =>
    first.padEnd(width) + cells.map((cell) => cell.padStart(15)).join("");
  console.log(
    line("run", "ranks", "samples/s", "a rank", "speed-up", "ideal", "efficiency", "communication", "loader"),
  );
  for (const row of rows) console.log(line(row.run, ...cellsOf(row)));
  return EXIT.done;
}

function cellsOf(
  { ranks, samplesPerSecond, speedUp, ideal, efficiency, communication, loader }: Scaled,
): string[] {
  const percent = (share: number | null) => share === null ? "-" : `${(100 * share).toFixed(1)}%`;
  return [
    `${ranks}`,
    formatRate(samplesPerSecond),
    formatRate(samplesPerSecond / ranks),
    `${speedUp.toFixed(2)}x`,
    `${ideal.toFixed(2)}x`,
    percent(efficiency),
    percent(communication),
    percent(loader),
  ];
}
