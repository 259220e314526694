// A checkpoint says what its model was trained on: the columns by name and order, and all that the model was made from.
import { toJson } from "../checkpoint/open.ts";
import { field, type Value } from "../checkpoint/value.ts";
import { hasColumns } from "../data/open/formats.ts";
import type { Opened } from "../data/open/open.ts";
import type { Fill } from "../data/source/missing.ts";
import type { RolloutRows } from "../data/source/rollout.ts";
import type { Facts } from "../models/model.ts";
import type { Config } from "../settings/settings.ts";

export interface TrainedOn {
  /** Their names in the data; null where it has no columns. */
  readonly columns: { readonly features: readonly string[]; readonly targets: readonly string[] } | null;
  readonly facts: Facts;
  /** An input's shape before patches are cut out of it. */
  readonly whole: readonly number[];
  /** Null where the model is not fed with its own predictions. */
  readonly rollout: SavedRollout | null;
}

export type SavedRollout = Pick<RolloutRows, "ahead" | "channels" | "fed"> & {
  readonly extra: number;
  readonly fill: Fill;
};

export function trainedOn({ train, chosen, whole, rollout }: Opened): TrainedOn {
  const names = (columns: readonly { readonly name: string }[]) => columns.map(({ name }) => name);
  const { columns: _, ...input } = train.facts.input; // the graph of an exported program knows its inputs itself
  return {
    columns: chosen ? { features: names(chosen.features), targets: names(chosen.targets) } : null,
    facts: { ...train.facts, input },
    whole,
    rollout: rollout && {
      ahead: rollout.ahead,
      channels: rollout.channels,
      fed: rollout.fed,
      extra: rollout.extra,
      fill: rollout.fill,
    },
  };
}

/** Null in a checkpoint of an older version or another program. */
export function savedTrainedOn(root: Value): TrainedOn | null {
  const saved = toJson(field(field(root, "hpctrain"), "trained_on") ?? null, true) as TrainedOn | null;
  const whole = (list: unknown) => Array.isArray(list) && list.every(Number.isSafeInteger);
  return whole(saved?.facts?.input?.shape) && whole(saved?.whole) ? saved : null;
}

/** Data is seen by the columns that the model was trained with, whatever else it has and in whatever order. */
export function columnsAsTrained(data: Config["data"], root: Value): Config["data"] {
  const columns = savedTrainedOn(root)?.columns;
  if (!columns || !hasColumns(data)) return data;
  const names = (own: string[], trained: readonly string[]) => own.length > 0 ? own : [...trained];
  return {
    ...data,
    features: names(data.features, columns.features),
    targets: names(data.targets, columns.targets),
  };
}
