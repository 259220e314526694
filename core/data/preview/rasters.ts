// Which fields are images or maps, and one sample of them. May import picture, preview (types).
import { type Raster, rowMajor } from "./picture.ts";
import type { Pictures, PreviewField } from "./preview.ts";

/** A side of fewer is a small table, not a map. */
const SHORTEST = 4;

/** [channels, height, width] of a sample, and its strides; null where it is no picture. */
function layoutOf(row: readonly number[]): Pick<Raster, "shape" | "strides"> | null {
  if (row.length === 2) return layoutOf([1, ...row]);
  if (row.length !== 3) return null;
  const [a, b, c] = row;
  // Channels are last where there are at most four and far more rows and columns, as training takes it too.
  const shape = c <= 4 && a > 4 && b > 4 ? [c, a, b] : row;
  const strides = shape === row ? rowMajor(row) : [1, b * c, c];
  return Math.min(shape[1], shape[2]) >= SHORTEST ? { shape, strides } : null;
}

/** Of the first field that has some. */
export function picturesOf(fields: readonly PreviewField[]): Pictures | null {
  const usable = fields.filter(({ read }) => read !== null);
  for (const field of usable) {
    const layout = layoutOf(field.shape.slice(1));
    if (layout) return pictures(field, field.shape[0], layout, (sample) => field.read!(sample, 1));
  }
  // A grid with named dimensions and no others is a single map.
  for (const field of usable) {
    const layout = field.dimensions?.length === 2 ? layoutOf(field.shape) : null;
    if (layout) return pictures(field, 1, layout, () => field.read!(0, field.shape[0]));
  }
  return null;
}

function pictures(
  { name, dtype }: PreviewField,
  count: number,
  layout: Pick<Raster, "shape" | "strides">,
  read: (sample: number) => Raster["values"],
): Pictures {
  const isImage = dtype === "u8" && [1, 3, 4].includes(layout.shape[0]);
  return { field: name, count, raster: (sample) => ({ ...layout, isImage, values: read(sample) }) };
}
