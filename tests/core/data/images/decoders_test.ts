// The decoders beside Pillow: the same pixels from every kind of picture, and the same files refused.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { deflateSync } from "node:zlib";
import { openInflate } from "../../../../ffi/codecs.ts";
import { openFastJpeg } from "../../../../core/data/codecs/fast_jpeg.ts";
import { openJpeg, openTurboWasm } from "../../../../core/data/images/jpeg.ts";
import { headerOf, openReusedBuffer } from "../../../../core/data/images/header.ts";
import { openImageDecoder } from "../../../../core/data/images/reader.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { damaged, isJpeg, makePictures, outcome, pillowReads, throughHeader, unlikePillow } from "./help.ts";
import { assertSentence } from "../../../sentences.ts";

openInflate(); // stays open: opened by a test, it would count as left behind by it

Deno.test(
  "every kind of JPEG, PNG and WebP has Pillow's pixels, whether the fast code takes it or the library",
  inFolder(async (folder) => {
    const made = await makePictures(folder);
    assert(made.length > 150);
    const decode = openImageDecoder(null);
    assertEquals(unlikePillow(decode, made), []);
    const fast = openFastJpeg();
    const jpegs = made.filter(isJpeg);
    const taken = jpegs.filter(({ path, shape: [height, width] }) =>
      fast.decode(Deno.readFileSync(path), { width, height }) !== null
    );
    // It leaves the progressive, CMYK and RGB files and the tiny ones to the library.
    assert(
      taken.length > jpegs.length / 2 && taken.length < jpegs.length,
      `${taken.length} of ${jpegs.length}`,
    );
  }),
);

Deno.test(
  "a JPEG that is cut off anywhere is refused, as by Pillow; a PNG or WebP that Pillow refuses, too",
  inFolder(async (folder) => {
    const made = await makePictures(folder);
    const decode = openImageDecoder(null);
    const cuts: { path: string; reason: string; whole: string }[] = [];
    for (const name of ["000.jpg", "001.jpg", "005.jpg", "rgb.png", "few3_2True.png", "01.webp", "02.webp"]) {
      const file = Deno.readFileSync(made.find(({ path }) => path.endsWith(`/${name}`))!.path);
      const whole = outcome(decode, file);
      const lengths = [0, 1, 3, 20, 100, ...[0.3, 0.6, 0.9].map((share) => Math.floor(share * file.length))];
      for (const length of [...lengths, ...[30, 12, 5, 2, 1].map((less) => file.length - less)]) {
        if (length < 0 || length >= file.length) continue;
        const path = `${folder}/cut-${length}-${name}`;
        Deno.writeFileSync(path, file.subarray(0, length));
        cuts.push({ path, reason: outcome(decode, file.subarray(0, length)), whole });
      }
    }
    const reads = await pillowReads(cuts.map(({ path }) => path));
    cuts.forEach(({ path, reason, whole }, i) => {
      const refused = !/^3,/.test(reason);
      // What is missing of the others may be no part of the picture, which each is strict about in its own way.
      if (isJpeg({ path })) assertEquals(refused, !reads[i], `${path}: ${reason}`);
      else assert(refused || reason === whole, `${path}: ${reason}`);
      if (isJpeg({ path }) && refused) assertMatch(reason, /^is (cut off|empty|no JPEG|a damaged JPEG)/);
    });
    assert(reads.filter((ok) => !ok).length > 50);
  }),
);

Deno.test(
  "a JPEG with damaged bytes gets the same verdict from the fast code's way as from the library's",
  inFolder(async (folder) => {
    const made = (await makePictures(folder)).filter(isJpeg).filter(({ path }) =>
      !path.endsWith("large.jpeg")
    );
    const fast = openFastJpeg(), library = openJpeg(openTurboWasm(), openReusedBuffer());
    const decode = openImageDecoder(null);
    let taken = 0;
    for (let i = 0; i < 600; i++) {
      const file = damaged(Deno.readFileSync(made[i % made.length].path), i);
      const said = outcome(decode, file), expected = outcome(throughHeader(library), file);
      assertEquals(sizeIn(said), sizeIn(expected), `${made[i % made.length].path}, file ${i}`);
      if (sizeIn(said) !== said && fast.decode(file, headerOf(file)) !== null) taken++;
    }
    assert(taken > 50, `only ${taken} damaged files were taken by the fast code`);
  }),
);

/** What was said of a file without the pixels' hash: damage shows in them as the library's build has it. */
const sizeIn = (said: string) => said.replace(/^(3,\d+,\d+) .*/, "$1");

/** A PNG of one colour type and its data, whatever its header says of its size. */
function png(width: number, height: number, data: Uint8Array, type = 2): Uint8Array {
  const chunk = (name: string, content: Uint8Array) => {
    const body = Uint8Array.of(...new TextEncoder().encode(name), ...content);
    return [...big32(content.length), ...body, ...big32(crc(body))];
  };
  const head = Uint8Array.of(...big32(width), ...big32(height), 8, type, 0, 0, 0);
  const signature = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10];
  return Uint8Array.from([
    ...signature,
    ...chunk("IHDR", head),
    ...chunk("IDAT", data),
    ...chunk("IEND", new Uint8Array(0)),
  ]);
}

const big32 = (value: number) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];

function crc(bytes: Uint8Array): number {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let k = 0; k < 8; k++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return ~sum >>> 0;
}

Deno.test("each file that can't be read is refused with what is wrong with it", () => {
  const decode = openImageDecoder(null);
  const reason = (file: Uint8Array | string) =>
    outcome(decode, typeof file === "string" ? new TextEncoder().encode(file) : file);
  const rows = (count: number) => deflateSync(new Uint8Array(count));
  assertEquals(reason(""), "is empty");
  assertSentence("core/data/images/decoders: jpeg png webp", reason("<html>not found</html>"));
  assertEquals(reason(png(2, 3, rows(21))).slice(0, 6), "3,3,2 ");
  assertEquals(reason(png(0, 3, rows(3))), "has a size of 0 x 3");
  assertSentence("core/data/images/decoders: would pixels most", reason(png(40000, 40000, rows(1))));
  assertEquals(reason(png(2, 3, rows(1e7))), "is a damaged PNG: it holds more than its picture");
  assertEquals(reason(png(2, 3, rows(20))), "is a damaged PNG: it holds less than its picture");
  assertEquals(reason(png(2, 3, rows(21).subarray(0, 6))), "is cut off before the end of its picture");
  assertEquals(reason(png(2, 3, Uint8Array.of(1, 2, 3))), "is a damaged PNG: its data can't be unpacked");
  assertSentence("core/data/images/decoders: damaged png colour", reason(png(2, 3, rows(21), 5)));
  const flipped = png(2, 3, rows(21));
  flipped[19] ^= 1;
  assertSentence("core/data/images/decoders: damaged png checksum", reason(flipped));
  const filtered = new Uint8Array(21);
  filtered[7] = 9;
  assertSentence(
    "core/data/images/decoders: damaged png row",
    reason(png(2, 3, deflateSync(filtered))),
  );
});
