// The columns of a table of any kind, for writing them elsewhere. May import config, columns, the kinds of tables.
import type { Config } from "../../config/settings.ts";
import { chooseColumns, list } from "../choose_columns.ts";
import type { Column } from "../columns.ts";
import { readTable } from "../csv.ts";
import { withVariables } from "../netcdf.ts";
import { withArrays } from "../npz.ts";

/** The ones that are chosen, or all that have numbers; targets last, where a reader looks for them. */
export function withColumns<R>(
  kind: string,
  data: Config["data"],
  use: (columns: readonly Column[], notes: readonly string[]) => R,
): R {
  const path = data.data_path;
  const chosen = (noun: string, columns: readonly Column[]) => {
    const { features, targets } = chooseColumns({ path, noun, columns }, data);
    const all = [...features, ...targets];
    const left = columns.filter((column) => !all.includes(column));
    const texts = all.filter(({ text }) => text).map((column) =>
      `${column.name} is text, written as its numbers: ${
        column.text!.classes().map((text, i) => `${i} = ${text}`).join(", ")
      }`
    );
    return use(all, [...(left.length > 0 ? [`Left aside: ${list(left)}`] : []), ...texts]);
  };
  switch (kind) {
    case "csv":
      return chosen("column", readTable(path).columns);
    case "npz":
      return withArrays(path, (_, columns) => chosen("array", columns));
    case "netcdf":
    case "hdf5":
      return withVariables(kind, path, ({ noun, columns }) => chosen(noun, columns));
  }
  throw new Error(`internal: ${kind} has no columns.`);
}
