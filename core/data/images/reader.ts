// Reader of images in folders, one file a sample. May import reading, its siblings, ffi's TurboJpeg.
import { openTurboJpeg } from "../../../ffi/jpeg.ts";
import type { Kind, ReaderSpec } from "../reading/kinds.ts";
import type { Reader, Stored } from "../reading/reader.ts";
import { headerOf, type JpegHeader } from "./header.ts";
import { openJpeg } from "./jpeg.ts";
import { naming, readFile } from "./files.ts";
import { labelOf, type Listing, pathOf } from "./listing.ts";
import { openPng } from "./png.ts";
import { openRoom } from "./room.ts";
import { openWebp } from "./webp.ts";

export interface ImagesSpec extends ReaderSpec {
  readonly kind: "images";
  readonly listing: Listing;
  /** The machine's libturbojpeg, where it has one. */
  readonly turbo: string | null;
}

export const images: Kind<ImagesSpec> = { kind: "images", open: openImages };

function openImages({ listing, turbo }: ImagesSpec): Reader {
  const decode = openDecoder(turbo);
  const room = openRoom();
  return {
    read(index, target) {
      writeLabel(target, labelOf(listing, index));
      return naming(pathOf(listing, index), (path) => decode(readFile(path, room)));
    },
    close: () => {},
  };
}

/** RGB of whatever picture a file holds, as Pillow gives it; it stays until the next. */
export function openDecoder(turbo: string | null): (file: Uint8Array<ArrayBuffer>) => Stored {
  const room = openRoom();
  const jpeg = openJpeg(turbo === null ? null : openTurboJpeg(turbo), room);
  const png = openPng(room), webp = openWebp();
  return (file) => {
    const header = headerOf(file);
    switch (header.format) {
      case "jpeg":
        return jpeg(file, header as JpegHeader);
      case "png":
        return png(file, header);
      case "webp":
        return webp(file, header);
    }
  };
}

function writeLabel(target: Uint8Array, label: number): void {
  for (let i = 0; i < target.length; i++) target[i] = i < 4 ? label >>> (8 * i) : 0;
}
