// The lines as a person reads them, and the verdict under them. Pure; may import line, format.
import { formatPlural } from "../../format.ts";
import { type Line, worst } from "./line.ts";

/** One line a finding, whatever its length: greppable, and nothing is cut. */
export function table(lines: readonly Line[]): string {
  const width = Math.max(...lines.map(({ name }) => name.length));
  return lines.map(({ state, name, said, fix }) =>
    `  ${state.padEnd(4)}  ${name.padEnd(width)}  ${capped(said)}${fix ? `. ${fix}` : ""}`
  ).join("\n");
}

/** Of several lines, what others said may be more than one. */
const capped = (text: string): string => text.replaceAll(/\s*\n\s*/g, "; ").trim();

export function verdict(lines: readonly Line[]): string {
  const named = (
    state: Line["state"],
  ) => [...new Set(lines.filter((line) => line.state === state).map(({ name }) => name))];
  const bad = named("bad"), warned = named("warn");
  const warnings = lines.filter(({ state }) => state === "warn").length;
  switch (worst(lines)) {
    case "bad":
      return `Verdict: training here would fail, for this: ${bad.join(", ")}.`;
    case "warn":
      return `Verdict: training works here, with ${formatPlural(warnings, "warning")}: ${warned.join(", ")}.`;
    default:
      return "Verdict: good. Training works here.";
  }
}

export const exitCode = (lines: readonly Line[]): number => worst(lines) === "bad" ? 1 : 0;
