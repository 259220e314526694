// Samples become pictures: an image's pixels, a map's values by colour, and many pictures as one sheet.
import { crc32, deflateSync } from "node:zlib";

/** viridis at 0, 0.1, ..., 1; colours between are interpolated. */
const STOPS = [
  0x440154,
  0x482475,
  0x414487,
  0x355f8d,
  0x2a788e,
  0x21918c,
  0x22a884,
  0x44bf70,
  0x7ad151,
  0xbddf26,
  0xfde725,
].map((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]);

type Stops = readonly (readonly number[])[];

/** A share goes from 0 to 1. */
export type Colours = (share: number, rgb: Uint8Array, at: number) => void;

const between = (stops: Stops): Colours => (share, rgb, at) => {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2), part = place - low;
  for (let i = 0; i < 3; i++) rgb[at + i] = Math.round(stops[low][i] * (1 - part) + stops[low + 1][i] * part);
};

export const viridis: Colours = between(STOPS);

/** cividis, for shares: it looks alike to the colour-blind. */
export const cividis: Colours = between(
  [0x00224e, 0x213b6e, 0x4c556c, 0x6c6e72, 0x8d8878, 0xb2a570, 0xd7c455, 0xfee838].map((
    colour,
  ) => [colour >> 16, (colour >> 8) & 255, colour & 255]),
);

/** Differences are blue below zero, white at it and red above. */
export const diverging: Colours = between(
  [0x2166ac, 0x92c5de, 0xf7f7f7, 0xf4a582, 0xb2182b].map((
    colour,
  ) => [colour >> 16, (colour >> 8) & 255, colour & 255]),
);

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
}

export interface Raster {
  readonly values: ArrayLike<number> | ArrayLike<bigint>;
  /** The shape is [channels, height, width]. */
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** The last row is drawn on top: maps whose rows begin in the south. */
  readonly fromBelow?: boolean;
  /** Images have one or three channels of bytes; all else is maps, one a channel. */
  readonly isImage: boolean;
  /** Each map's range of colours is its own by default. */
  readonly ranges?: readonly ValueRange[];
  /** Maps are in viridis by default. */
  readonly colours?: Colours;
}

export type ValueRange = readonly [least: number, most: number];

export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

const MOST_PANELS = 4;
const BACKGROUND = 24;
/** Points that are missing, such as land, have a grey that no colour of a value has. */
const MISSING = 128;
const GAP = 1;

export const rowMajorStrides = (shape: readonly number[]): number[] =>
  shape.map((_, i) => shape.slice(i + 1).reduce((product, size) => product * size, 1));

/** Maps of several channels show the first ones beside each other. */
export function paint(raster: Raster, most: PictureSize): Picture {
  const { shape: [channels], isImage, ranges = [], colours = viridis } = raster;
  if (isImage) {
    const size = fitted(raster, most);
    const planes = Array.from({ length: channels < 3 ? 1 : 3 }, (_, c) => shrunk(raster, c, size));
    const rgb = new Uint8Array(3 * size.width * size.height);
    for (let i = 0; i < rgb.length; i++) rgb[i] = Math.round(planes[i % planes.length][Math.floor(i / 3)]);
    return { ...size, rgb };
  }
  const panels = Math.min(channels, MOST_PANELS);
  const width = Math.max(1, Math.floor((most.width - (panels - 1) * GAP) / panels));
  const size = fitted(raster, { width, height: most.height });
  return contactSheet(
    Array.from({ length: panels }, (_, c) => coloured(shrunk(raster, c, size), size, colours, ranges[c])),
    panels,
    GAP,
  );
}

