import { didYouMean } from "../../base/suggest.ts";
import { UserError } from "../../base/errors.ts";
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import type { TableFile } from "../format.ts";
import { detect, FORMATS } from "./formats.ts";
import { loadAllReaders } from "./readers.ts";
import { filesNamed, isUrl } from "../arrays/paths.ts";
import { BadSample, type Rows, rulesOf } from "../arrays/rows.ts";
import { dimensionsOf } from "../preview/dimensions.ts";
import { picturesOf, type Preview } from "../preview/preview.ts";
import { applyRule, bytesOf, typedView, type VariableValues } from "../arrays/numbers.ts";
import { freeMemory } from "../../base/memory.ts";
import { openRows } from "../arrays/open_rows.ts";
import { dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import type { Column, ColumnStream } from "../arrays/table.ts";
import type { PreviewField } from "../preview/axes.ts";
import { readAllRows } from "../arrays/files.ts";

/** The data is open while `use` runs. auto looks at the path. */
export async function withPreview<R>(
  path: string,
  type: string,
  use: (preview: Preview) => R,
): Promise<R> {
  try {
    const kind = type === "auto" ? fileShown(path) ?? detect(path) : type as DataKind;
    const { prepare, table, preview } = await FORMATS[kind]?.load() ?? {};
    if (!table && !preview) throw await unseen(kind);
    await prepare?.({ data_path: path, external_files: false });
    return preview ? preview(path, use) : table!(path, (found) => use(tablePreview(found)));
  } catch (error) {
    if (!(error instanceof BadSample)) throw error;
    throw new UserError("data", `${error.path || path} ${error.reason}.`, { cause: error });
  }
}

const fileShown = (path: string): DataKind | undefined =>
  DATA_KIND_NAMES.find((kind) => FORMATS[kind].previews?.test(path));

async function unseen(kind: string): Promise<UserError> {
  const readers = await loadAllReaders();
  const kinds = readers.filter(([, { table, preview }]) => table || preview).map(([kind]) => kind);
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

type Read = NonNullable<PreviewField["read"]>;

function columnField(column: Column): PreviewField {
  const { name, shape, text, unusable, onlyByName, whole, stream, dimensions, units } = column;
  const stored = stream && (whole || isFloating(stream.raw)) ? stream.raw : null;
  const dtype = stored ?? column.dtype; // as it is stored, not the floats that can be missing
  const plain = { name, shape, dtype: text ? "text" : dtype, dimensions, units };
  if (unusable) return { ...plain, remark: unusable, read: null };
  const texts = text && classesOf(text);
  if (texts instanceof UserError) return { ...plain, remark: texts.message, read: null };
  const field = { ...plain, texts };
  const remark = onlyByName && shape.length > 0 ? "describes others" : undefined;
  const read = readerOf(column);
  return typeof read === "string" ? { ...field, remark: read, read: null } : { ...field, remark, read };
}

/** Texts that are all different are no classes, and yet a preview shows the other columns. */
function classesOf({ classes }: NonNullable<Column["text"]>): readonly string[] | UserError {
  try {
    return classes();
  } catch (error) {
    if (error instanceof UserError) return error;
    throw error;
  }
}

function commonLength(columns: readonly Column[]): number | null {
  const lengths = columns.filter(({ unusable, onlyByName }) => !unusable && !onlyByName)
    .map(({ shape }) => shape[0] ?? null);
  return lengths.length > 0 && lengths.every((length) => length === lengths[0]) ? lengths[0] : null;
}

/** A smaller column is read whole, once: that is faster than row by row. */
const SMALL_BYTES = 64 * 2 ** 20;

function readerOf(column: Column): Read | string {
  const { shape, dtype, stream } = column;
  const row = shape.slice(1).reduce((product, size) => product * size, 1);
  const bytes = (shape[0] ?? 1) * row * dtypeBytes(dtype);
  if (bytes <= SMALL_BYTES) return wholeRows(column, row);
  const rows = stream ? stream.rows() : "is text";
  if (stream && typeof rows !== "string") return singleRows(column, stream, rows, row);
  return bytes <= freeMemory() / 4 ? wholeRows(column, row) : `${rows}; as a whole it takes too much memory`;
}

function wholeRows(column: Column, row: number): Read {
  let whole: VariableValues | null = null;
  return (first, count) => slice(whole ??= readWhole(column), first * row, (first + count) * row);
}

function readWhole({ dtype, read }: Column): VariableValues {
  const values = read();
  // Scaled values, and columns with missing ones, come as floats.
  return values instanceof Float32Array || values instanceof Float64Array
    ? values
    : typedView(bytesOf(values), dtype);
}

const slice = (values: VariableValues, from: number, to: number): VariableValues =>
  (values as Float64Array).subarray(from, to);

/** The file is opened for each piece, so none stays open. */
function singleRows({ name }: Column, { raw, rule }: ColumnStream, rows: Rows, row: number): Read {
  const width = dtypeBytes(raw), bytes = row * width;
  return (first, count) => {
    const { stored, rules } = readRows(name, raw, rows, first, count, bytes);
    const values = typedView(stored, raw);
    if (!rule) return values;
    const numbers = new Float64Array(values.length);
    if (!rules) applyRule(rule, values, numbers);
    else {
      rules.forEach((own, i) => {
        const from = i * row, to = from + row;
        applyRule(own ?? rule, slice(values, from, to), numbers.subarray(from, to));
      });
    }
    return numbers;
  };
}

/** `rules` has one for each row, where files have their own. */
function readRows(
  name: string,
  raw: ColumnStream["raw"],
  rows: Rows,
  first: number,
  count: number,
  bytes: number,
) {
  if (rows.layout === "file" && !rows.blocks) {
    const place = { ...rows, begin: rows.begin + first * rows.step };
    return { stored: readAllRows(place, count, dtypeBytes(raw)), rules: null };
  }
  const { read, partOf, close } = openRows({ name, rows, raw }), rules = rulesOf(rows);
  try {
    const stored = new Uint8Array(count * bytes);
    for (let i = 0; i < count; i++) read(first + i, stored.subarray(i * bytes, (i + 1) * bytes));
    const own = (i: number) => rules![partOf!(first + i)];
    return { stored, rules: rules && partOf ? Array.from({ length: count }, (_, i) => own(i)) : null };
  } finally {
    close();
  }
}
