// Progressive JPEGs whose picture comes in very many scans: little to store, minutes to decode.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { headerOf, type JpegHeader, openReusedBuffer } from "../../../../core/data/images/header.ts";
import { openJpeg } from "../../../../core/data/images/jpeg.ts";
import { turboJpeg } from "../../../../core/data/images/stored.ts";
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import { openTurboJpeg } from "../../../../ffi/codecs.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { measured } from "../../../cpu_time.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

const SIZE = 2000;
const PICTURE = `
import sys
from PIL import Image
size = int(sys.argv[2])
Image.radial_gradient("L").resize((size, size)).convert("RGB").save(sys.argv[1], progressive=True, quality=30)
`;

/** The same file with its last scan again and again. */
function withScans(file: Uint8Array, more: number): Uint8Array<ArrayBuffer> {
  let last = 0;
  for (let at = 0; (at = file.indexOf(0xff, at)) >= 0; at++) if (file[at + 1] === 0xda) last = at;
  const scan = file.subarray(last, file.length - 2), parts = new Array<Uint8Array>(more).fill(scan);
  return new Uint8Array(
    [file.subarray(0, file.length - 2), ...parts, file.subarray(-2)].flatMap((part) => [...part]),
  );
}

Deno.test(
  "a JPEG of hundreds of scans is refused before it takes minutes, by each decoder; one of as many as programs write is not",
  inFolder((folder) => {
    const path = `${folder}/p.jpg`;
    python(PICTURE, path, String(SIZE));
    const file = Deno.readFileSync(path), bomb = withScans(file, 480);
    const machines = turboJpeg();
    const ways = [
      openJpeg(null, openReusedBuffer()),
      ...(machines ? [openJpeg(openTurboJpeg(machines), openReusedBuffer())] : []),
    ];
    for (const decode of ways) {
      const header = headerOf(file) as JpegHeader;
      assert(header.again);
      assertEquals(decode(file, header).shape, [3, SIZE, SIZE]);
      const { seconds } = measured(() => {
        const error = assertThrows(() => decode(bomb, headerOf(bomb) as JpegHeader), BadSample);
        assertSentence("core/data/images/scans: scans pixels attack", error.reason, { SIZE });
      });
      assert(seconds < 1, `${seconds} s of processor time`);
    }
  }),
);
