import { didYouMean } from "../../base/suggest.ts";
import { UserError } from "../../base/errors.ts";
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import { columnField, commonLength } from "./columns.ts";
import type { TableFile } from "../format.ts";
import { FORMATS } from "./formats.ts";
import { detect } from "./open.ts";
import { filesNamed, isUrl } from "../arrays/paths.ts";
import { BadSample } from "../source/reader.ts";
import { dimensionsOf } from "../preview/dimensions.ts";
import { picturesOf, type Preview } from "../preview/preview.ts";

/** The data is open while `use` runs. auto looks at the path. */
export async function withPreview<R>(
  path: string,
  type: string,
  use: (preview: Preview) => R,
): Promise<R> {
  try {
    const kind = type === "auto" ? fileShown(path) ?? detect(path) : type as DataKind;
    const { reader, table, preview } = FORMATS[kind] ?? {};
    if (!table && !preview) throw unseen(kind);
    await reader?.({ data_path: path, external_files: false });
    return preview ? preview(path, use) : table!(path, (found) => use(tablePreview(found)));
  } catch (error) {
    if (!(error instanceof BadSample)) throw error;
    throw new UserError("data", `${error.path || path} ${error.reason}.`, { cause: error });
  }
}

const fileShown = (path: string): DataKind | undefined =>
  DATA_KIND_NAMES.find((kind) => FORMATS[kind].previews?.test(path));

function unseen(kind: string): UserError {
  const kinds = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].table || FORMATS[kind].preview);
  return new UserError(
    "usage",
    `hpctrain inspect can't look into data of the type "${kind}".${didYouMean(kind, kinds)} ` +
      `It can into ${kinds.join(", ")}.`,
  );
}

function tablePreview(table: TableFile): Preview {
  const { path, kind, noun, columns, facts = {} } = table;
  const fields = columns.map(columnField);
  return {
    path,
    kind,
    bytes: sizeOf(path),
    samples: commonLength(columns),
    noun,
    facts,
    dimensions: dimensionsOf(table),
    fields,
    classes: null,
    // Columns that only describe others are no pictures.
    pictures: picturesOf(fields.filter((_, i) => !columns[i].onlyByName), fields),
  };
}

/** Null where nobody says. */
function sizeOf(path: string): number | null {
  if (isUrl(path)) return null;
  const files = filesNamed(path);
  if (files) return files.reduce((sum, file) => sum + (sizeOf(file) ?? 0), 0);
  const { isDirectory, size } = Deno.statSync(path);
  if (!isDirectory) return size;
  // Folders inside are those of a store; a link may lead back to one around it.
  return [...Deno.readDirSync(path)].reduce(
    (sum, { name, isDirectory }) =>
      sum + (isDirectory ? sizeOf(`${path}/${name}`) ?? 0 : Deno.statSync(`${path}/${name}`).size),
    0,
  );
}
