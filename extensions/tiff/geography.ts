// GeoTIFF's tags say where a page's pixels lie, in which coordinates, and what its bands mean.
import { dtypeBytes } from "../../ffi/dtype.ts";
import type { Variable } from "../../core/data/arrays/table.ts";
import { GEO, numbers, tagText, type TiffPage } from "./directory.ts";

export interface GeoTransform {
  /** The middle of the first pixel, and the steps from one to the next. */
  readonly x: readonly [first: number, step: number];
  readonly y: readonly [first: number, step: number];
  readonly geographic: boolean;
  readonly epsg: number | null;
}

/** Keys of the directory of keys. */
const MODEL = 1024, RASTER = 1025, GEOGRAPHIC = 2048, PROJECTED = 3072;
const IS_GEOGRAPHIC = 2, IS_POINT = 2, USER_DEFINED = 32767;

/** Null where the page says nothing of it, or is turned. */
export function geoTransformOf({ tags }: TiffPage): GeoTransform | null {
  const keys = keysOf(numbers(tags, GEO.keys));
  const half = keys.get(RASTER) === IS_POINT ? 0 : 0.5;
  const matrix = numbers(tags, GEO.matrix),
    scale = numbers(tags, GEO.scale),
    tie = numbers(tags, GEO.tiepoint);
  let x: GeoTransform["x"], y: GeoTransform["y"];
  if (matrix.length >= 8 && matrix[1] === 0 && matrix[4] === 0) {
    x = [matrix[3] + half * matrix[0], matrix[0]];
    y = [matrix[7] + half * matrix[5], matrix[5]];
  } else if (scale.length >= 2 && tie.length === 6) {
    x = [tie[3] + (half - tie[0]) * scale[0], scale[0]];
    y = [tie[4] - (half - tie[1]) * scale[1], -scale[1]];
  } else return null;
  if (![...x, ...y].every(Number.isFinite) || x[1] === 0 || y[1] === 0) return null;
  const epsg = keys.get(PROJECTED) ?? keys.get(GEOGRAPHIC) ?? USER_DEFINED;
  return { x, y, geographic: keys.get(MODEL) === IS_GEOGRAPHIC, epsg: epsg === USER_DEFINED ? null : epsg };
}

/** After a head of four come four numbers a key; those that lie elsewhere are no codes. */
function keysOf(list: readonly number[]): Map<number, number> {
  const found = new Map<number, number>();
  for (let at = 4; at + 3 < list.length; at += 4) {
    if (list[at + 1] === 0) found.set(list[at], list[at + 3]);
  }
  return found;
}

export function placeVariables({ x, y, geographic }: GeoTransform, { height, width }: TiffPage): Variable[] {
  const along = ([first, step]: GeoTransform["x"], size: number) =>
    Float64Array.from({ length: size }, (_, i) => first + i * step);
  const about = (axis: "x" | "y") =>
    new Map(Object.entries(
      geographic
        ? axis === "x"
          ? { standard_name: "longitude", units: "degrees_east" }
          : { standard_name: "latitude", units: "degrees_north" }
        : { standard_name: `projection_${axis}_coordinate`, units: "m" },
    ));
  return [held("y", along(y, height), "f64", about("y")), held("x", along(x, width), "f64", about("x"))];
}

/** A coordinate whose values are known. */
export function held(
  name: string,
  values: Int32Array | Float64Array,
  dtype: "i32" | "f64",
  attributes: Variable["attributes"] = new Map(),
): Variable {
  const bytes = new Uint8Array(values.buffer);
  return {
    ...{ name, shape: [values.length], dimensions: [name], dtype, attributes, auxiliary: true },
    read: () => bytes.slice(),
    rows: (lead) => ({
      ...{ layout: "held", path: name, values: bytes, bytes: lead > 0 ? dtypeBytes(dtype) : bytes.length },
    }),
  };
}

type Attributes = Variable["attributes"];

interface BandsAbout {
  readonly all: Attributes;
  readonly each: readonly { readonly name: string; readonly attributes: Attributes }[];
  /** The bands can't be one variable; the reason follows its name. */
  readonly conflict: string | null;
}

/** GDAL writes names, units, scales and offsets of bands as XML, and what stands for missing values as a text. */
export function aboutBands(page: TiffPage): BandsAbout {
  const { tags, bands, dtype } = page, xml = tagText(tags, GEO.metadata);
  const nodata = tagText(tags, GEO.nodata).trim(), missing = nodata === "" ? NaN : Number(nodata);
  const items = [...xml.matchAll(/<Item ([^>]*)>([^<]*)<\/Item>/g)].map(([, head, value]) => {
    const of = (key: string) => new RegExp(`${key}="([^"]*)"`).exec(head)?.[1];
    return { role: of("role"), band: Number(of("sample") ?? NaN), value: unescaped(value) };
  });
  const of = (band: number, role: string) =>
    items.find((item) => item.role === role && item.band === band)?.value;
  const place = geoTransformOf(page);
  const names = new Set<string>();
  const each = Array.from({ length: bands }, (_, band) => {
    const attributes = new Map<string, readonly number[] | string>();
    const number = (role: string, name: string, usual: number) => {
      const value = Number(of(band, role) ?? usual);
      if (Number.isFinite(value) && value !== usual) attributes.set(name, [value]);
    };
    number("scale", "scale_factor", 1);
    number("offset", "add_offset", 0);
    const units = of(band, "unittype"), described = of(band, "description");
    if (units) attributes.set("units", units);
    if (!Number.isNaN(missing) && !(dtype.startsWith("f") && nodata === "nan")) {
      attributes.set("_FillValue", [missing]);
    }
    if (place?.epsg) attributes.set("crs", `EPSG:${place.epsg}`);
    const own = described && !/[\s,=/]/.test(described) && !names.has(described) && described !== "image"
      ? described
      : `band_${band + 1}`;
    names.add(own);
    return { name: own, attributes };
  });
  const packing = ({ attributes }: (typeof each)[number]) =>
    ["scale_factor", "add_offset"].map((name) => String(attributes.get(name))).join();
  const alike = each.every((band) => packing(band) === packing(each[0]));
  const all = new Map(each[0].attributes);
  if (each.some(({ attributes }) => attributes.get("units") !== all.get("units"))) all.delete("units");
  return {
    all,
    each,
    conflict: alike
      ? null
      : `has bands of different scales: name them one by one (${
        each.slice(0, 3).map(({ name }) => name).join(", ")
      }, ...)`,
  };
}

const unescaped = (value: string): string =>
  value.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
