// `hpctrain inspect` of a data set.
import { printColoured } from "../../core/base/terminal.ts";
import { summarise, summaryLines } from "../../core/data/preview/summary.ts";
import { augmentedPictures } from "../../core/data/preview/augmented.ts";
import { withPreview } from "../../core/data/open/preview.ts";
import type { Pictures, Preview } from "../../core/data/preview/preview.ts";
import { looksPacked, verifyShards } from "../../core/data/shards/index.ts";
import { UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import {
  contactSheet,
  encodePng,
  enlarged,
  paint,
  type Picture,
  type PictureSize,
} from "../../core/data/preview/picture.ts";
import { printable } from "../../core/base/file_bytes.ts";

interface DataOptions {
  readonly type: string;
  readonly json: boolean;
  readonly verify: boolean;
  readonly sample: string | undefined;
  readonly png: string | undefined;
  readonly augment: string | undefined;
}

export async function inspectData(
  path: string,
  { type, json, verify, sample, png, augment }: DataOptions,
): Promise<void> {
  if (png !== undefined) checkPngName(png);
  const packed = looksPacked(path);
  if (verify && !packed) {
    throw new UserError(
      "usage",
      `--verify compares the checksums of checkpoints and of packed shards, and ${path} is neither: leave it out.`,
    );
  }
  const verdict = verify ? verifyShards(path, json) : null;
  await withPreview(path, type, (preview) => {
    const chosen = sample === undefined ? null : sampleNumber(sample, preview);
    const flag = png !== undefined ? "--png" : augment !== undefined ? "--augment" : null;
    if (flag !== null && !preview.pictures) {
      throw new UserError("usage", `${path} has no images or maps to draw: leave ${flag} out.`);
    }
    const changed = augment === undefined ? null : augmentedPictures(preview.pictures!, augment, chosen);
    const pictures = changed ?? preview.pictures, drawn = changed ? null : chosen;
    const summary = summarise(preview, chosen);
    if (json) console.log(JSON.stringify(packed ? { ...summary, verified: verify } : summary, null, 2));
    else {
      for (const line of summaryLines(summary)) console.log(line);
      if (pictures) show(pictures, drawn);
      if (verdict) console.log(verdict);
    }
    if (png === undefined) return;
    const count = writeSheet(png, pictures!, drawn);
    if (!json) console.log(`Wrote ${formatPlural(count, "sample")} to ${png}`);
  });
}

function show(pictures: Pictures, chosen: number | null): void {
  const isTerminal = Deno.stdout.isTerminal();
  const ink = inkOf(isTerminal, (name) => Deno.env.get(name));
  const columns = isTerminal ? Deno.consoleSize().columns || 80 : 80;
  for (const line of terminalLines(pictures, chosen, columns, ink)) printColoured(line);
}

function sampleNumber(text: string, { path, samples, pictures, fields }: Preview): number {
  const count = samples ?? pictures?.count ?? Math.max(0, ...fields.map(({ shape }) => shape[0] ?? 1));
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (number < count) return number;
  throw new UserError(
    "usage",
    `--sample is ${text}, and ${path} has ${formatPlural(count, "sample")}, counted from 0: ` +
      `name one from 0 to ${count - 1}.`,
  );
}

/** Terminals show 24-bit colours, 256 colours, or shades of characters. */
type Ink = "full" | "256" | "shades";

export function inkOf(isTerminal: boolean, env: (name: string) => string | undefined): Ink {
  if (!isTerminal || env("NO_COLOR") || env("TERM") === "dumb") return "shades";
  return /truecolor|24bit/.test(env("COLORTERM") ?? "") ? "full" : "256";
}

const SHADES = " ░▒▓█";

export function drawPicture({ width, height, rgb }: Picture, ink: Ink): string[] {
  const at = (x: number, y: number): Colour => {
    const from = 3 * (y * width + x);
    return [rgb[from], rgb[from + 1], rgb[from + 2]];
  };
  const lines: string[] = [];
  for (let y = 0; y < height; y += 2) {
    let line = "", last = "";
    for (let x = 0; x < width; x++) {
      const top = at(x, y), bottom = y + 1 < height ? at(x, y + 1) : null;
      if (ink === "shades") {
        line += shade(bottom ? (lightness(top) + lightness(bottom)) / 2 : lightness(top));
        continue;
      }
      const colours = `\x1b[${code(38, top, ink)};${bottom ? code(48, bottom, ink) : "49"}m`;
      line += `${colours === last ? "" : colours}▀`;
      last = colours;
    }
    lines.push(ink === "shades" ? line.trimEnd() : `${line}\x1b[0m`);
  }
  return lines;
}

type Colour = readonly [number, number, number];

const lightness = ([red, green, blue]: Colour) => (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;

const shade = (light: number) => SHADES[Math.min(SHADES.length - 1, Math.floor(light * SHADES.length))];

/** 38 colours the upper half block, 48 its background. */
function code(ground: 38 | 48, colour: Colour, ink: Ink): string {
  if (ink === "full") return `${ground};2;${colour.join(";")}`;
  const [red, green, blue] = colour.map((part) => Math.round(part / 255 * 5)); // a cube of 6 x 6 x 6 from 16 on
  const [grey] = colour;
  if (colour.every((part) => part === grey)) return `${ground};5;${greyCode(grey)}`;
  return `${ground};5;${16 + 36 * red + 6 * green + blue}`;
}

/** 24 greys begin at 232, between the cube's black and white. */
const greyCode = (grey: number) => grey < 4 ? 16 : grey > 238 ? 231 : 232 + Math.round((grey - 8) / 10);

const HEIGHT_OF_SOME = 40, HEIGHT_OF_ONE = 64, WIDEST = 100, SMALLEST_DRAWN = 16;

const MOST_IN_TERMINAL = 4;

/** The first samples stand beside each other, or one fills the room; a caption follows. */
function terminalLines(
  pictures: Pictures,
  sample: number | null,
  columns: number,
  ink: Ink,
): string[] {
  const width = Math.min(columns, WIDEST) - 2;
  const one = sample !== null;
  const { count, field } = pictures;
  const most = one ? 1 : Math.max(1, Math.min(MOST_IN_TERMINAL, count));
  const size = { width: Math.floor((width - most + 1) / most), height: one ? HEIGHT_OF_ONE : HEIGHT_OF_SOME };
  const samples = one ? [sample] : someOf(pictures, most);
  const names = samples.map((i) => `${i}${pictures.caption ? ` (${printable(pictures.caption(i))})` : ""}`);
  const painted = samples.map((i) => readable(paint(pictures.raster(i), size), SMALLEST_DRAWN, size));
  return [
    ...drawPicture(contactSheet(painted, most, 1), ink).map((line) => `  ${line}`),
    `  ${printable(field)} of ${samples.length === 1 ? "sample" : "samples"} ${names.join(", ")}`,
  ];
}

/** Another ending could overwrite a file of data. */
function checkPngName(path: string): void {
  if (/\.png$/i.test(path)) return;
  throw new UserError(
    "usage",
    `--png is ${path}, and writes a file whose name ends in .png: name such a one.`,
  );
}

function writePng(path: string, picture: Picture): void {
  try {
    Deno.writeFileSync(path, encodePng(picture));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError("usage", `${path} can't be written: ${reason}. Name another file with --png.`, {
      cause,
    });
  }
}

const MOST_IN_SHEET = 64, ACROSS = 8;

const LARGEST: PictureSize = { width: 512, height: 512 }, SMALLEST = 64;

function writeSheet(path: string, pictures: Pictures, sample: number | null): number {
  const samples = sample === null ? someOf(pictures, Math.min(MOST_IN_SHEET, pictures.count)) : [sample];
  const largest = sample === null ? LARGEST : { width: 4096, height: 4096 };
  const painted = samples.map((i) => readable(paint(pictures.raster(i), largest), SMALLEST, largest));
  writePng(path, contactSheet(painted, ACROSS, 2));
  return samples.length;
}

/** Small pictures grow to at least `smallest` on the longer side, if that fits. */
function readable(picture: Picture, smallest: number, most: PictureSize): Picture {
  const wanted = Math.ceil(smallest / Math.max(picture.width, picture.height));
  const fitting = Math.floor(Math.min(most.width / picture.width, most.height / picture.height));
  return enlarged(picture, Math.max(1, Math.min(wanted, fitting)));
}

const someOf = ({ some }: Pictures, count: number) =>
  some?.(count) ?? Array.from({ length: count }, (_, i) => i);
