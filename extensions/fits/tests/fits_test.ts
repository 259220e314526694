// FITS files as astropy writes them: images, cubes and binary tables, in memory and a sample at a time.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import type { Column } from "../../../core/data/arrays/table.ts";
import { typedView } from "../../../core/data/arrays/numbers.ts";
import { withFits } from "../fits.ts";
import { detect } from "../../../core/data/open/formats.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { inFolder } from "../../../tests/core/checkpoint/python.ts";
import { alike, layouts } from "../../../tests/core/data/streamed.ts";
import { writtenBy } from "../../../tests/core/data/formats/written.ts";

useLibtorch();

const ASTROPY = "from astropy.io import fits\nfrom astropy.table import Table\n";

function numbers(column: Column): (number | null)[] {
  const { buffer, byteOffset, byteLength } = column.read();
  const values = typedView(new Uint8Array(buffer, byteOffset, byteLength), column.dtype);
  return Array.from(values as ArrayLike<number>, (value) => Number.isNaN(value) ? null : Number(value));
}

Deno.test(
  "images and columns of each type, scaled, unsigned or with missing values, have astropy's numbers",
  inFolder(async (folder) => {
    const expected = writtenBy(
      folder,
      `${ASTROPY}
def whole(t, shape):
    i = np.iinfo(t); a = r.integers(i.min, i.max, shape, dtype=t, endpoint=True); a.flat[:2] = i.min, i.max
    return a
kinds = ["u1", "i2", "u2", "i4", "u4", "f4", "f8"]
arrays = {t: whole(t, (6, 5, 7)) if t[0] != "f" else r.normal(size=(6, 5, 7)).astype(t) for t in kinds}
arrays["f4"][2, 1, 3] = np.nan
hdus = [fits.PrimaryHDU()] + [fits.ImageHDU(a, name=t.upper()) for t, a in arrays.items()]
scaled = fits.ImageHDU((r.normal(size=(6, 4)) * 20).round(1), name="SCALED"); scaled.scale("int16", bscale=0.1, bzero=5.0)
blank = fits.ImageHDU(np.arange(24, dtype="i2").reshape(6, 4), name="BLANK"); blank.header["BLANK"] = 5; blank.header["BUNIT"] = "Jy"
fits.HDUList(hdus + [scaled, blank]).writeto("images.fits")
t = Table({**{t: a[:, 0, 0] for t, a in arrays.items()}, "spectrum": arrays["f8"].reshape(6, 35), "map": arrays["f4"], "kind": ["star", "galaxy", "qso"] * 2,
           "flag": np.array([True, False] * 3), "z": np.array([1j] * 6)})
t["i2"].unit = "km"; t.write("table.fits")
gap = fits.BinTableHDU(Table({"n": np.array([1, -1, 3], "i4"), "s": np.array([0, 2, 4], "i2")}))
fits.HDUList([fits.PrimaryHDU(), gap]).writeto("gap.fits")
cards = open("gap.fits", "rb").read()
end = cards.rindex(b"END     "); more = b"".join(c.ljust(80) for c in (b"TNULL1  = -1", b"TSCAL2  = 0.5", b"TZERO2  = 2.0D0 / half", b"END"))
open("gap.fits", "wb").write(cards[:end] + more + cards[end + len(more):])
found = {}
with fits.open("images.fits") as f:
    for h in f[1:]: found[h.name] = np.where(np.isnan(h.data), None, h.data.astype("f8")).ravel().tolist()
found["BLANK"][5] = None
for name in ("spectrum", "map", *kinds): found["table " + name] = np.where(np.isnan(t[name]), None, np.asarray(t[name]).astype("f8")).ravel().tolist()
print(json.dumps(found))`,
    ) as Record<string, (number | null)[]>;
    withFits(`${folder}/images.fits`, ({ columns }) => {
      assertEquals(columns.map(({ name }) => name), [
        "U1",
        "I2",
        "U2",
        "I4",
        "U4",
        "F4",
        "F8",
        "SCALED",
        "BLANK",
      ]);
      for (const column of columns) {
        const found = numbers(column), theirs = expected[column.name];
        if (column.name !== "SCALED") assertEquals(found, theirs, column.name);
        else found.forEach((value, i) => assert(Math.abs(value! - theirs[i]!) < 1e-5));
      }
      assertEquals(columns.map(({ dtype }) => dtype), [
        "u8",
        "i16",
        "f32",
        "i32",
        "f64",
        "f32",
        "f64",
        "f32",
        "f32",
      ]);
      assertEquals(columns.at(-1)!.units, "Jy");
      assertEquals(columns[0].shape, [6, 5, 7]);
    });
    withFits(`${folder}/table.fits`, ({ columns }) => {
      for (const column of columns) {
        const theirs = expected[`table ${column.name}`];
        if (theirs) assertEquals(numbers(column), theirs, column.name);
      }
      const of = (name: string) => columns.find((column) => column.name === name)!;
      assertEquals(of("map").shape, [6, 5, 7]);
      assertEquals([of("kind").text!.classes(), numbers(of("kind"))], [["galaxy", "qso", "star"], [
        2,
        0,
        1,
        2,
        0,
        1,
      ]]);
      assertEquals(of("i2").units, "km");
      assertStringIncludes(of("flag").unusable!, "holds logical values");
      assertStringIncludes(of("z").unusable!, "holds complex numbers");
    });
    withFits(`${folder}/gap.fits`, ({ columns: [n, s] }) => {
      assertEquals([n.whole, numbers(n), numbers(s)], [true, [1, null, 3], [2, 3, 4]]);
    });
    assertEquals(detect(`${folder}/table.fits`), "fits");
    for (
      const [file, features, targets] of [
        ["images", ["I2"], ["F8"]],
        ["images", ["U2", "I4", "F8"], ["U1"]],
        ["table", ["spectrum"], ["f8"]],
      ] as const
    ) {
      const { train } = await alike(`${folder}/${file}.fits`, {
        data: { features: [...features], targets: [...targets] },
      });
      assertEquals(layouts(train), features.map(() => "file"));
    }
    const { train } = await alike(`${folder}/table.fits`, {
      data: { features: ["u1", "i2"], targets: ["kind"] },
      training: { loss: "auto" },
    });
    assertEquals(train.facts.outputs, 3);
  }),
);

