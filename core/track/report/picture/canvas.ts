// A picture to draw lines and words on, with smooth edges. May import preview/picture (types), font.
import type { Picture } from "../../../data/preview/picture.ts";
import { glyphOf } from "./font.ts";

export type Rgb = readonly [red: number, green: number, blue: number];
type Point = readonly [x: number, y: number];

export class Canvas implements Picture {
  readonly rgb: Uint8Array;
  /** How much of each pixel the line that is being drawn covers. */
  readonly #cover: Float32Array;

  constructor(readonly width: number, readonly height: number, paper: Rgb) {
    this.rgb = new Uint8Array(3 * width * height);
    this.#cover = new Float32Array(width * height);
    for (let i = 0; i < this.rgb.length; i++) this.rgb[i] = paper[i % 3];
  }

  /** Whole pixels. */
  fill(left: number, top: number, width: number, height: number, colour: Rgb, opacity = 1): void {
    const right = Math.min(this.width, Math.round(left + width)),
      bottom = Math.min(this.height, Math.round(top + height));
    for (let y = Math.max(0, Math.round(top)); y < bottom; y++) {
      for (let x = Math.max(0, Math.round(left)); x < right; x++) {
        this.#blend(y * this.width + x, colour, opacity);
      }
    }
  }

  /** A line through points, with round ends; where it crosses itself it is no darker. */
  line(points: readonly Point[], width: number, colour: Rgb, opacity = 1): void {
    if (points.length === 0) return;
    const reach = width / 2 + 1;
    const box = { left: this.width, top: this.height, right: 0, bottom: 0 };
    for (let i = 0; i < points.length; i++) this.#segment(points[Math.max(0, i - 1)], points[i], reach, box);
    for (let y = box.top; y < box.bottom; y++) {
      for (let x = box.left; x < box.right; x++) {
        const at = y * this.width + x;
        if (this.#cover[at] > 0) this.#blend(at, colour, opacity * this.#cover[at]);
        this.#cover[at] = 0;
      }
    }
  }

  #segment(
    [ax, ay]: Point,
    [bx, by]: Point,
    reach: number,
    box: { left: number; top: number; right: number; bottom: number },
  ): void {
    const left = Math.max(0, Math.floor(Math.min(ax, bx) - reach)),
      top = Math.max(0, Math.floor(Math.min(ay, by) - reach));
    const right = Math.min(this.width, Math.ceil(Math.max(ax, bx) + reach));
    const bottom = Math.min(this.height, Math.ceil(Math.max(ay, by) + reach));
    const dx = bx - ax, dy = by - ay, square = dx * dx + dy * dy;
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        const px = x + 0.5 - ax, py = y + 0.5 - ay;
        const share = square === 0 ? 0 : Math.min(1, Math.max(0, (px * dx + py * dy) / square));
        const cover = reach - 0.5 - Math.hypot(px - share * dx, py - share * dy);
        const at = y * this.width + x;
        if (cover > this.#cover[at]) this.#cover[at] = Math.min(1, cover);
      }
    }
    box.left = Math.min(box.left, left);
    box.top = Math.min(box.top, top);
    box.right = Math.max(box.right, right);
    box.bottom = Math.max(box.bottom, bottom);
  }

  /** `size` is the height of a large letter; `y` the base line. What it takes is returned. */
  text(words: string, x: number, y: number, size: number, colour: Rgb, weight = 0.13): number {
    let at = x;
    for (const character of words) {
      const { strokes, advance } = glyphOf(character);
      for (const stroke of strokes) {
        this.line(stroke.map(([dx, dy]): Point => [at + dx * size, y + dy * size]), size * weight, colour);
      }
      at += advance * size;
    }
    return at - x;
  }

  #blend(at: number, colour: Rgb, opacity: number): void {
    for (let i = 0; i < 3; i++) {
      const old = this.rgb[3 * at + i];
      this.rgb[3 * at + i] = Math.round(old + (colour[i] - old) * opacity);
    }
  }
}

export function textWidth(words: string, size: number): number {
  let width = 0;
  for (const character of words) width += glyphOf(character).advance * size;
  return width;
}
