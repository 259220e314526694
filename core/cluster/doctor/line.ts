// What a check has to say: one line, and where something is wrong what to do about it. Pure; imports nothing.

/** Bad: training here would fail. Warn: it would work, slower or not for long. */
export type State = "good" | "warn" | "bad";

export interface Line {
  /** The check: "libtorch", "storage". */
  readonly name: string;
  readonly state: State;
  readonly said: string;
  /** What to do; null where nothing is wrong. */
  readonly fix: string | null;
}

export const good = (name: string, said: string): Line => ({ name, state: "good", said, fix: null });
export const warn = (name: string, said: string, fix: string): Line => ({ name, state: "warn", said, fix });
export const bad = (name: string, said: string, fix: string): Line => ({ name, state: "bad", said, fix });

export const worst = (lines: readonly Line[]): State =>
  lines.some(({ state }) => state === "bad")
    ? "bad"
    : lines.some(({ state }) => state === "warn")
    ? "warn"
    : "good";

/** "0.2.0" < "0.10": by numbers, as far as both have them. */
export function olderVersion(a: string, b: string): boolean {
  const [left, right] = [a, b].map((version) => version.split(/[^\d]+/).filter(Boolean).map(Number));
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i] < right[i];
  }
  return false;
}
