// Which rows of a table can be trained with. May import errors, format, columns (types), column_tensors (types).
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import type { Field } from "./column_tensors.ts";
import type { Table } from "./columns.ts";

/** Rows without NaN or infinity; null where that is all of them. */
export function goodRows(
  { path, noun, absent: marked }: Table,
  fields: readonly Field[],
  samples: number,
  mode: "fail" | "skip",
  notes: string[],
): Int32Array | null {
  const absent = marked?.();
  const bad = fields.flatMap((field) => field.bad).flatMap(({ name, rows }) => {
    const judged = absent ? rows.map((ok, i) => ok | absent[i]) : rows;
    return judged.includes(0) ? [{ name, rows: judged }] : [];
  });
  const without = absent?.reduce((sum, one) => sum + one, 0) ?? 0;
  if (without > 0) notes.push(`Left out ${without} of ${formatPlural(samples, "sample")} marked as missing`);
  if (bad.length === 0 && without === 0) return null;
  const told = bad.map(({ name, rows }) => `${name} (${rows.reduce((sum, ok) => sum + 1 - ok, 0)})`);
  if (mode === "fail" && bad.length > 0) {
    const { name, rows } = bad[0];
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" is NaN, infinite or missing in ${
        rows.reduce((sum, ok) => sum + 1 - ok, 0)
      } ` +
        `of ${formatPlural(samples, "sample")}, first in sample ${rows.indexOf(0)} (counted from 0)` +
        `${bad.length > 1 ? `; so are others: ${told.slice(1).join(", ")}` : ""}. ` +
        "Repair them, or leave such samples out with --bad-samples skip.",
    );
  }
  const kept = Int32Array.from({ length: samples }, (_, i) => i).filter((i) =>
    absent?.[i] !== 1 && bad.every(({ rows }) => rows[i] === 1)
  );
  if (kept.length === 0) {
    throw new UserError(
      "data",
      `${path}: no sample is left without NaN or missing values` +
        `${told.length > 0 ? `: ${told.join(", ")}` : ""}. Choose others with --features and --targets.`,
    );
  }
  if (bad.length === 0) return kept;
  notes.push(
    `Left out ${samples - without - kept.length} of ${
      formatPlural(samples, "sample")
    } with NaN, infinite or missing ` +
      `values (--bad-samples skip): ${told.join(", ")}`,
  );
  return kept;
}
