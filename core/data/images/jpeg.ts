// JPEG -> RGB with Pillow's bits. May import reading, its siblings, ffi's TurboJpeg.
// The machine's libturbojpeg decodes where there is one; else our own vector code takes what most files are, and
// libjpeg-turbo as WebAssembly the rest.
import { TJPF, type TurboJpeg } from "../../../ffi/jpeg.ts";
import { BadSample, type Stored } from "../reading/reader.ts";
import { openFastJpeg } from "./fast_jpeg.ts";
import { cutOff, type JpegHeader, refuseScans } from "./header.ts";
import type { Room } from "./room.ts";
import { openTurboWasm } from "./turbo_wasm.ts";

/** WebAssembly keeps all memory that it once had: larger pictures go elsewhere. */
const FAST_PIXELS = 2 ** 24;

export function openJpeg(machines: TurboJpeg | null, room: Room) {
  const fast = openFastJpeg();
  let library = machines;
  return (file: Uint8Array, header: JpegHeader): Stored => {
    const { width, height, channels } = header;
    // libjpeg paints what is missing grey; Pillow refuses such a file, and so do we. Bytes after the end mean nothing.
    if (!hasEnd(file, header.scan)) throw cutOff(file, "before the end of its picture");
    if (header.again) refuseScans(file, header);
    const small = width * height <= FAST_PIXELS;
    const picture = small && machines === null ? fast.decode(file, header) : null;
    if (picture) return picture;
    library ??= openTurboWasm();
    const cmyk = channels === 4;
    const bytes = width * height * (cmyk ? 4 : 3);
    const pixels = cmyk || !small ? room(bytes) : fast.pixels(bytes);
    if (library.decode(file, pixels, header, cmyk ? TJPF.cmyk : TJPF.rgb) === "bad") {
      throw new BadSample("", `is a damaged JPEG: ${library.reason()}`);
    }
    if (cmyk) toRgb(pixels, width * height);
    return cmyk || !small
      ? { data: pixels, shape: [3, height, width], strides: [1, width * 3, 3] }
      : fast.split(header);
  };
}

function hasEnd(file: Uint8Array, from: number): boolean {
  for (let at = file.length - 2; at >= from; at--) {
    if (file[at] === 0xff && file[at + 1] === 0xd9) return true;
  }
  return false;
}

/** As Pillow does: ink is stored inverted, and black is taken from each colour. In place. */
function toRgb(pixels: Uint8Array, count: number): void {
  for (let i = 0; i < count; i++) {
    const black = pixels[4 * i + 3];
    for (let c = 0; c < 3; c++) {
      const product = (255 - pixels[4 * i + c]) * black + 128;
      pixels[3 * i + c] = black - ((product + (product >> 8)) >> 8);
    }
  }
}
