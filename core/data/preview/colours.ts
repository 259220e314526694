// From a share between 0 and 1 to a colour whose lightness grows with it: viridis. Imports nothing.

/** Its colours at 0, 0.1, ..., 1; between them go straight lines. */
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

/** Writes red, green and blue to `rgb` from `at` on. */
export function viridis(share: number, rgb: Uint8Array, at: number): void {
  const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(place), STOPS.length - 2), part = place - low;
  for (let i = 0; i < 3; i++) rgb[at + i] = Math.round(STOPS[low][i] * (1 - part) + STOPS[low + 1][i] * part);
}
