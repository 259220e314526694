// A picture as lines of a terminal: two pixels a character, in its colours or in shades. Imports picture (types).
import type { Picture } from "./picture.ts";

/** What the terminal shows: colours of 24 bits, the 256 of old, or characters of more and less ink. */
export type Ink = "full" | "256" | "shades";

export function inkOf(isTerminal: boolean, env: (name: string) => string | undefined): Ink {
  if (!isTerminal || env("NO_COLOR") || env("TERM") === "dumb") return "shades";
  return /truecolor|24bit/.test(env("COLORTERM") ?? "") ? "full" : "256";
}

const SHADES = " ░▒▓█";

/** One character wide a pixel, one line high two. */
export function draw({ width, height, rgb }: Picture, ink: Ink): string[] {
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

/** From 0 to 1, as the eye weighs the three. */
const lightness = ([red, green, blue]: Colour) => (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;

const shade = (light: number) => SHADES[Math.min(SHADES.length - 1, Math.floor(light * SHADES.length))];

/** 38 is the colour of the upper half block, 48 of what is behind it. */
function code(ground: 38 | 48, colour: Colour, ink: Ink): string {
  if (ink === "full") return `${ground};2;${colour.join(";")}`;
  const [red, green, blue] = colour.map((part) => Math.round(part / 255 * 5)); // a cube of 6 x 6 x 6 from 16 on
  const [grey] = colour;
  if (colour.every((part) => part === grey)) return `${ground};5;${greyCode(grey)}`;
  return `${ground};5;${16 + 36 * red + 6 * green + blue}`;
}

/** 24 greys from 232 on, between the black and the white of the cube. */
const greyCode = (grey: number) => grey < 4 ? 16 : grey > 238 ? 231 : 232 + Math.round((grey - 8) / 10);
