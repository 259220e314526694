// The directories of a TIFF file: what each page is, how its numbers are packed, and where its strips or tiles lie.
import type { DType } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import type { FileBytes } from "../../core/base/file_bytes.ts";

export interface TiffPage {
  readonly height: number;
  readonly width: number;
  readonly bands: number;
  readonly dtype: DType;
  /** The bands of a pixel lie together; otherwise each band has strips or tiles of its own. */
  readonly together: boolean;
  readonly block: { readonly height: number; readonly width: number; readonly isTile: boolean };
  readonly offsets: Float64Array;
  readonly sizes: Float64Array;
  readonly compression: number;
  readonly predictor: number;
  readonly bigEndian: boolean;
  readonly tags: Tags;
  /** The reason follows the page's name. */
  readonly unusable?: string;
}

type Tags = ReadonlyMap<number, readonly number[] | string>;

const TAG = {
  kind: 254,
  width: 256,
  height: 257,
  bits: 258,
  compression: 259,
  description: 270,
  fillOrder: 266,
  stripOffsets: 273,
  bands: 277,
  rowsPerStrip: 278,
  stripSizes: 279,
  planar: 284,
  predictor: 317,
  tileWidth: 322,
  tileHeight: 323,
  tileOffsets: 324,
  tileSizes: 325,
  format: 339,
  depth: 32997,
} as const;

export const GEO = {
  scale: 33550,
  tiepoint: 33922,
  matrix: 34264,
  keys: 34735,
  metadata: 42112,
  nodata: 42113,
};
export const DESCRIPTION = TAG.description;

/** Bytes of a value of each type; those above 12 are of BigTIFF. */
const SIZES: Readonly<Record<number, number>> = {
  ...{
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
  },
};
const TEXT = 2;
/** Other tags, such as previews and colour profiles, are not read. */
const READ = new Set<number>([...Object.values(TAG), ...Object.values(GEO)]);
const MOST_PAGES = 1_000_000,
  MOST_TAGS = 4096,
  MOST_TEXT = 2 ** 20,
  MOST_BLOCKS = 2 ** 26,
  MOST_SIDE = 2 ** 31;

export function readPages(file: FileBytes): TiffPage[] {
  const { path, size } = file;
  const head = size >= 16 ? file.read(0, 16) : new Uint8Array(16);
  const mark = String.fromCharCode(head[0], head[1]), big = head[mark === "MM" ? 3 : 2] === 43;
  const bigEndian = mark === "MM", version = bigEndian ? head[3] : head[2];
  if ((mark !== "II" && !bigEndian) || (version !== 42 && version !== 43)) {
    throw new UserError(
      "data",
      `${path} is no TIFF file: it doesn't begin with II or MM and 42. Check that it was copied as a whole.`,
    );
  }
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const first = big ? Number(view.getBigUint64(8, !bigEndian)) : view.getUint32(4, !bigEndian);
  const pages: TiffPage[] = [], known = new Set<number>();
  for (let at = first; at !== 0;) {
    if (known.has(at)) throw damaged(path, `its page ${pages.length} leads back to one before`);
    if (known.size >= MOST_PAGES) throw damaged(path, `it has more than ${MOST_PAGES} pages`);
    known.add(at);
    const { tags, next } = readTags(file, at, bigEndian, big, known.size - 1);
    at = next;
    const kind = numbers(tags, TAG.kind)[0] ?? 0;
    if ((kind & (REDUCED | MASK)) === 0) pages.push(pageOf(path, tags, bigEndian, pages.length));
  }
  if (pages.length === 0) throw damaged(path, "it has no page");
  return pages;
}

/** Smaller copies of a page, and marks of what is transparent in it. */
const REDUCED = 1, MASK = 4;

const damaged = (path: string, what: string) =>
  new UserError("data", `${path} is damaged: ${what}. Copy it again from where it came from.`);

