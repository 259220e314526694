// NetCDF and HDF5 files -> samples: which variables, and what of them is one sample. May import errors, config, columns,
// the readers.
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { chooseColumns, list } from "./choose_columns.ts";
import { type ColumnSettings, type FromColumns, fromColumns } from "./columns.ts";
import { withFiles } from "./files.ts";
import { isHdf5, loadHdf5, withHdf5 } from "./hdf5.ts";
import { classicVariables } from "./netcdf_classic.ts";
import { toColumn, type Variable, type VariableColumn } from "./variables.ts";

type Kind = "netcdf" | "hdf5";

/** What has to be loaded before the data is opened. */
export async function loadReader({ type, data_path }: Config["data"]): Promise<void> {
  if (!["auto", "netcdf", "hdf5"].includes(type) || data_path === "") return;
  try {
    if (!Deno.statSync(data_path).isFile) return;
  } catch {
    return; // opening it says why it can't be read
  }
  if (formatOf(data_path) === "hdf5") await loadHdf5();
}

export function netcdf(kind: Kind, settings: ColumnSettings): FromColumns {
  const path = settings.data.data_path;
  if (path === "") throw new UserError("usage", `data.type ${kind} needs --data-path: the file to read.`);
  switch (formatOf(path)) {
    case "classic":
      if (kind === "hdf5") {
        throw new UserError("data", `${path} is a classic NetCDF file, not HDF5: use --data-type netcdf.`);
      }
      return withFiles((open) => samples("variable", true, classicVariables(open(path)), settings));
    case "hdf5":
      return withHdf5(
        path,
        ({ variables, isNetcdf }) =>
          samples(kind === "hdf5" ? "dataset" : "variable", isNetcdf, variables, settings),
      );
  }
  const name = kind === "hdf5" ? "HDF5" : "NetCDF";
  throw new UserError(
    "data",
    `${path} is no ${name} file: its first bytes are neither those of HDF5 nor "CDF". ` +
      "Check that it was copied as a whole, or name the kind of data with --data-type.",
  );
}

function formatOf(path: string): "classic" | "hdf5" | null {
  return withFiles((open) => {
    const file = open(path);
    // What another format may have put before HDF5 takes 512 bytes, or twice, four times, ... as many.
    for (let at = 0; at + 8 <= file.size; at = at === 0 ? 512 : at * 2) {
      const head = file.read(at, 8);
      if (isHdf5(head)) return "hdf5";
      if (at === 0 && String.fromCharCode(...head.subarray(0, 3)) === "CDF") return "classic";
    }
    return null;
  });
}

/** Models that take maps: for them a grid is one sample, for others each of its points is. */
const TAKES_MAPS = /^(simple-convnet|cosmo-cnn|vit|unet|resnet\d+)$/;

function samples(
  noun: string,
  isNetcdf: boolean,
  variables: readonly Variable[],
  settings: ColumnSettings,
): FromColumns {
  const { data, model } = settings;
  const path = data.data_path;
  const describing = described(variables);
  const columns = variables.map((variable) => {
    const auxiliary = variable.auxiliary || describing.has(variable.name.split("/").at(-1)!);
    return toColumn({ ...variable, auxiliary }, isNetcdf);
  });
  const table = { path, noun, columns };
  const { features, targets } = chooseColumns(table, data);
  const chosen = [...features, ...targets];
  const notes = data.features.length > 0 ? [] : aside(columns, chosen);
  const grid = chosen[0].variable.dimensions;
  const together = isNetcdf && grid.length > 0 && chosen.every((column) => sameGrid(column, grid));
  if (together && (grid.length === 1 || !TAKES_MAPS.test(model.name))) {
    const points = chosen[0].shape.reduce((total, size) => total * size, 1);
    if (grid.length > 1) {
      notes.push(`All are on (${grid.join(", ")}): each of the ${points} points is one sample`);
    }
    const absent = new Uint8Array(points);
    const flat = columns.map((column) =>
      sameGrid(column, grid) ? { ...column, shape: [points], read: () => column.readMarking(absent) } : column
    );
    const found = fromColumns({ ...table, columns: flat, absent: () => absent }, settings);
    return { ...found, notes: [...notes, ...found.notes] };
  }
  const stranger = chosen.find(({ variable }) => isNetcdf && variable.dimensions[0] !== grid[0]);
  if (stranger) {
    notes.push(
      `Samples are paired by position: ${chosen[0].name} is on (${
        grid.join(", ")
      }), but ${stranger.name} on ` +
        `(${stranger.variable.dimensions.join(", ")})`,
    );
  }
  const found = fromColumns(table, settings);
  return { ...found, notes: [...notes, ...found.notes] };
}

const sameGrid = ({ variable }: VariableColumn, grid: readonly string[]) =>
  variable.dimensions.join() === grid.join();

/** The names that other variables give as their coordinates, bounds and projection. */
function described(variables: readonly Variable[]): Set<string> {
  const texts = variables.flatMap(({ attributes }) =>
    ["coordinates", "bounds", "grid_mapping"].map((name) => attributes.get(name))
  );
  return new Set(texts.flatMap((text) => typeof text === "string" ? text.split(/[\s:]+/) : []));
}

/** What is there, but neither feature nor target unless somebody names it. */
function aside(columns: readonly VariableColumn[], chosen: readonly VariableColumn[]): string[] {
  const left = columns.filter((column) => column.onlyByName && !chosen.includes(column));
  const of = (why: string, which: (column: VariableColumn) => boolean) => {
    const these = left.filter(which);
    return these.length > 0 ? [`${list(these)} (${why})`] : [];
  };
  const told = [
    ...of("describes others", (column) => !column.unusable && column.shape.length > 0),
    ...of("one number", (column) => !column.unusable && column.shape.length === 0),
    ...of("no numbers that can be read", (column) => column.unusable !== undefined),
  ];
  return told.length > 0 ? [`Left aside: ${told.join("; ")}`] : [];
}
