// Images with 16 bits a value, beside torchvision's and Pillow's: the decoder, and every kind of data that has images.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { createHash } from "node:crypto";
import { openInflate } from "../../../../ffi/codecs.ts";
import { readBytes, toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { openImageDecoder } from "../../../../core/data/images/reader.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { askPeer } from "../../../peer.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { succeed } from "../../../integration/program.ts";
import { open } from "../streamed.ts";
import { makePictures } from "./help.ts";

useLibtorch();
openInflate(); // stays open: opened by a test, it would count as left behind by it

interface Deep {
  readonly path: string;
  readonly bits: number;
  readonly shape: readonly number[];
  /** Of the shares of the most that the type holds, as floats. */
  readonly sha256: string;
  readonly resized: readonly [height: number, width: number, values: readonly number[]];
}

const hash = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

Deno.test(
  "a PNG of 16 bits has torchvision's values to the bit, grey, in colours, with alpha and interlaced; one of 8 beside it is scaled by its own type",
  inFolder(async (folder) => {
    await makePictures(folder);
    const made = await askPeer<Deep[]>("data/images.py", {
      what: "deep",
      folder: `${folder}/png`,
      side: 20,
    });
    assert(made.filter(({ bits }) => bits === 16).length >= 12);
    const decode = openImageDecoder(null, true);
    for (const { path, shape: [, height, width], sha256 } of made) {
      if (/animated|beyond/.test(path)) continue; // torchvision refuses a place beyond the palette, or reads it otherwise
      const { data, strides = [] } = decode(Deno.readFileSync(path));
      const values = new Float32Array(3 * height * width);
      for (let i = 0; i < values.length; i++) {
        const c = Math.floor(i / (height * width)), y = Math.floor(i / width) % height;
        values[i] = Number(data[c * strides[0] + y * strides[1] + i % width * strides[2]]);
      }
      assertEquals(hash(new Uint8Array(values.buffer)), sha256, path);
    }
  }),
);

const seen = (source: Source) =>
  scope(() =>
    Array.from({ length: source.length }, (_, i) => {
      const { input, target } = batchOf(source, plainPart([i]));
      return { sha256: hash(readBytes(input)), values: toNumbers(input), target: [...toNumbers(target)] };
    })
  );

Deno.test(
  "class folders, what is packed of them, image pairs and WebDatasets keep 16 bits, resized or not, and so do labels beyond 255",
  inFolder(async (folder) => {
    const made = await askPeer<Deep[]>("data/images.py", { what: "deep folder", folder });
    const all = { validation_split: 0, val_samples: 0 } as const, training = { loss: "auto" } as const;
    for (
      const [path, order] of [["classes", [0, 2, 4, 1, 3, 5]], ["shard.tar", [0, 1, 2, 3, 4, 5]]] as const
    ) {
      const { train } = await open(`${folder}/${path}`, "auto", { data: all, training });
      assertEquals(seen(train).map(({ sha256 }) => sha256), order.map((i) => made[i].sha256), path);
      assertMatch(train.describe(), /of 37 x 53, 16 bits a value/);
      const resized = await open(`${folder}/${path}`, "auto", { data: { ...all, resize: 20 }, training });
      seen(resized.train).forEach(({ values }, i) => {
        const [height, width, theirs] = made[order[i]].resized;
        assertEquals(resized.train.input.shape, [3, height, width]);
        const apart = theirs.reduce((most, value, k) => Math.max(most, Math.abs(value - values[k])), 0);
        assert(apart < 2e-6, `${path}, image ${i}: ${apart}`);
      });
    }
    for (const flags of [[], ["--keep-encoded"]]) {
      await succeed(["pack", "classes", `packed${flags.length}`, ...flags], { cwd: folder });
      const { train, val } = await open(`${folder}/packed${flags.length}`, "no", { training });
      const packed = [train, val!].flatMap(seen).map(({ sha256 }) => sha256);
      assertEquals(packed.sort(), made.map(({ sha256 }) => sha256).sort(), `packed ${flags}`);
    }
    const { train } = await open(`${folder}/pairs`, "auto", { data: all, training });
    const pairs = seen(train);
    assertEquals(pairs.map(({ sha256 }) => sha256), made.map(({ sha256 }) => sha256));
    assertEquals([...new Set(pairs.flatMap(({ target }) => target))].sort(), [0, 300]);
    assertEquals(train.facts.outputs, 301);
  }),
);
