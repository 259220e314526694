// The parts that every check shares: findings with fixes, their table, and readers that neither throw nor
// hang.
import { readText } from "../../base/files.ts";
import { formatPlural } from "../../base/format.ts";

/** "bad" fails training here; "warn" slows or shortens it. */
type FindingState = "good" | "warn" | "bad";

export interface Finding {
  readonly name: string;
  readonly state: FindingState;
  readonly said: string;
  /** It is null where nothing is wrong. */
  readonly fix: string | null;
}

export const good = (name: string, said: string): Finding => ({ name, state: "good", said, fix: null });
export const warn = (name: string, said: string, fix: string): Finding => ({
  name,
  state: "warn",
  said,
  fix,
});
export const bad = (name: string, said: string, fix: string): Finding => ({ name, state: "bad", said, fix });

const worst = (lines: readonly Finding[]): FindingState =>
  lines.some(({ state }) => state === "bad")
    ? "bad"
    : lines.some(({ state }) => state === "warn")
    ? "warn"
    : "good";

export function olderVersion(a: string, b: string): boolean {
  const [left, right] = [a, b].map((version) => version.split(/[^\d]+/).filter(Boolean).map(Number));
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i] < right[i];
  }
  return false;
}

/** A finding is one line, so that grep finds it whole. */
export function findingsTable(lines: readonly Finding[]): string {
  const width = Math.max(...lines.map(({ name }) => name.length));
  return lines.map(({ state, name, said, fix }) =>
    `  ${state.padEnd(4)}  ${name.padEnd(width)}  ${capped(said)}${fix ? `. ${fix}` : ""}`
  ).join("\n");
}

const capped = (text: string): string => text.replaceAll(/\s*\n\s*/g, "; ").trim();

export function findingsSummary(lines: readonly Finding[]): string {
  const named = (
    state: Finding["state"],
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

export const exitCode = (lines: readonly Finding[]): number => worst(lines) === "bad" ? 1 : 0;

export const textIn = (path: string): string => readText(path) ?? "";

export function onPath(name: string, env: Readonly<Record<string, string>>): string | null {
  for (const folder of (env.PATH ?? "").split(":").filter((at) => at.startsWith("/"))) {
    try {
      const file = Deno.statSync(`${folder}/${name}`);
      if (file.isFile && ((file.mode ?? 0o111) & 0o111) !== 0) return `${folder}/${name}`;
    } catch { /* the next */ }
  }
  return null;
}

/** A scheduler whose server is gone lets its programs wait for minutes. */
const PATIENCE_MS = 3000;

/** Returns null where the program can't be started, fails, or takes too long. */
export async function programOutput(
  program: string,
  args: string[],
  patience = PATIENCE_MS,
): Promise<string | null> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), patience);
  try {
    const { success, stdout, stderr } = await new Deno.Command(program, {
      args,
      stdin: "null",
      signal: over.signal,
      env: { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" },
    }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    return success ? text.trim() : null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}
