// A path -> the preview of the data there.
import { findLibtorch, noLibtorchSentence } from "../../../ffi/libraries/find.ts";
import { openLibtorch } from "../../../ffi/library.ts";
import { didYouMean } from "../../base/suggest.ts";
import { UserError } from "../../base/errors.ts";
import type { Column } from "../columns/columns.ts";
import { readTable } from "../formats/csv/csv.ts";
import { loadReader, withVariables } from "../formats/netcdf/netcdf.ts";
import { FORTRAN, withArrays } from "../formats/npz/npz.ts";
import { detect } from "../open.ts";
import { BadSample } from "../reading/reader.ts";
import { columnField, commonLength } from "../columns/preview.ts";
import { idxPreview, looksLikeIdx, mnistPreview } from "../formats/mnist/mnist.ts";
import { withImages } from "../formats/images/imagefolder.ts";
import { withPacked } from "../formats/packed/preview.ts";
import { picturesOf, type Preview } from "./preview.ts";
import { withTokens } from "../formats/tokens/tokens.ts";

const KINDS = ["mnist", "imagefolder", "packed", "tokens", "csv", "npz", "netcdf", "hdf5"];

type Use<R> = (preview: Preview) => R;

/** Opens what is at a path for as long as `use` runs. `type` is a setting's: auto looks at the path. */
export async function withPreview<R>(path: string, type: string, use: Use<R>): Promise<R> {
  try {
    return await withKind(path, type, use);
  } catch (error) {
    if (!(error instanceof BadSample)) throw error;
    throw new UserError("data", `${error.path || path} ${error.reason}.`, { cause: error });
  }
}

async function withKind<R>(path: string, type: string, use: Use<R>): Promise<R> {
  if (type === "auto" && looksLikeIdx(path)) return use(idxPreview(path));
  const found = type === "auto" ? detect(path) : type;
  switch (found) {
    case "mnist":
      return use(mnistPreview(path));
    case "imagefolder":
      return await withImages(path, use);
    case "packed":
      return await withPacked(path, use);
    case "tokens":
      return withTokens(path, use);
    case "csv": {
      const { layout, columns } = readTable(path);
      const facts = { layout: layout.said.replace(/^Read as text: /, "") };
      return use(tablePreview(path, "text table", "column", columns, facts));
    }
    case "npz":
      return withArrays(path, (kind, columns) => {
        if (columns.some(({ stream }) => stream?.rows() === FORTRAN)) useLibtorch();
        return use(tablePreview(path, kind, "array", columns));
      });
    case "netcdf":
    case "hdf5":
      return await netcdfPreview(path, found, use);
  }
  throw new UserError(
    "usage",
    `hpctrain inspect can't look into data of the type "${found}".${didYouMean(found, KINDS)} ` +
      `It can into ${KINDS.join(", ")}.`,
  );
}

async function netcdfPreview<R>(path: string, type: "netcdf" | "hdf5", use: Use<R>): Promise<R> {
  await loadReader({ type, data_path: path });
  return withVariables(type, path, ({ noun, isNetcdf, columns }) => {
    const more = columns.map(({ variable: { dimensions, attributes } }) => {
      const units = attributes.get("units");
      return { ...(isNetcdf ? { dimensions } : {}), ...(typeof units === "string" ? { units } : {}) };
    });
    return use(tablePreview(path, isNetcdf ? "NetCDF file" : "HDF5 file", noun, columns, {}, more));
  });
}

function tablePreview(
  path: string,
  kind: string,
  noun: string,
  columns: readonly Column[],
  facts: Preview["facts"] = {},
  more: readonly Parameters<typeof columnField>[1][] = [],
): Preview {
  const fields = columns.map((column, i) => columnField(column, more[i]));
  return {
    path,
    kind,
    bytes: sizeOf(path),
    samples: commonLength(columns),
    noun,
    facts,
    fields,
    classes: null,
    // What only describes the others is no sample.
    pictures: picturesOf(fields.filter((_, i) => !columns[i].onlyByName)),
  };
}

function sizeOf(path: string): number {
  const { isDirectory, size } = Deno.statSync(path);
  if (!isDirectory) return size;
  return [...Deno.readDirSync(path)].reduce(
    (sum, { name }) => sum + Deno.statSync(`${path}/${name}`).size,
    0,
  );
}

function useLibtorch(): void {
  const { chosen, rejected } = findLibtorch();
  if (!chosen) throw new UserError("environment", noLibtorchSentence(rejected));
  openLibtorch(chosen);
}
