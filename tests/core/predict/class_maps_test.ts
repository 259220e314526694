// Maps of classes as PNG files: of the images' names and sizes.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import type { PredictionColumn } from "../../../core/predict/columns.ts";
import { writeClassMaps } from "../../../core/predict/class_maps.ts";
import { inFolder, python } from "../checkpoint/python.ts";

Deno.test(
  "a map of an image that was made smaller has the image's size, and a part of one its own",
  inFolder((folder) => {
    python(
      `import sys; from PIL import Image
for name, size in (("whole.jpg", (8, 4)), ("cut.png", (9, 9))): Image.new("RGB", size).save(f"{sys.argv[1]}/{name}")`,
      folder,
    );
    const maps = [[0, 1, 2, 3, 250, 1, 1, 0], [5, 6, 7, 8, 5, 6, 7, 8]], shape = [2, 2, 4];
    const paths = ["whole.jpg", "cut.png"].map((name) => join(folder, name));
    const whole = ({ width }: { width: number }) => width === 8;
    const columns: PredictionColumn[] = [
      { name: "label", dtype: "i32", shape, whole, read: (from) => Int32Array.from(maps[from]) },
      { name: "path", dtype: "i32", shape: [2], read: () => new Int32Array(2), texts: () => paths },
    ];
    writeClassMaps(join(folder, "out/"), columns);
    const read = python(
      `import json, numpy, sys; from PIL import Image
print(json.dumps([numpy.array(Image.open(f"{sys.argv[1]}/out/{name}.png")).tolist() for name in ("whole", "cut")]))`,
      folder,
    );
    // Where each sample is a whole image, its sides may have been squeezed.
    writeClassMaps(join(folder, "squeezed/"), columns.map((column) => ({ ...column, whole: () => true })));
    const sizes = python(
      `import sys; from PIL import Image
print(Image.open(sys.argv[1] + "/squeezed/cut.png").size)`,
      folder,
    );
    assertEquals(sizes.trim(), "(9, 9)");
    const twice = (row: number[]) => row.flatMap((one) => [one, one]),
      [a, b] = [[0, 1, 2, 3], [250, 1, 1, 0]];
    assertEquals(JSON.parse(read), [
      [twice(a), twice(a), twice(b), twice(b)],
      [[5, 6, 7, 8], [5, 6, 7, 8]],
    ]);
  }),
);
