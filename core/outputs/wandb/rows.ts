// W&B's summary of a run, and its rows of system metrics.
import { type RanksEvent, type SystemEvent } from "../../run/events.ts";
import { TIME_PARTS } from "../../run/account.ts";
import { type HistoryRow, type RowValues, shortNumber } from "../rows.ts";
import { eachSystemScalar } from "../scalars.ts";
import type { HistoryItem } from "./records.ts";

export interface WandbSummary {
  seen(row: HistoryRow): void;
  set(name: string, json: string): void;
  changed(all?: boolean): HistoryItem[];
}

export function openWandbSummary(): WandbSummary {
  const values: RowValues = new Map();
  let touched = new Set<string>();
  let best = Infinity;
  const set = (name: string, json: string) => {
    if (values.get(name) === json) return;
    values.set(name, json);
    touched.add(name);
  };
  return {
    set,
    seen({ step, values: row }) {
      for (const [name, json] of row) if (!json.startsWith('{"_type":"histogram"')) set(name, json);
      const loss = Number(row.get("val/loss") ?? NaN);
      if (!Number.isFinite(loss) || loss >= best) return;
      best = loss;
      set("best/step", String(step));
      set("best/epoch", row.get("epoch") ?? "null");
      for (const [name, json] of row) {
        if (name.startsWith("val/") && name !== "val/seconds") set(`best/${name.slice(4)}`, json);
      }
    },
    changed(all = false) {
      const names = all ? [...values.keys()] : [...touched];
      touched = new Set();
      return names.map((name) => ({ key: [name], json: values.get(name) ?? "null" }));
    },
  };
}

export function systemItems(event: SystemEvent): HistoryItem[] {
  const items: HistoryItem[] = [];
  eachSystemScalar(event, (name, value) => items.push({ key: [name], json: shortNumber(value) }));
  return items;
}

export function rankItems(event: RanksEvent): HistoryItem[] {
  return TIME_PARTS.flatMap((part) =>
    (event[`${part}_s`] ?? []).map((s, rank) => ({
      key: [`rank.${rank}.${part}_ms`],
      json: shortNumber(1000 * s / event.steps),
    }))
  );
}