function fitted({ shape: [, height, width] }: Raster, most: PictureSize): PictureSize {
  const scale = Math.min(1, most.width / width, most.height / height);
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

/** A pixel is the mean of the finite values it covers. */
function shrunk(
  { values, shape, strides, fromBelow = false }: Raster,
  channel: number,
  { width, height }: PictureSize,
): Float64Array {
  const plane = new Float64Array(width * height);
  const from = (i: number, size: number, of: number) => Math.floor(i * of / size);
  for (let y = 0, at = 0; y < height; y++) {
    const top = from(y, height, shape[1]), bottom = Math.max(top + 1, from(y + 1, height, shape[1]));
    for (let x = 0; x < width; x++, at++) {
      const left = from(x, width, shape[2]), right = Math.max(left + 1, from(x + 1, width, shape[2]));
      let sum = 0, count = 0;
      for (let at = top; at < bottom; at++) {
        const row = fromBelow ? shape[1] - 1 - at : at;
        for (let column = left; column < right; column++) {
          const value = Number(values[channel * strides[0] + row * strides[1] + column * strides[2]]);
          if (!Number.isFinite(value)) continue;
          sum += value;
          count++;
        }
      }
      plane[at] = count > 0 ? sum / count : NaN;
    }
  }
  return plane;
}

export function pictureRange(values: Float64Array): ValueRange {
  let least = Infinity, most = -Infinity;
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

function coloured(
  plane: Float64Array,
  size: PictureSize,
  colours: Colours,
  range = pictureRange(plane),
): Picture {
  const [least, most] = range;
  const rgb = new Uint8Array(3 * plane.length).fill(MISSING);
  plane.forEach((value, i) => {
    if (!Number.isNaN(value)) {
      colours(most > least ? Math.min(1, Math.max(0, (value - least) / (most - least))) : 0.5, rgb, 3 * i);
    }
  });
  return { ...size, rgb };
}

export function contactSheet(pictures: readonly Picture[], columns: number, gap: number): Picture {
  const across = Math.min(columns, pictures.length), down = Math.ceil(pictures.length / across);
  const place = {
    width: Math.max(...pictures.map(({ width }) => width)),
    height: Math.max(...pictures.map(({ height }) => height)),
  };
  const width = across * (place.width + gap) - gap, height = down * (place.height + gap) - gap;
  const rgb = new Uint8Array(3 * width * height).fill(BACKGROUND);
  pictures.forEach((picture, i) => {
    const left = i % across * (place.width + gap), top = Math.floor(i / across) * (place.height + gap);
    for (let y = 0; y < picture.height; y++) {
      const row = picture.rgb.subarray(3 * y * picture.width, 3 * (y + 1) * picture.width);
      rgb.set(row, 3 * ((top + y) * width + left));
    }
  });
  return { width, height, rgb };
}

export function enlarged({ width, height, rgb }: Picture, times: number): Picture {
  if (times === 1) return { width, height, rgb };
  const wide = new Uint8Array(rgb.length * times * times);
  for (let y = 0, at = 0; y < height * times; y++) {
    for (let x = 0; x < width * times; x++, at += 3) {
      const from = 3 * (Math.floor(y / times) * width + Math.floor(x / times));
      wide.set(rgb.subarray(from, from + 3), at);
    }
  }
  return { width: width * times, height: height * times, rgb: wide };
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

const RGB = 2, PALETTE = 3;

export const encodePng = ({ width, height, rgb }: Picture): Uint8Array<ArrayBuffer> =>
  png(width, height, RGB, rgb, []);

/** One more than the colours of a palette, and transparent. */
const NO_COLOUR = 255;

/** Values of a map in the colours of a range; NaN is transparent. It takes a third of an encodePng. */
export function encodeMapPng(
  { width, height, values }: { width: number; height: number; values: ArrayLike<number> },
  [least, most]: ValueRange,
  colours: Colours,
): Uint8Array<ArrayBuffer> {
  const palette = new Uint8Array(3 * (NO_COLOUR + 1)), shares = new Uint8Array(NO_COLOUR + 1).fill(255);
  for (let i = 0; i < NO_COLOUR; i++) colours(i / (NO_COLOUR - 1), palette, 3 * i);
  shares[NO_COLOUR] = 0;
  const scale = most > least ? (NO_COLOUR - 1) / (most - least) : 0;
  const indices = Uint8Array.from(values, (value) => {
    if (Number.isNaN(value)) return NO_COLOUR;
    const at = scale === 0 ? (NO_COLOUR - 1) / 2 : (value - least) * scale;
    return Math.round(Math.min(NO_COLOUR - 1, Math.max(0, at)));
  });
  return png(width, height, PALETTE, indices, [chunk("PLTE", palette), chunk("tRNS", shares)]);
}

/** Okabe and Ito's colours, which the colour-blind tell apart, and others after them. */
const CLASS_COLOURS = [
  ...[0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442, 0x6b4fbb],
  ...[0x8c8c8c, 0x7a3b00, 0xb3de69, 0x003f5c, 0xfccde5, 0x00c2b2, 0x800026, 0xd9d9d9],
];

/** Red, green and blue. */
export function colourOfClass(k: number): readonly number[] {
  const colour = CLASS_COLOURS[k % CLASS_COLOURS.length];
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
}

/** The place of each pixel in the palette is its class. */
export function encodeClassPng(
  { width, height, values }: { width: number; height: number; values: Uint8Array },
): Uint8Array<ArrayBuffer> {
  const palette = new Uint8Array(3 * 256);
  for (let i = 0; i < 256; i++) palette.set(colourOfClass(i), 3 * i);
  return png(width, height, PALETTE, values, [chunk("PLTE", palette)]);
}

function png(
  width: number,
  height: number,
  kind: number,
  pixels: Uint8Array,
  tables: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8); // bits a channel
  header.setUint8(9, kind);
  const line = pixels.length / height, rows = new Uint8Array(height * (1 + line));
  for (let y = 0; y < height; y++) rows.set(pixels.subarray(y * line, (y + 1) * line), y * (1 + line) + 1);
  const parts = [
    Uint8Array.from(SIGNATURE),
    chunk("IHDR", new Uint8Array(header.buffer)),
    ...tables,
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array(0)),
  ];
  const file = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    file.set(part, at);
    at += part.length;
  }
  return file;
}

function chunk(name: string, bytes: Uint8Array): Uint8Array {
  const made = new Uint8Array(bytes.length + 12), view = new DataView(made.buffer);
  view.setUint32(0, bytes.length);
  made.set(new TextEncoder().encode(name), 4);
  made.set(bytes, 8);
  view.setUint32(8 + bytes.length, crc32(made.subarray(4, 8 + bytes.length)));
  return made;
}
