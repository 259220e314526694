// What W&B shows of a run as a whole: each name's last value, and the best evaluation. Imports nothing but types.
import type { Item } from "./records.ts";
import type { Row, Values } from "./rows.ts";

export interface Summary {
  /** Hears of each row in order, also of those of a run's earlier attempts. */
  seen(row: Row): void;
  set(name: string, json: string): void;
  /** What has changed since it was asked last; the whole where `all` is set. */
  changed(all?: boolean): Item[];
}

export function openSummary(): Summary {
  const values: Values = new Map();
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
      return names.map((name) => ({ key: [name], json: values.get(name)! }));
    },
  };
}
