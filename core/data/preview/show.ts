// Samples in a terminal and as a contact sheet. May import errors, checkpoint's printable, its siblings.
import { printable } from "../../checkpoint/file_bytes.ts";
import { UserError } from "../../errors.ts";
import { encodePng } from "./png.ts";
import { enlarged, paint, type Picture, sheet, type Size } from "./picture.ts";
import type { Pictures } from "./preview.ts";
import { draw, type Ink } from "./terminal.ts";

/** Pixels: two of a height make a line. */
const HEIGHT_OF_SOME = 40, HEIGHT_OF_ONE = 64, WIDEST = 100, SMALLEST_DRAWN = 16;
const MOST_IN_TERMINAL = 4;

/** The first samples beside each other, or one as large as it fits; a line below says what they are. */
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
  const told = samples.map((i) => `${i}${pictures.caption ? ` (${printable(pictures.caption(i))})` : ""}`);
  const painted = samples.map((i) => readable(paint(pictures.raster(i), size), SMALLEST_DRAWN, size));
  return [
    ...draw(sheet(painted, most, 1), ink).map((line) => `  ${line}`),
    `  ${printable(field)} of ${samples.length === 1 ? "sample" : "samples"} ${told.join(", ")}`,
  ];
}

/** Under no other ending, so that no file of data is written over by a slip. */
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
const LARGEST: Size = { width: 512, height: 512 }, SMALLEST = 64;

/** How many samples the sheet shows. */
export function writeSheet(path: string, pictures: Pictures, sample: number | null): number {
  const samples = sample === null ? someOf(pictures, Math.min(MOST_IN_SHEET, pictures.count)) : [sample];
  const largest = sample === null ? LARGEST : { width: 4096, height: 4096 };
  const painted = samples.map((i) => readable(paint(pictures.raster(i), largest), SMALLEST, largest));
  writePng(path, sheet(painted, ACROSS, 2));
  return samples.length;
}

/** A small picture so large that each pixel can be seen: at least `smallest` on its longer side, if that fits. */
function readable(picture: Picture, smallest: number, most: Size): Picture {
  const wanted = Math.ceil(smallest / Math.max(picture.width, picture.height));
  const fitting = Math.floor(Math.min(most.width / picture.width, most.height / picture.height));
  return enlarged(picture, Math.max(1, Math.min(wanted, fitting)));
}

const someOf = ({ some }: Pictures, count: number) =>
  some?.(count) ?? Array.from({ length: count }, (_, i) => i);
