// What kill storms have found, part by part, and the table of all of them. Test helper.
import { table } from "../../bench/report.ts";
import type { Tally } from "./storm.ts";
import { type Moment, MOMENTS } from "./storm_checks.ts";

/** One call of `scripts/storm`. */
export interface Part {
  /** No two parts have the same, so that none counts twice. */
  readonly seed: number;
  readonly version: string;
  readonly date: string;
  readonly minutes: number;
  readonly machine: { readonly cpu: string; readonly cores: number };
  readonly tallies: readonly Tally[];
}

const SHOWN: Record<Moment, string> = {
  starting: "before the first step (reading the checkpoint, setting up)",
  training: "between saves",
  writing: "in a save: the temporary file is half written",
  written: "in a save: the temporary file is whole, and not yet in place",
  renamed: "in a save: the file is in place, and the save not yet reported",
};

/** The seed of the next part: above all there are. */
export const nextSeed = (parts: readonly Part[]): number => 1 + Math.max(0, ...parts.map(({ seed }) => seed));

/** Together with the parts from before; one of the same seed is replaced, as it is the same part, further on. */
export const withPart = (parts: readonly Part[], part: Part): Part[] => [
  ...parts.filter(({ seed }) => seed !== part.seed),
  part,
];

/** What should not be, a sentence each. */
export const wrongIn = (parts: readonly Part[]): string[] =>
  parts.flatMap(({ tallies }) =>
    tallies.flatMap(({ unreadable, lost, different }) => [...unreadable, ...lost, ...different])
  );

/** Label and count, in the order of the two tables. */
export function rowsOf(parts: readonly Part[]): [label: string, count: number][] {
  const tallies = parts.flatMap(({ tallies }) => tallies);
  const sum = (of: (tally: Tally) => number) => tallies.reduce((sum, tally) => sum + of(tally), 0);
  const kills = MOMENTS.map((moment) => sum((tally) => tally.kills[moment]));
  return [
    ...MOMENTS.map((moment, i): [string, number] => [SHOWN[moment], kills[i]]),
    ["kills in all", kills.reduce((a, b) => a + b, 0)],
    ["checkpoints read back after a kill, every checksum compared", sum(({ read }) => read)],
    ["of them unreadable", sum(({ unreadable }) => unreadable.length)],
    ["saves that were reported as done", sum(({ saves }) => saves)],
    ["of them lost", sum(({ lost }) => lost.length)],
    ["runs that came to their end", sum(({ runs }) => runs)],
    ["of them with a bit that differs from the run that nobody killed", sum((t) => t.different.length)],
  ];
}

/** The section of docs/exactness.md. */
export function sectionOf(parts: readonly Part[]): string {
  const rows = rowsOf(parts).map(([label, count]) => [label, String(count)]);
  const list = (values: readonly (string | number)[]) => [...new Set(values)].join(", ");
  const minutes = parts.reduce((sum, part) => sum + part.minutes, 0);
  const about = `\`./scripts/storm\` in ${parts.length === 1 ? "one part" : `${parts.length} parts`} ` +
    `(--seed ${list(parts.map(({ seed }) => seed))}) of hpctrain ${
      list(parts.map(({ version }) => version))
    } on ${list(parts.map(({ date }) => date))}, ${Math.round(minutes)} minutes on ${
      list(parts.map(({ machine: { cpu, cores } }) => `${cpu} with ${cores} cores`))
    }. Two runs with saves every few steps (AdamW with averages and ` +
    "dropout; SGD in bf16 with accumulation and clipping) are killed with SIGKILL at any moment, about half of them " +
    "aimed at saves by watching the folder of checkpoints from outside, and resumed with `--resume auto`. At the end " +
    "weights, optimizer, averages and every loss of the log are compared with the run that was left alone.";
  return [
    "## Kill storm",
    about,
    table(["When the kill fell", "Kills"], rows.slice(0, MOMENTS.length + 1)),
    table(["What was left", "Count"], rows.slice(MOMENTS.length + 1)),
  ].join("\n\n");
}
