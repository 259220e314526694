// What is not read is told with a line that works: Python or the shell runs it, and the file that it makes is data.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { conversionOf } from "../../../core/data/conversions.ts";
import { UserError } from "../../../core/base/errors.ts";
import { detect } from "../../../core/data/open.ts";
import { inFolder } from "../checkpoint/python.ts";
import { writtenBy } from "./formats/written.ts";

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
os.rename("t.csv", "from_tar.csv"); tarfile.open("a.tar.gz", "w:gz").add("from_tar.csv"); os.remove("from_tar.csv")
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
      assertEquals(detect(`${folder}/${result}`), result.endsWith("csv") ? "csv" : "parquet", line);
    }
    for (const file of ["b.grib2", "c.mat", "d.xlsx", "e.tgz"]) {
      Deno.writeTextFileSync(`${folder}/${file}`, "");
      assertMatch(refusal(`${folder}/${file}`), new RegExp(`^${folder}/${file} is .*Convert it: `));
    }
    assertEquals(conversionOf("thing.dat"), null);
    assertMatch(refusal(`${folder}/none.grib`), /^There is no /);
  }),
);

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
