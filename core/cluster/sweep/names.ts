// What the runs of a sweep are called: by their values. Pure. May import axes, points (types).
import type { Axis } from "./axes.ts";
import type { Point } from "./points.ts";

/** Long names make long paths. */
const LONGEST = 100;
const SHORT: Readonly<Record<string, string>> = {
  learning_rate: "lr",
  batch_size: "bs",
  weight_decay: "wd",
  hidden_size: "hidden",
  type: "opt",
  name: "",
};

/** Every name is a file's name, and no two are alike. */
export function namesOf(sweep: string, axes: readonly Axis[], points: readonly Point[]): string[] {
  const plain = points.map((point) => {
    const parts = point.map((value, i) => (SHORT[axes[i].name] ?? axes[i].name) + slugOf(value));
    return [sweep, ...parts].join("-").slice(0, LONGEST).replace(/[-.+]+$/, "");
  });
  const seen = new Map<string, number>();
  for (const name of plain) seen.set(name, (seen.get(name) ?? 0) + 1);
  return plain.map((name, i) => seen.get(name)! > 1 ? `${name}-run${i}` : name);
}

const slugOf = (value: string) =>
  value.split("/").at(-1)!.normalize("NFKD").replace(/[^\w.+]+/g, "-").replace(/^-+|-+$/g, "");
