// Pictures are written so that Pillow reads the same pixels.
import { assertEquals } from "@std/assert";
import { encodeMapPng, encodePng, viridis } from "../../../../core/data/preview/picture.ts";
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

Deno.test(
  "a map's values have the colours of their range, and what is missing none",
  inFolder((folder) => {
    const values = [0, 5, 10, NaN, 11, -1];
    Deno.writeFileSync(`${folder}/a.png`, encodeMapPng({ width: 3, height: 2, values }, [0, 10], viridis));
    const source = PILLOW.replace(
      "Image.open(sys.argv[1])\nprint",
      'Image.open(sys.argv[1]).convert("RGBA")\nprint',
    );
    const [, , size, pixels] = JSON.parse(python(source.replace("im.format", "0"), `${folder}/a.png`));
    const colours = Array.from({ length: 6 }, (_, i) => pixels.slice(4 * i, 4 * i + 4).join());
    const [low, middle, high] = ["68,1,84,255", "33,145,140,255", "253,231,37,255"];
    assertEquals(size, [3, 2]);
    assertEquals(colours.with(3, colours[3].split(",")[3]), [low, middle, high, "0", high, low]);
  }),
);
