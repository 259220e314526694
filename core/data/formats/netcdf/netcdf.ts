// Variables of NetCDF and HDF5 files become samples. NetCDF-4 files are HDF5 inside, so both are read here.
import { UserError } from "../../../base/errors.ts";
import type { Format } from "../../format.ts";
import { withFiles } from "../../arrays/files.ts";
import { filesIn, holds } from "../../arrays/paths.ts";
import { isHdf5, loadHdf5For, withHdf5 } from "./hdf5/hdf5.ts";
import { headerNotes } from "./hdf5/header_notes.ts";
import { isKnown } from "./hdf5/own_reader.ts";
import { followOtherFiles } from "./hdf5/library.ts";
import { classicVariables } from "./classic.ts";
import {
  type Content,
  joinedContent,
  variableColumns,
  type VariablesFile,
  variablesFormat,
  withAuxiliary,
} from "../../tables/gridded.ts";

type Kind = "netcdf" | "hdf5";

const ENDINGS: Readonly<Record<Kind, readonly string[]>> = {
  netcdf: [".nc", ".nc4", ".cdf"],
  hdf5: [".h5", ".hdf5"],
};

const formatOf = (kind: Kind): Format =>
  variablesFormat({
    endings: ENDINGS[kind],
    folder: { has: `${ENDINGS[kind][0]} files`, detect: (path) => holds(path, ENDINGS[kind]) },
    path: "the file, folder or files to read",
    reader({ data_path, external_files }) {
      followOtherFiles(external_files);
      return loadFor(kind, data_path);
    },
  }, (path, use, along) => withVariables(kind, path, use, along));

export const netcdf = formatOf("netcdf"), hdf5 = formatOf("hdf5");

async function loadFor(kind: Kind, path: string): Promise<void> {
  const many = filesIn(path, ENDINGS[kind]), notes = many ? headerNotes(path) : null;
  for (const file of many ?? [path]) {
    try {
      if (!Deno.statSync(file).isFile) continue;
    } catch {
      continue; // opening it says why it can't be read
    }
    const own = notes?.of(file); // there are some of HDF5 files alone
    if (own?.isEmpty === false || bytesOf(file) === "hdf5") await loadHdf5For(file, own);
  }
}

type Variables = Omit<VariablesFile, "path">;

/** The file stays open while `use` runs; its reader must be loaded. */
function withVariables<R>(kind: Kind, path: string, use: (content: Content) => R, along = ""): R {
  const files = filesIn(path, ENDINGS[kind]);
  if (files) return use(joined(kind, path, files, along));
  return withFile(kind, path, ({ variables, isNetcdf }) =>
    use({
      path,
      kind: isNetcdf ? "NetCDF file" : "HDF5 file",
      noun: nounOf(kind, isNetcdf),
      isNetcdf,
      columns: variableColumns(variables, isNetcdf),
      notes: [],
    }));
}

const nounOf = (kind: Kind, isNetcdf: boolean) => isNetcdf || kind === "netcdf" ? "variable" : "dataset";

function joined(kind: Kind, path: string, files: readonly string[], along: string): Content {
  if (files.length === 0) {
    const endings = ENDINGS[kind].join(", ");
    throw new UserError("data", `The folder ${path} has no file in it that ends in ${endings}.`);
  }
  const found = files.map((file) => ({ path: file, ...detached(kind, file) }));
  const isNetcdf = found.every(({ isNetcdf }) => isNetcdf);
  const about = { kind: `${isNetcdf ? "NetCDF" : "HDF5"} files`, noun: nounOf(kind, isNetcdf) };
  const content = joinedContent(path, found, { ...about, along });
  headerNotes(path).keep();
  return content;
}

/** Variables open their file when they are read: hundreds of files must not be open at once. */
function detached(kind: Kind, path: string): Variables {
  return withFile(kind, path, ({ variables, isNetcdf }) => ({
    isNetcdf,
    variables: withAuxiliary(variables).map((variable, i) => ({
      ...variable,
      read: () => withFile(kind, path, ({ variables }) => variables[i].read()),
      rows: (lead: number) => withFile(kind, path, ({ variables }) => variables[i].rows(lead)),
    })),
  }));
}

function withFile<R>(kind: Kind, path: string, use: (found: Variables) => R): R {
  switch (bytesOf(path)) {
    case "classic":
      if (kind === "hdf5") {
        throw new UserError("data", `${path} is a classic NetCDF file, not HDF5: use --data-type netcdf.`);
      }
      return withFiles((open) => use({ variables: classicVariables(open(path)), isNetcdf: true }));
    case "hdf5":
      return withHdf5(path, use);
  }
  const name = kind === "hdf5" ? "HDF5" : "NetCDF";
  throw new UserError(
    "data",
    `${path} is no ${name} file: its first bytes are neither those of HDF5 nor "CDF". ` +
      "Check that it was copied as a whole, or name the kind of data with --data-type.",
  );
}

/** The first bytes say which it is. */
function bytesOf(path: string): "classic" | "hdf5" | null {
  if (isKnown(path)) return "hdf5";
  return withFiles((open) => {
    const file = open(path);
    // A user block before HDF5 takes 512 bytes, or twice, four times, ... as many.
    for (let at = 0; at + 8 <= file.size; at = at === 0 ? 512 : at * 2) {
      const head = file.read(at, 8);
      if (isHdf5(head)) return "hdf5";
      if (at === 0 && String.fromCharCode(...head.subarray(0, 3)) === "CDF") return "classic";
    }
    return null;
  });
}
