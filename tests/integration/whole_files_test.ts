// Files are used to their last row by each command that reads them, unless somebody types a number.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { EXIT } from "../../core/base/errors.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const ROWS = 250_000, HELD = 25_000;
/** y counts the rows, so that a sum over them says which were there. */
const DATA = `
import numpy, os, sys
os.chdir(sys.argv[1])
x, y = numpy.random.default_rng(1).random(${ROWS}).astype("float32"), numpy.arange(${ROWS}, dtype="float32")
numpy.savez("rows.npz", x=x, y=y)
open("rows.csv", "w").write("x,y\\n" + "".join(f"{a:.4f},{b:.0f}\\n" for a, b in zip(x, y)))
print("null")
`;
const NET = [
  ...["--model=mlp", "--hidden-size=4", "--epochs=1", "--batch-size=4096", "--device=cpu", "--threads=1"],
  ...["--features=x", "--targets=y", "--loss=mse", "--no-wandb"],
];

for (const file of ["rows.csv", "rows.npz"]) {
  Deno.test(`all ${ROWS} rows of ${file} are learned, judged and predicted, whatever a preset says of made-up data`, () =>
    inTemp(async (cwd) => {
      python(DATA, cwd);
      const train = ["--preset=debug", ...NET, "--data-type=auto", `--data-path=${file}`, "--run-name=r"];
      const { stdout } = await succeed(train, { cwd });
      assertStringIncludes(stdout, `Samples: ${ROWS - HELD} to train with`);
      assert(!stdout.includes("Not used"), stdout);
      const latest = "checkpoints/r_latest.pt";
      const judged = async (...more: string[]) =>
        JSON.parse((await succeed(["eval", latest, "--json", ...more], { cwd })).stdout).samples;
      assertEquals([await judged(), await judged("--on", "train")], [HELD, ROWS - HELD]);
      await succeed(["predict", latest, "--all", "--out=all.npz"], { cwd });
      const ids = `
import numpy, os, sys
os.chdir(sys.argv[1])
print("true" if (numpy.load("all.npz")["target"].ravel() == numpy.arange(${ROWS})).all() else "false")
`;
      assertEquals(python(ids, cwd).trim(), "true");
    }));
}

Deno.test("a number that is typed counts, a line says so, and the run goes on with it", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const few = [...NET, "--data-path=rows.npz", "--run-name=r"];
    const { stdout } = await succeed([...few, "--train-samples=5000"], { cwd });
    assertSentence("integration/whole_files: used samples because", stdout, { HELD: ROWS - HELD - 5000 });
    const onwards = ["--resume=checkpoints/r_latest.pt", "--epochs=2"];
    assertStringIncludes(
      (await succeed([...few, ...onwards], { cwd })).stdout,
      "Samples: 5000 to train with",
    );
    const { code, stderr } = await run([...few, ...onwards, "--train-samples=all"], { cwd });
    assertEquals(code, EXIT.checkpoint, stderr);
    assertStringIncludes(stderr, "data.train_samples 5000 -> all (--train-samples)");
  }));