Deno.test(
  "several tables have the names of their parts; packed images, text tables and damage are told of",
  inFolder((folder) => {
    writtenBy(
      folder,
      `${ASTROPY}
a = np.arange(100.0).reshape(10, 10)
two = [fits.BinTableHDU(Table({"x": np.arange(3)}), name=n) for n in ("A", "B", "B")]
lists = fits.BinTableHDU.from_columns([fits.Column("v", "PJ()", array=np.array([np.arange(2), np.arange(3)], dtype=object)), fits.Column("bits", "11X", array=np.zeros((2, 11), "?")), fits.Column("n", "J", array=[7, 8])], name="L")
ascii = fits.TableHDU.from_columns([fits.Column("t", "F8.2", array=[1.0, 2.0], ascii=True)], name="T")
fits.HDUList([fits.PrimaryHDU(a), fits.CompImageHDU(a.astype("f4"), name="C"), *two, lists, ascii]).writeto("odd.fits")`,
    );
    withFits(`${folder}/odd.fits`, ({ columns }) => {
      const found = columns.map(({ name, unusable }) => [name, unusable?.split(/[:,]/)[0] ?? "fine"]);
      assertEquals(found, [
        ["PRIMARY", "fine"],
        ["C", "is a packed image"],
        ["A/x", "fine"],
        ["B/x", "fine"],
        ["B/x#2", "fine"],
        ["L/v", "holds lists of unequal length"],
        ["L/bits", "holds bits"],
        ["L/n", "fine"],
        ["T", "is a table of text"],
      ]);
      assertEquals(numbers(columns[7]), [7, 8]);
    });
    const whole = Deno.readFileSync(`${folder}/odd.fits`), path = `${folder}/damaged.fits`;
    const refused = (bytes: Uint8Array): string => {
      Deno.writeFileSync(path, bytes);
      try {
        withFits(path, ({ columns }) => columns.forEach((column) => column.unusable || column.read()));
      } catch (error) {
        assert(error instanceof UserError, (error as Error).stack);
        return error.message;
      }
      return "";
    };
    assertStringIncludes(refused(whole.slice(0, 3000)), "is truncated: its part 0");
    assertStringIncludes(refused(Uint8Array.of(31, 139, ...new Array(100).fill(0))), "is a gzip file");
    assertStringIncludes(refused(new Uint8Array(0)), "is no FITS file");
    const text = (card: string, by: string) => {
      const bytes = whole.slice(), at = new TextDecoder("latin1").decode(whole).indexOf(card);
      new TextEncoder().encodeInto(by.padEnd(30), bytes.subarray(at, at + 30));
      return bytes;
    };
    assertStringIncludes(
      refused(text("NAXIS1  =", "NAXIS1  =                  -10")),
      "part 0 can't be understood",
    );
    assertStringIncludes(refused(text("NAXIS1  =", "NAXIS1  =       99999999999999")), "is truncated");
    assertStringIncludes(
      refused(text("NAXIS   =", "NAXIS   =                 1e30")),
      "part 0 can't be understood",
    );
    let seed = 5;
    const next = (below: number) => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) % below;
    for (let round = 0; round < 300; round++) {
      const bytes = whole.slice(0, round % 5 === 0 ? next(whole.length) : whole.length);
      for (let i = 0; i < 8 && bytes.length > 0; i++) {
        bytes[next(Math.min(bytes.length, 40_000))] = 32 + next(60);
      }
      refused(bytes);
    }
  }),
);