function readTags(file: FileBytes, at: number, bigEndian: boolean, big: boolean, index: number) {
  const { path, size } = file, little = !bigEndian;
  const [countBytes, entry, wide] = big ? [8, 20, 8] : [2, 12, 4];
  const cut = () => damaged(path, `the directory of page ${index} lies outside of the file, or is cut off`);
  if (at < 8 || at + countBytes > size) throw cut();
  const word = (view: DataView, at: number) =>
    big ? Number(view.getBigUint64(at, little)) : view.getUint32(at, little);
  const start = viewOf(file.read(at, countBytes));
  const count = big ? Number(start.getBigUint64(0, little)) : start.getUint16(0, little);
  if (count > MOST_TAGS || at + countBytes + count * entry + wide > size) throw cut();
  const view = viewOf(file.read(at + countBytes, count * entry + wide));
  const tags = new Map<number, readonly number[] | string>();
  for (let i = 0, place = 0; i < count; i++, place += entry) {
    const tag = view.getUint16(place, little), type = view.getUint16(place + 2, little);
    const values = word(view, place + 4), width = SIZES[type], from = place + 4 + wide;
    if (!READ.has(tag) || width === undefined) continue;
    const bytes = values * width;
    const most = type === TEXT ? MOST_TEXT : MOST_BLOCKS * 8;
    if (bytes > Math.min(most, size)) {
      throw damaged(path, `the tag ${tag} of page ${index} has ${values} values`);
    }
    const inline = bytes <= wide, place2 = inline ? 0 : word(view, from);
    if (!inline && place2 + bytes > size) throw cut();
    const own = inline
      ? new DataView(view.buffer, view.byteOffset + from, bytes)
      : viewOf(file.read(place2, bytes));
    tags.set(tag, type === TEXT ? textOf(own) : valuesOf(own, type, values, width, little));
  }
  return { tags, next: word(view, count * entry) };
}

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const textOf = ({ buffer, byteOffset, byteLength }: DataView): string =>
  new TextDecoder().decode(new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)).replace(
    /\0[^]*$/,
    "",
  );

function valuesOf(view: DataView, type: number, count: number, width: number, little: boolean): number[] {
  const read = (at: number): number => {
    switch (type) {
      case 3:
        return view.getUint16(at, little);
      case 4:
      case 13:
        return view.getUint32(at, little);
      case 5:
        return view.getUint32(at, little) / view.getUint32(at + 4, little);
      case 6:
        return view.getInt8(at);
      case 8:
        return view.getInt16(at, little);
      case 9:
        return view.getInt32(at, little);
      case 10:
        return view.getInt32(at, little) / view.getInt32(at + 4, little);
      case 11:
        return view.getFloat32(at, little);
      case 12:
        return view.getFloat64(at, little);
      case 16:
      case 18:
        return Number(view.getBigUint64(at, little));
      case 17:
        return Number(view.getBigInt64(at, little));
    }
    return view.getUint8(at);
  };
  return Array.from({ length: count }, (_, i) => read(i * width));
}

export const numbers = (tags: Tags, tag: number): readonly number[] => {
  const found = tags.get(tag);
  return typeof found === "object" ? found : [];
};

export const tagText = (tags: Tags, tag: number): string => {
  const found = tags.get(tag);
  return typeof found === "string" ? found : "";
};

const TYPES: Readonly<Record<string, DType>> = {
  ...{ "1-8": "u8", "1-16": "u16", "1-32": "u32", "1-64": "u64", "2-8": "i8", "2-16": "i16", "2-32": "i32" },
  ...{ "2-64": "i64", "3-16": "f16", "3-32": "f32", "3-64": "f64" },
};

export const NONE = 1, LZW = 5, DEFLATES = [8, 32946], PACKBITS = 32773, ZSTD = 50000;
const CODECS: Readonly<Record<number, string>> = {
  ...{
    2: "CCITT",
    3: "CCITT",
    4: "CCITT",
    6: "JPEG",
    7: "JPEG",
    34712: "JPEG 2000",
    34887: "LERC",
    34925: "LZMA",
  },
  ...{ 50001: "WebP", 50002: "JPEG XL", 52546: "JPEG XL" },
};
export const REWRITE_ADVICE =
  `: write it again, gdal_translate -co COMPRESS=DEFLATE OLD NEW, or in Python: ` +
  `tifffile.imwrite('NEW', tifffile.imread('OLD'))`;

