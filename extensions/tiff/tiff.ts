// Pages, bands and places of TIFF and GeoTIFF files become variables with named dimensions.
import { basename, dirname } from "../../deps/path.ts";
import { dtypeBytes, isFloating } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import { BY_FILE, joinFiles } from "../../core/data/arrays/joined.ts";
import { asOneSample } from "../../core/data/arrays/picked.ts";
import { elementOf, product } from "../../core/data/arrays/numbers.ts";
import { toColumn } from "../../core/data/arrays/variables.ts";
import type { Variable } from "../../core/data/arrays/table.ts";
import { markOf, withFiles } from "../../core/data/arrays/files.ts";
import { checkFreeMemory } from "../../core/base/memory.ts";
import { filesIn, filesText } from "../../core/data/arrays/paths.ts";
import { type Content, variablesReader, withAuxiliary } from "../../core/data/tables/gridded.ts";
import { readTiff, type TiffRows, tiffRows } from "./blocks.ts";
import { DESCRIPTION, GEO, readPages, tagText, type TiffPage } from "./directory.ts";
import { ENDINGS } from "./format.ts";
import { aboutBands, type GeoTransform, geoTransformOf, held, placeVariables } from "./geography.ts";

interface TiffFile {
  readonly path: string;
  readonly pages: readonly TiffPage[];
  readonly place: GeoTransform | null;
}

export const reader = variablesReader(withTiff);

export function withTiff<R>(path: string, use: (content: Content) => R, along = ""): R {
  const files = filesIn(path, ENDINGS) ?? (along === BY_FILE ? [path] : null);
  if (files?.length === 0) {
    throw new UserError("data", `The folder ${path} has no file in it that ends in ${ENDINGS.join(", ")}.`);
  }
  const found = (files ?? [path]).map(readTiffFile);
  return use(
    files ? joinedContent(path, found, along) : contentOf(path, "TIFF file", variablesOf(found[0], false)),
  );
}

const contentOf = (
  path: string,
  kind: string,
  variables: readonly Variable[],
  notes: readonly string[] = [],
) => ({
  ...{ path, kind, noun: "variable", isNetcdf: true, notes },
  columns: withAuxiliary(variables).map((variable) => toColumn(variable, true, false)),
});

/** All pages must be like the first; smaller copies of one are passed over. */
function readTiffFile(path: string): TiffFile {
  const pages = withFiles((open) => readPages(open(path)));
  const [first] = pages, about = tagText(first.tags, DESCRIPTION);
  const size = ({ height, width, bands, dtype }: TiffPage) => `${height} x ${width} x ${bands} of ${dtype}`;
  const odd = pages.findIndex((page) => size(page) !== size(first));
  if (odd > 0) {
    throw new UserError(
      "data",
      `${path}: page ${odd} (counted from 0) is ${size(pages[odd])}, and page 0 is ${
        size(first)
      }. Pages of one file ` +
        "are samples or steps of the same kind: write the others to a file of their own.",
    );
  }
  const count = Number(/^ImageJ=[^]*?\nimages=(\d+)/.exec(about)?.[1] ?? 1);
  if (count > pages.length) {
    throw new UserError(
      "data",
      `${path} is a stack of ImageJ's with ${count} pages, of which its directory has ${pages.length}. Write it again: ` +
        `python -c "import tifffile as t; t.imwrite('NEW.tif', t.imread('${path}'), imagej=False)".`,
    );
  }
  return { path, pages, place: geoTransformOf(first) };
}

/** Files of one page each are one sample each; otherwise pages are the samples. */
function joinedContent(path: string, found: readonly TiffFile[], along: string): Content {
  const single = found.every(({ pages }) => pages.length === 1), byFile = along === BY_FILE || single;
  const sets = setsOf(found);
  const notes: string[] = [], placed = samePlace(found);
  let file: Variable | null = null;
  const variables = sets.flatMap(({ name, files }) => {
    const given = files.map((file) => ({
      path: file.path,
      variables: variablesOf(placed ? file : { ...file, place: null }, byFile),
    }));
    const inOrder = path.includes(",");
    const joined = joinFiles(given, {
      named: true,
      inOrder,
      noun: "variable",
      along: byFile ? BY_FILE : along,
    });
    notes.push(...joined.notes);
    file ??= joined.file;
    return name === null ? joined.variables : joined.variables.map((one) => inSet(one, name));
  });
  const seen = new Set<string>();
  const once = variables.filter(({ name }) => !seen.has(name) && seen.add(name));
  const paths = found.map(({ path }) => path);
  const note = `${path}: ${filesText(paths)}${byFile ? ", each one sample" : " joined along page"}${
    sets.length > 1
      ? `; files of the folders ${sets.map(({ name }) => name).join(", ")} belong together by name`
      : ""
  }`;
  if (!placed && found.some(({ place }) => place !== null)) {
    notes.push("The files lie at different places: x and y are left out");
  }
  return {
    ...contentOf(path, "TIFF files", once, found.length > 1 ? [note, ...notes] : notes),
    dimension: byFile ? BY_FILE : along || "page",
    file,
  };
}

interface FileSet {
  /** The folder's name, where there are several. */
  readonly name: string | null;
  readonly files: readonly TiffFile[];
}

