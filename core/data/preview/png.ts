// A picture as a PNG file. Imports picture (types).
import { crc32, deflateSync } from "node:zlib";
import type { Picture } from "./picture.ts";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

export function encodePng({ width, height, rgb }: Picture): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8); // bits a channel
  header.setUint8(9, 2); // red, green, blue
  // Before each row stands how it is filtered: not at all.
  const rows = new Uint8Array(height * (1 + 3 * width));
  for (let y = 0; y < height; y++) {
    rows.set(rgb.subarray(y * 3 * width, (y + 1) * 3 * width), y * (1 + 3 * width) + 1);
  }
  const parts = [
    Uint8Array.from(SIGNATURE),
    chunk("IHDR", new Uint8Array(header.buffer)),
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

/** Length, name, bytes, and the checksum of name and bytes. */
function chunk(name: string, bytes: Uint8Array): Uint8Array {
  const made = new Uint8Array(bytes.length + 12), view = new DataView(made.buffer);
  view.setUint32(0, bytes.length);
  made.set(new TextEncoder().encode(name), 4);
  made.set(bytes, 8);
  view.setUint32(8 + bytes.length, crc32(made.subarray(4, 8 + bytes.length)));
  return made;
}