function pageOf(path: string, tags: Tags, bigEndian: boolean, index: number): TiffPage {
  const one = (tag: number, usual: number) => numbers(tags, tag)[0] ?? usual;
  const height = one(TAG.height, 0), width = one(TAG.width, 0), bands = one(TAG.bands, 1);
  const sides = [height, width, bands].every((side) =>
    Number.isInteger(side) && side > 0 && side < MOST_SIDE
  );
  if (!sides || height * width * bands > 2 ** 50) {
    throw damaged(path, `page ${index} is ${height} x ${width} x ${bands}`);
  }
  const bits = numbers(tags, TAG.bits), formats = numbers(tags, TAG.format);
  const alike = (list: readonly number[]) => list.every((value) => value === list[0]);
  const dtype = TYPES[`${formats[0] ?? 1}-${bits[0] ?? 1}`];
  const compression = one(TAG.compression, NONE), predictor = one(TAG.predictor, 1);
  const isTile = tags.has(TAG.tileOffsets);
  const rows = Math.min(one(TAG.rowsPerStrip, height), height);
  const block = isTile
    ? { height: one(TAG.tileHeight, 0), width: one(TAG.tileWidth, 0), isTile }
    : { height: rows, width, isTile };
  const together = one(TAG.planar, 1) === 1 || bands === 1;
  const offsets = Float64Array.from(numbers(tags, isTile ? TAG.tileOffsets : TAG.stripOffsets));
  const given = Float64Array.from(numbers(tags, isTile ? TAG.tileSizes : TAG.stripSizes));
  const inBlock = block.height * block.width;
  const blocks = inBlock > 0 && inBlock < 2 ** 50
    ? Math.ceil(height / block.height) * Math.ceil(width / block.width) * (together ? 1 : bands)
    : NaN;
  const single = blocks === 1 && given.length === 0 && compression === NONE && dtype !== undefined;
  const sizes = single ? Float64Array.of(height * width * bands * bits[0] / 8) : given;
  if (offsets.length !== blocks || sizes.length !== blocks) {
    throw damaged(path, `page ${index} has ${offsets.length} strips or tiles, and its size takes ${blocks}`);
  }
  const page = {
    ...{ height, width, bands, dtype: dtype ?? "u8", together, block, offsets, sizes },
    ...{ compression, predictor, bigEndian, tags },
  };
  const unusable = whyNot();
  return unusable ? { ...page, unusable } : page;

  function whyNot(): string | null {
    const known = [NONE, LZW, PACKBITS, ZSTD, ...DEFLATES];
    if (!known.includes(compression)) {
      return `is packed by ${
        CODECS[compression] ?? `method ${compression}`
      }, which can't be read here${REWRITE_ADVICE}`;
    }
    if (!alike(bits) || !alike(formats)) return `has bands of several types${REWRITE_ADVICE}`;
    if (formats[0] === 5 || formats[0] === 6) {
      return "holds complex numbers: write their real and imaginary parts as bands";
    }
    if (!dtype) {
      return `has numbers of ${
        bits[0] ?? 1
      } bits: write it again as bytes, gdal_translate -ot Byte -co NBITS=8 OLD NEW`;
    }
    if (![1, 2, 3].includes(predictor) || (predictor === 3 && !/^f/.test(dtype))) {
      return `has the predictor ${predictor}${REWRITE_ADVICE}`;
    }
    if (one(TAG.fillOrder, 1) !== 1 && compression !== NONE) {
      return `has its bits in reverse${REWRITE_ADVICE}`;
    }
    if (one(TAG.depth, 1) > 1) return `has strips of several slices${REWRITE_ADVICE}`;
    return null;
  }
}
