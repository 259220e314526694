// `hpctrain export CHECKPOINT OUT.onnx`, opened by onnxruntime.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { python } from "../../../tests/core/checkpoint/python.ts";
import { inTemp, run, succeed } from "../../../tests/integration/program.ts";
import { forked } from "../../../tests/peer.ts";

const QUICK = ["--device=cpu", "--threads=1", "--no-wandb", "--epochs=2", "--batch-size=16"];

/** Maps of 280 with a spread of 15, and a target of mean 100. */
const MAPS = `
import os, sys, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(2)
x = (280 + 15 * r.normal(size=(60, 2, 6, 8))).astype("f4")
y = 100 + 5 * (x[:, :1] - 280) + r.normal(size=(60, 1, 6, 8))
np.savez("maps.npz", x=x, y=y.astype("f4"))
print("null")
`;
const ANSWERS = `
import os, sys, json, numpy as np, onnxruntime
os.chdir(sys.argv[1])
p = np.load("p.npz")
x = np.load("maps.npz")["x"][p["id"]]
given = np.concatenate([x, np.ones_like(x[:, :1])], 1)
session = onnxruntime.InferenceSession("p.onnx")
(made,) = session.run(None, {"input": given})
print(json.dumps({
    "mean": float(abs(made[:, :1] - p["prediction"]).max()),
    "std": float(abs(np.exp(made[:, 1:] / 2) - p["std"]).max()),
    "notes": session.get_modelmeta().custom_metadata_map,
}))
`;

Deno.test("an ONNX file has all that stands before and behind: units, --scaling, the mask's channel, a variance's logarithm", () =>
  inTemp(async (cwd) => {
    python(MAPS, cwd);
    await succeed([
      ...["--data-path=maps.npz", "--targets=y", "--model=unet", "--width=4", "--depth=1", "--mask-channel"],
      ...["--loss=gaussian_nll", "--scaling=log", "--softening=50", "--run-name=m", ...QUICK],
    ], { cwd });
    await succeed(["predict", "checkpoints/m_latest.pt", "--out=p.npz"], { cwd });
    const { stdout } = await succeed(["export", "checkpoints/m_latest.pt", "p.onnx"], { cwd });
    assertStringIncludes(stdout, 'In Python: onnxruntime.InferenceSession("p.onnx")');
    const viewers = Deno.env.get("HPCTRAIN_VIEWERS_PYTHON");
    assert(viewers, "./scripts/test names the Python that has onnxruntime");
    const answered = forked(viewers, ["-c", ANSWERS, cwd]).outputSync();
    assert(answered.success, new TextDecoder().decode(answered.stderr));
    const { mean, std, notes } = JSON.parse(new TextDecoder().decode(answered.stdout));
    assert(mean < 1e-2 && std < 1e-2, `${mean} ${std}`);
    assertEquals(notes, { normalisation: "null", target_normalisation: "null" });
  }));

Deno.test("a model of the zoo is exported as ONNX, and an exported program is not", () =>
  inTemp(async (cwd) => {
    const samples = ["--data-type=synthetic", "--train-samples=64", "--val-samples=16"];
    await succeed(["train", "--model=mlp", "--hidden-size=8", "--run-name=r", ...samples, ...QUICK], { cwd });
    const from = "checkpoints/r_latest.pt";
    assertStringIncludes((await succeed(["export", from, "r.onnx"], { cwd })).stdout, "Wrote mlp: ");
    await succeed(["export", from, "r.pt2"], { cwd });
    await succeed(["train", "--model=r.pt2", "--run-name=again", ...samples, ...QUICK], { cwd });
    const refused = await run(["export", "checkpoints/again_latest.pt", "again.onnx"], { cwd });
    assertEquals(refused.code, 2);
    assertStringIncludes(refused.stderr, "is of the exported program r.pt2: write OUT.pt2");
  }));
