// `hpctrain predict` on several ranks, and of data that nobody has the answers to, beside Python.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Two tables of three kinds each, of which one kind is not the same, and the second without its kinds. */
const DATA = `
import numpy, os, sys
os.chdir(sys.argv[1])
rng = numpy.random.default_rng(1)
def table(path, samples, kinds):
    x = rng.normal(0, 1, (samples, 3)).astype("float32")
    c = (x.sum(1) > 0).astype(int) + (x[:, 0] > 0).astype(int)
    with open(path, "w") as told, open("untold_" + path, "w") as untold:
        told.write("p,q,r,kind\\n"); untold.write("p,q,r\\n")
        for row, k in zip(x, c):
            numbers = ",".join(map(str, row))
            told.write(numbers + "," + kinds[k] + "\\n"); untold.write(numbers + "\\n")
table("a.csv", 200, ["ant", "bee", "cat"]); table("b.csv", 97, ["bee", "cat", "dog"])
print("null")
`;

const PEER = `
import csv, json, sys, numpy, torch
folder, out = sys.argv[1:3]
x = torch.from_numpy(numpy.loadtxt(f"{folder}/untold_b.csv", delimiter=",", skiprows=1).astype("float32"))
w = torch.load(f"{folder}/checkpoints/r_latest.pt", weights_only=True)["model_state_dict"]
for i in (0, 2):
    x = torch.relu(torch.nn.functional.linear(x, w[f"{i}.weight"], w[f"{i}.bias"]))
shares = torch.softmax(torch.nn.functional.linear(x, w["4.weight"], w["4.bias"]), 1)
rows = list(csv.DictReader(open(f"{folder}/{out}")))
kinds = ["ant", "bee", "cat"]
print(json.dumps({
    "ids": [int(r["id"]) for r in rows], "columns": list(rows[0]),
    "labels": sum(r["label"] != kinds[k] for r, k in zip(rows, shares.argmax(1))),
    "probability": max(abs(float(r["probability"]) - float(p)) for r, p in zip(rows, shares.max(1).values)),
    "targets": [r.get("target", "") for r in rows],
}))
`;

interface Verdict {
  readonly ids: number[];
  readonly columns: string[];
  readonly labels: number;
  readonly probability: number;
  readonly targets: string[];
}

const checked = (cwd: string, out: string): Verdict => {
  const verdict: Verdict = JSON.parse(python(PEER, cwd, out));
  assertEquals(verdict.ids, Array.from({ length: 97 }, (_, i) => i));
  assertEquals(verdict.labels, 0); // that differ from Python's
  assert(verdict.probability < 1e-5, `${verdict.probability}`);
  return verdict;
};

Deno.test("two ranks write the file that one rank writes, of data with or without answers, by the model's own names", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const mlp = ["--model=mlp", "--hidden-size=8", "--device=cpu", "--epochs=1", "--batch-size=16"];
    await succeed(["train", ...mlp, "--data-path=a.csv", "--targets=kind", "--no-wandb", "--run-name=r"], {
      cwd,
    });
    const path = "checkpoints/r_latest.pt";
    const untold = ["predict", path, "--data-path=untold_b.csv", "--no-targets"];
    await succeed([...untold, "--out=one.csv"], { cwd });
    const together = await launch(cwd, mpich(), ["-n", "2", "--", ...untold, "--out=two.csv"]).result;
    assertEquals(together.code, 0, together.stderr);
    assertMatch(together.stdout, /of 97 samples to two\.csv/);
    assertEquals(Deno.readTextFileSync(join(cwd, "two.csv")), Deno.readTextFileSync(join(cwd, "one.csv")));
    const { columns } = checked(cwd, "two.csv");
    assertEquals(columns.slice(-2), ["label", "probability"]); // and no target

    await succeed(["predict", path, "--data-path=b.csv", "--out=told.csv"], { cwd });
    const { targets } = checked(cwd, "told.csv");
    const kinds = Deno.readTextFileSync(join(cwd, "b.csv")).trim().split("\n").slice(1)
      .map((line) => line.split(",")[3]);
    assert(kinds.includes("dog") && kinds.includes("bee"), String(kinds));
    assertEquals(targets, kinds.map((kind) => kind === "dog" ? "-1" : kind)); // the model knows no dog
    assertEquals([...Deno.readDirSync(cwd)].filter(({ name }) => name.includes(".tmp-")), []);

    const { code, stderr } = await run(["predict", path, "--data-path=untold_b.csv", "--out=no.csv"], {
      cwd,
    });
    assertEquals(code, 3, stderr);
    assertSentence("integration/predict_ranks: data nobody answers", stderr);
  }));
