// Pictures are written so that Pillow reads the same pixels.
import { assertEquals } from "@std/assert";
import { encodePng } from "../../../../core/data/preview/picture.ts";
import { key, uniformInt } from "../../../../core/base/random.ts";
import { inFolder, python } from "../../checkpoint/python.ts";

const PILLOW = `
import sys, json
from PIL import Image
im = Image.open(sys.argv[1])
im.verify()  # every checksum
im = Image.open(sys.argv[1])
print(json.dumps([im.format, im.mode, im.size, list(im.tobytes())]))`;

Deno.test(
  "Pillow reads the pixels that were written, and its checksums are right",
  inFolder((folder) => {
    const byte = uniformInt(key(2, "png"), 256);
    for (const [width, height] of [[1, 1], [7, 5], [64, 3], [300, 201]]) {
      const rgb = Uint8Array.from({ length: 3 * width * height }, (_, i) => byte(i));
      Deno.writeFileSync(`${folder}/a.png`, encodePng({ width, height, rgb }));
      assertEquals(JSON.parse(python(PILLOW, `${folder}/a.png`)), ["PNG", "RGB", [width, height], [...rgb]]);
    }
  }),
);
