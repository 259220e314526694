// A terminal shows pictures with two pixels a character; a contact sheet is a PNG.
import { contactSheet, encodePng, enlarged, paint, type Picture, type PictureSize } from "./picture.ts";
import { printable } from "../../base/file_bytes.ts";
import { UserError } from "../../base/errors.ts";
import type { Pictures } from "./preview.ts";

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
export function terminalLines(
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
export function checkPngName(path: string): void {
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

export function writeSheet(path: string, pictures: Pictures, sample: number | null): number {
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