/** Folders whose files have the same names hold parts of the same samples, such as images and masks. */
function setsOf(found: readonly TiffFile[]): FileSet[] {
  const byFolder = Map.groupBy(found, ({ path }) => dirname(path));
  const stems = (files: readonly TiffFile[]) =>
    files.map(({ path }) => basename(path).replace(/\.[^.]*$/, "")).join("/");
  const sets = [...byFolder].map(([folder, files]) => ({ name: basename(folder), files }));
  const alike = sets.length > 1 && new Set(sets.map(({ name }) => name)).size === sets.length &&
    sets.every(({ files }) => stems(files) === stems(sets[0].files));
  return alike ? sets : [{ name: null, files: found }];
}

/** The main variable has the folder's name, bands have it in front; places and files are those of all. */
const inSet = (variable: Variable, set: string): Variable =>
  variable.name === IMAGE
    ? { ...variable, name: set }
    : isBand(variable)
    ? { ...variable, name: `${set}_${variable.name}` }
    : variable;

const isBand = ({ dimensions, auxiliary }: Variable) => auxiliary && dimensions.length >= 2;

const samePlace = (found: readonly TiffFile[]): boolean => {
  const [first, ...others] = found.map(({ place, pages: [{ height, width }] }) =>
    JSON.stringify([place, height, width])
  );
  return others.every((other) => other === first);
};

const IMAGE = "image";

/** With `isOne` the file is one sample, and its pages are channels. */
function variablesOf({ path, pages, place }: TiffFile, isOne: boolean): Variable[] {
  const [first] = pages, { bands } = first;
  const about = aboutBands(first);
  const image = imageOf(path, pages, isOne, null, about.all);
  if (about.conflict) Object.assign(image, { unusable: about.conflict });
  const single = bands === 1
    ? []
    : about.each.map(({ name, attributes }, band) => imageOf(path, pages, isOne, { name, band }, attributes));
  const fields = [image, ...single].map((one) => isOne ? asOneSample(one, BY_FILE) : one);
  return [
    ...fields,
    ...(bands > 1 ? [counted("band", bands)] : []),
    ...(place ? placeVariables(place, first) : []),
  ];
}

/** Bands are counted from 1, as in GDAL. */
function counted(name: string, size: number): Variable {
  const values = Int32Array.from({ length: size }, (_, i) => i + 1);
  return held(name, values, "i32");
}

function imageOf(
  path: string,
  pages: readonly TiffPage[],
  isOne: boolean,
  only: { readonly name: string; readonly band: number } | null,
  attributes: Variable["attributes"],
): Variable {
  const [{ height, width, bands, dtype, unusable, together, block, compression, predictor, bigEndian }] =
    pages;
  const withPages = !isOne || pages.length > 1, withBands = !only && bands > 1;
  const keep = <T>(page: T, band: T, y: T, x: T): T[] => [
    ...(withPages ? [page] : []),
    ...(withBands ? [band] : []),
    ...[y, x],
  ];
  const perBlock = together && !only ? bands : 1, bytes = dtypeBytes(dtype);
  const shape = keep(pages.length, bands, height, width),
    chunk = keep(1, perBlock, block.height, block.width);
  const odd = pages.findIndex((page) =>
    page.unusable || page.compression !== compression ||
    page.predictor !== predictor || page.together !== together || page.block.height !== block.height ||
    page.block.width !== block.width || page.block.isTile !== block.isTile
  );
  const reason = unusable ?? pages[odd]?.unusable ??
    (odd > 0
      ? `is packed in another way on page ${odd} (counted from 0) than on page 0: write it again`
      : undefined);
  let made: Omit<TiffRows, "lead"> | undefined;
  const rows = (lead: number): TiffRows => {
    if (!made) {
      checkFreeMemory(
        `${path}: a block of it`,
        product(chunk) * bytes,
        null,
        "Write it again in smaller tiles.",
      );
      const blocks = pages[0].offsets.length / (together ? 1 : bands);
      const [offsets, sizes] = (["offsets", "sizes"] as const).map((which) => {
        const part = !together && only
          ? [only.band * blocks, (only.band + 1) * blocks]
          : [0, pages[0][which].length];
        const all = new Float64Array(new SharedArrayBuffer(8 * pages.length * (part[1] - part[0])));
        pages.forEach((page, i) => all.set(page[which].subarray(part[0], part[1]), i * (part[1] - part[0])));
        return all;
      });
      made = {
        ...{
          layout: "format",
          module: tiffRows,
          access: "file",
          file: markOf(path),
          dtype,
          width: bytes,
          shape,
          chunk,
          block,
          height,
        },
        together: together ? bands : 1,
        wanted: together && only ? { first: only.band, count: 1 } : null,
        ...{ offsets, sizes, compression, predictor, bigEndian, fill: fillOf(pages[0]) },
      };
    }
    return { ...made, lead };
  };
  return {
    name: only?.name ?? IMAGE,
    shape,
    dimensions: keep("page", "band", "y", "x"),
    dtype,
    attributes,
    auxiliary: only !== null,
    ...(reason && { unusable: reason }),
    read() {
      checkFreeMemory(
        `${path}`,
        product(shape) * bytes,
        null,
        "Choose fewer files, or part of them with --sel.",
      );
      return readTiff(rows(0));
    },
    rows,
  };
}

/** Blocks that were never written have what stands for missing values, or 0. */
function fillOf({ tags, dtype }: TiffPage): Uint8Array {
  const value = Number(tagText(tags, GEO.nodata).trim() || 0);
  return elementOf(Number.isNaN(value) && !isFloating(dtype) ? 0 : value, dtype);
}
