// --vectors names components of vectors: they are found among the channels of samples.
import type { Column } from "../arrays/table.ts";
import { UserError } from "../../base/errors.ts";
import type { Pair, Vectors } from "../source/vectors.ts";
import { columnLayoutOf } from "./choose.ts";

interface Chosen {
  readonly path: string;
  readonly features: readonly Pick<Column, "name" | "shape">[];
  readonly targets: readonly Pick<Column, "name" | "shape">[];
  /** Inputs have so many steps of time, and targets so many leads, one after the other. */
  readonly steps: number;
  readonly leads: number;
}

/** Null where no vectors are named. */
export function vectorsIn(named: readonly string[], chosen: Chosen): Vectors | null {
  if (named.length === 0) return null;
  const { path, features, targets, steps, leads } = chosen;
  const refuse = (why: string) =>
    new UserError(
      "usage",
      `--vectors ${
        named.join(",")
      }: ${why}. It names pairs of components, such as u10,v10 or u10,v10,taux,tauy.`,
    );
  if (named.length % 2 !== 0) throw refuse(`${named.at(-1)} has no other component`);
  const found = { input: [] as Pair[], target: [] as Pair[] };
  for (let i = 0; i < named.length; i += 2) {
    const pair = named.slice(i, i + 2);
    const input = channelsOf(features, pair, steps), target = channelsOf(targets, pair, leads);
    for (const pairs of [input, target]) if (typeof pairs === "string") throw refuse(`in ${path} ${pairs}`);
    if (input.length + target.length === 0) {
      throw refuse(`${pair.join(" and ")} are neither among the features of ${path} nor among the targets`);
    }
    found.input.push(...input as Pair[]);
    found.target.push(...target as Pair[]);
  }
  return { ...found, sense: 1 };
}

/** A string says why they are no pair; without any of the two there are none. */
function channelsOf(columns: Chosen["features"], pair: readonly string[], times: number): Pair[] | string {
  let all = 0;
  const places = new Map<string, { readonly from: number; readonly count: number }>();
  for (const { name, shape } of columns) {
    const count = columnLayoutOf({ shape })[1];
    if (pair.includes(name)) places.set(name, { from: all, count });
    all += count;
  }
  if (places.size === 0) return [];
  const [u, v] = pair.map((name) => places.get(name));
  if (!u || !v) return `${u ? pair[0] : pair[1]} is without ${u ? pair[1] : pair[0]}`;
  if (u.count !== v.count) return `${pair[0]} has ${u.count} channels, and ${pair[1]} ${v.count}`;
  return Array.from({ length: times * u.count }, (_, i): Pair => {
    const step = Math.floor(i / u.count) * all, level = i % u.count;
    return [step + u.from + level, step + v.from + level];
  });
}
