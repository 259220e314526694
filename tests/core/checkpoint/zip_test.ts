// Zip files: ours read by Python's zipfile, Python's read by us, and files that lie.
import { assertEquals, assertThrows } from "@std/assert";
import { FileBytes } from "../../../core/base/file_bytes.ts";
import { memoryStorage } from "../../../core/checkpoint/value.ts";
import { openZip } from "../../../core/base/zip.ts";
import { zipWriter } from "../../../core/checkpoint/zip_writer.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder, python } from "./python.ts";

const text = (content: string) => new TextEncoder().encode(content);

/** Opens, hands over and closes. */
function withZip<T>(path: string, use: (zip: ReturnType<typeof openZip>) => T): T {
  const file = new FileBytes(path);
  try {
    return use(openZip(file));
  } finally {
    file.close();
  }
}

const readAll = (path: string) =>
  withZip(path, (zip) => {
    zip.entries.forEach((entry) => zip.verify(entry));
    return Object.fromEntries(
      [...zip.entries].map(([name, entry]) => [name, new TextDecoder().decode(zip.read(entry))]),
    );
  });

function write(path: string, entries: Record<string, Uint8Array>, wideAt?: number): void {
  using file = Deno.openSync(path, { write: true, create: true, truncate: true });
  const zip = zipWriter(file, wideAt);
  for (const [name, bytes] of Object.entries(entries)) zip.add(name, memoryStorage(bytes));
  zip.finish();
}

const CHECK = `
import zipfile, sys
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
f = open(sys.argv[1], "rb")
for i in z.infolist():
    f.seek(i.header_offset + 26); n = int.from_bytes(f.read(2), "little"); e = int.from_bytes(f.read(2), "little")
    assert (i.header_offset + 30 + n + e) % 64 == 0, i
    f.seek(n, 1); assert f.read(2) == (i.extra[:2] or b"FB"), "the entry's own header has other fields"
print({i.filename: (i.file_size, i.extra[:2].hex()) for i in z.infolist()})`;

for (const [how, wideAt, extra] of [["32-bit", undefined, ""], ["64-bit", 0, "0100"]] as const) {
  Deno.test(
    `Python's zipfile reads our ${how} files, their data is aligned, and so do we`,
    inFolder((folder) => {
      const path = `${folder}/a.zip`;
      const big = new Uint8Array(3_000_001).map((_, i) => i * 7);
      write(
        path,
        { "a/data.pkl": text("hello"), "a/empty": text(""), "a/data/0": big, "ü": text("x") },
        wideAt,
      );
      assertEquals(
        python(CHECK, path).trim(),
        `{'a/data.pkl': (5, '${extra}'), 'a/empty': (0, '${extra}'), 'a/data/0': (3000001, '${extra}'), 'ü': (1, '${extra}')}`,
      );
      assertEquals(readAll(path)["a/data.pkl"], "hello");
      withZip(
        path,
        (zip) => assertEquals(zip.read(zip.entries.get("a/data/0")!, 1000, 5), big.slice(1000, 1005)),
      );
    }),
  );
}

Deno.test(
  "we read stored, deflated, 64-bit and commented files of Python's zipfile",
  inFolder((folder) => {
    const path = `${folder}/b.zip`;
    python(
      `
import zipfile, sys
z = zipfile.ZipFile(sys.argv[1], "w")
z.writestr("stored", "s" * 10)
z.writestr("deflated", "d" * 5000, zipfile.ZIP_DEFLATED)
with z.open("wide", "w", force_zip64=True) as f: f.write(b"w")
z.comment = b"PK\\x05\\x06 a comment that looks like an end"
z.close()`,
      path,
    );
    assertEquals(readAll(path), { stored: "s".repeat(10), deflated: "d".repeat(5000), wide: "w" });
    withZip(path, (zip) => assertEquals(zip.read(zip.entries.get("deflated")!, 10, 3), text("ddd")));
  }),
);

Deno.test(
  "a flipped byte of data is found when the entry is read whole or verified",
  inFolder((folder) => {
    const path = `${folder}/a.zip`;
    write(path, { a: text("some data that matters") });
    const bytes = Deno.readFileSync(path);
    bytes[70]++; // the data begins at 64
    Deno.writeFileSync(path, bytes);
    withZip(path, (zip) => {
      const entry = zip.entries.get("a")!;
      assertThrows(() => zip.verify(entry), UserError, 'the checksum of "a" is wrong');
      assertThrows(() => zip.read(entry), UserError, 'the checksum of "a" is wrong');
    });
  }),
);

const LIES: Record<string, [python: string, sentence: string]> = {
  "an encrypted entry": ["d[c + 8] |= 1; d[6] |= 1", "is encrypted"],
  "an unknown compression": ["d[c + 10] = 12", "compressed by method 12"],
  "two entries in one place": [
    "n = d.find(b'PK\\x01\\x02', c + 4); d[n + 42:n + 46] = d[c + 42:c + 46]",
    "overlaps",
  ],
  "an entry beyond the file": ["d[c + 42:c + 46] = (10**9).to_bytes(4, 'little')", "overlaps"],
  "a size beyond the file": ["d[c + 20:c + 28] = (2 * 10**9).to_bytes(4, 'little') * 2", "overlaps"],
  "sizes that disagree": ["d[c + 24] += 1", "contradict"],
  "a 64-bit size that is missing": ["d[c + 24:c + 28] = b'\\xff' * 4", "64-bit sizes"],
  "a bomb": [
    "d[c + 10] = 8; d[c + 24:c + 28] = (10**9).to_bytes(4, 'little')",
    "would unpack 1000 bytes into 1000000000",
  ],
  "a name used twice": ["n = d.find(b'PK\\x01\\x02', c + 4); d[n + 46] = d[c + 46]", 'two entries named "a"'],
  "a directory outside the file": ["d[-6:-2] = (10**9).to_bytes(4, 'little')", "outside the file"],
  "a directory with too many entries": ["d[-12:-10] = (5000).to_bytes(2, 'little')", "too small"],
  "a missing end": ["del d[-3:]", "truncated zip"],
};

for (const [what, [damage, sentence]] of Object.entries(LIES)) {
  Deno.test(
    `a zip with ${what} is refused with a sentence`,
    inFolder((folder) => {
      const path = `${folder}/lie.zip`;
      python(
        `
import zipfile, sys
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("a", "a" * 1000); z.writestr("b", "b" * 1000)
d = bytearray(open(sys.argv[1], "rb").read()); c = d.find(b"PK\\x01\\x02")
${damage}
open(sys.argv[1], "wb").write(d)`,
        path,
      );
      const error = assertThrows(() => readAll(path), UserError, sentence);
      assertEquals(error.kind, "checkpoint");
    }),
  );
}
