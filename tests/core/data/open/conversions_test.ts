// What is not read is told with a line that works: Python or the shell runs it, and the file that it makes is data.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { conversionOf } from "../../../../core/data/open/conversions.ts";
import { DATA_KINDS } from "../../../../core/settings/formats.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { detect } from "../../../../core/data/open/formats.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { writtenBy } from "../formats/written.ts";
import { assertSentence } from "../../../sentences.ts";

Deno.test(
  "each line makes data of the file, and what it makes is detected",
  inFolder((folder) => {
    writtenBy(
      folder,
      `
import pandas as p, gzip, bz2, lzma, tarfile, zipfile
d = p.DataFrame({"a": np.arange(5.0), "b": np.arange(5)})
d.to_orc("o.orc"); d.to_json("l.jsonl", orient="records", lines=True); d.to_json("j.json")
d.to_stata("s.dta", write_index=False); d.to_pickle("p.pkl"); d.to_csv("t.csv", index=False); d.to_csv("z.csv", index=False)
text = open("t.csv", "rb").read()
for o, e in ((gzip, "gz"), (bz2, "bz2"), (lzma, "xz")): o.open(f"{e}.csv.{e}", "wb").write(text)
os.rename("t.csv", "from_tar.csv"); t = tarfile.open("a.tar.gz", "w:gz"); t.add("from_tar.csv"); t.close(); os.remove("from_tar.csv")
os.rename("z.csv", "from_zip.csv"); z = zipfile.ZipFile("a.zip", "w"); z.write("from_zip.csv"); z.close(); os.remove("from_zip.csv")`,
    );
    const bin = Deno.env.get("HPCTRAIN_FORMATS_PYTHON")!.replace(/\/[^/]*$/, "");
    const made: Record<string, string> = {
      "o.orc": "o.parquet",
      "l.jsonl": "l.parquet",
      "j.json": "j.parquet",
      "s.dta": "s.parquet",
      "p.pkl": "p.parquet",
      "gz.csv.gz": "gz.csv",
      "bz2.csv.bz2": "bz2.csv",
      "xz.csv.xz": "xz.csv",
      "a.tar.gz": "from_tar.csv",
      "a.zip": "from_zip.csv",
    };
    for (const [file, result] of Object.entries(made)) {
      const sentence = refusal(`${folder}/${file}`), line = sentence.split("Convert it: ")[1];
      assertMatch(sentence, / is .*, and that is not read\. /);
      const options = { args: ["-c", line], cwd: folder, env: { PATH: `${bin}:/usr/bin:/bin` } };
      const { success, stderr } = new Deno.Command("bash", options).outputSync();
      assert(success, `${line}: ${new TextDecoder().decode(stderr)}`);
      const kind = result.endsWith("csv") ? "csv" : "parquet";
      assert(Deno.statSync(`${folder}/${result}`).isFile, line);
      if (Object.hasOwn(DATA_KINDS, kind)) assertEquals(detect(`${folder}/${result}`), kind, line);
    }
    // What needs packages that are not here is Python at least, with the names where they belong.
    const lines: string[] = [];
    for (const [what, endings] of Object.entries(OTHERS)) {
      for (const ending of endings.split(" ")) {
        const file = `${folder}/b.${ending}`;
        Deno.writeTextFileSync(file, "");
        const said = refusal(file);
        assertMatch(said, new RegExp(`^${file} is ${what}, and that is not read\\. Convert it: .*${file}`));
        lines.push(/^[^"]*python -c "(.*)"$/.exec(said)?.[1] ?? "");
      }
    }
    writtenBy(
      folder,
      `import ast\nfor line in json.loads(${JSON.stringify(JSON.stringify(lines))}): ast.parse(line)`,
    );
    for (const ending of ["mat", "hdf", "he5"]) {
      const mark = new TextEncoder().encode("\x89HDF\r\n\x1a\n"), bytes = new Uint8Array(600);
      bytes.set([0x89, ...mark.subarray(2)], ending === "mat" ? 512 : 0);
      Deno.writeFileSync(`${folder}/c.${ending}`, bytes);
      assertSentence("core/data/open/conversions: hdf another name", refusal(`${folder}/c.${ending}`));
    }
    assertEquals(conversionOf("thing.dat"), null);
    assertMatch(refusal(`${folder}/none.grib`), /^There is no /);
  }),
);

const OTHERS = {
  "GRIB": "grib grb grib2",
  "BUFR": "bufr",
  "HDF4": "hdf h4",
  "a file of ROOT": "root",
  "TFRecord": "tfrecord tfrecords",
  "a file of PyTorch": "pt pth",
  "a file of safetensors": "safetensors",
  "a pickle, which runs .*": "pkl pickle",
  "a pickle of joblib, which runs .*": "joblib",
  "a file of MATLAB before version 7.3": "mat",
  "NIfTI": "nii nii.gz",
  "DICOM": "dcm",
  "MRC": "mrc",
  "an image that is neither .*": "jp2 gif bmp",
  "a data base": "sqlite",
  "Avro": "avro",
  "a file of R": "rds",
  "a spreadsheet": "xlsx",
  "an archive": "tgz 7z rar",
  "packed by LZ4": "csv.lz4",
};

function refusal(path: string): string {
  try {
    detect(path);
  } catch (error) {
    assert(error instanceof UserError, String(error));
    assertEquals(error.kind, "data");
    return error.message;
  }
  throw new Error(`${path} is taken`);
}
