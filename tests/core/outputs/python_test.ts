// The package that `hpctrain python` writes, with real numpy, pandas, torch and xarray.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { writePythonPackage } from "../../../core/outputs/python/stubs.ts";
import { eventsOf, inTemp, succeed, TINY } from "../../integration/program.ts";
import { peer } from "../../peer.ts";
import { writtenBy } from "../data/formats/written.ts";
import { assertSentence } from "../../sentences.ts";

/** What Python prints last, as JSON. The package is in `folder`/hpctrain-python. */
function python(folder: string, code: string) {
  const head = "import json, sys\nsys.path.insert(0, 'hpctrain-python')\nimport hpctrain\n";
  const { success, stdout, stderr } = peer(["-c", head + code], { cwd: folder }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

const FORMATS = { pt: "pt", safetensors: "safetensors", sharded: "ckpt" };

Deno.test("checkpoints of each format, predictions and runs are read as torch, pandas and events.jsonl have them", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed(["python"], { cwd });
    assertStringIncludes(stdout, "pip install ./hpctrain-python");
    const again = assertThrows(() => writePythonPackage(join(cwd, "hpctrain-python")), UserError);
    assertSentence("core/outputs/python: hpctrain-python pyproject toml", again.message);

    const flags = [...TINY, "--model=cosmo-cnn", "--data-type=synthetic", "--log-interval=1", "--ema=0.9"];
    for (const [i, format] of Object.keys(FORMATS).entries()) {
      const own = [`--run-name=${format}`, `--checkpoint-format=${format}`, `--lr=${i + 1}e-3`, "--no-wandb"];
      await succeed([...flags, ...own], { cwd });
    }
    for (const ending of ["csv", "npz", "parquet"]) {
      await succeed(["predict", "checkpoints/pt_best.pt", "--out", `p.${ending}`, "--device=cpu"], { cwd });
    }
    const found = python(
      cwd,
      `
import numpy as np, torch
found = {}
for name, ending in ${JSON.stringify(FORMATS)}.items():
    c = hpctrain.checkpoint(f"checkpoints/{name}_latest.{ending}")
    found[name] = dict(
        epoch=c.epoch, step=c.step, val_loss=c.val_loss, run=c.run, lr=c.config["training"]["optimizer"]["learning_rate"],
        weights={k: float(v.astype("f8").sum()) for k, v in c.weights.items()},
        last={k: float(v.astype("f8").sum()) for k, v in c.last_weights.items()},
        state={k: [str(v.dtype), list(v.shape)] for k, v in c.state_dict().items()},
        moments=len(c.tree["optimizer_state_dict"]["state"]),
    )
theirs = torch.load("checkpoints/pt_latest.pt", weights_only=True)
ours = hpctrain.checkpoint("checkpoints/pt_latest.pt")
same = lambda a, b: all(torch.equal(torch.as_tensor(a[k]), b[k]) for k in b)
found["order"] = list(ours.weights) == list(theirs["model_state_dict"])
found["same"] = [
    same(ours.last_weights, theirs["model_state_dict"]),
    same(ours.weights, theirs["hpctrain"]["ema_state_dict"]),
    same(ours.state_dict(), theirs["hpctrain"]["ema_state_dict"]),
]
found["optimizer"] = same(ours.tree["optimizer_state_dict"]["state"][0], theirs["optimizer_state_dict"]["state"][0])
half = {"w": torch.arange(6.0).reshape(2, 3).T.bfloat16(), "n": torch.tensor([True, False]), "h": torch.ones(2).half()}
torch.save(half, "half.pt")
back = hpctrain.checkpoint("half.pt").weights
found["half"] = [back["w"].tolist(), back["n"].tolist(), str(back["h"].dtype)]
torch.save(torch.nn.Linear(1, 1), "module.pt")
try:
    hpctrain.checkpoint("module.pt")
except Exception as error:
    found["refused"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
`,
    );
    assertEquals([found.same, found.order, found.optimizer], [[true, true, true], true, true]);
    for (const [i, format] of Object.keys(FORMATS).entries()) {
      const { epoch, step, run, lr, val_loss, state, moments } = found[format];
      assertEquals([epoch, step, run, lr], [1, 4, format, (i + 1) / 1000]);
      assertEquals(val_loss, eventsOf(cwd, format).findLast(({ kind }) => kind === "eval")?.val_loss);
      assertEquals(state["head.2.weight"], ["torch.float32", [2, 64]]);
      assert(moments > 0);
      assert(
        found[format].weights["head.2.weight"] !== found[format].last["head.2.weight"],
        "averages are others",
      );
    }
    assertEquals(found.half, [[[0, 3], [1, 4], [2, 5]], [true, false], "float16"]);
    assertSentence("core/outputs/python: unpicklingerror module torch", found.refused);

    // One run failed, another one is cut by a kill.
    const lines = Deno.readTextFileSync(join(cwd, "logs/pt/events.jsonl")).trimEnd().split("\n");
    const logOf = (name: string, text: string) => {
      Deno.mkdirSync(join(cwd, "logs", name));
      Deno.writeTextFileSync(join(cwd, "logs", name, "events.jsonl"), text);
    };
    const end = '{"t":9,"kind":"exit","code":6,"message":"","step":4,"epoch":1,"seconds":1}\n';
    const failing = '{"t":8,"kind":"step","step":4,"epoch":1,"loss":"NaN","lr":0.1}\n';
    logOf("nan", lines.slice(0, 3).join("\n") + "\n" + failing + end);
    logOf("cut", lines.filter((line) => !line.includes('"exit"')).join("\n") + '\n{"t":1,"kind":"st');
    const {
      steps,
      evaluations,
      epochs,
      best,
      table,
      csv,
      npz,
      parquet,
      zarr,
      states,
      columns,
      missing,
      lost,
    } = writtenBy(
      cwd,
      `
sys.path.insert(0, "hpctrain-python")
import hpctrain, xarray
r = hpctrain.run("logs/pt")
t = hpctrain.runs("logs")
p, q, a = (hpctrain.predictions("p." + ending) for ending in ("csv", "npz", "parquet"))
xarray.Dataset({"ice": (("time", "x"), np.ones((2, 3)))}).to_zarr("p.zarr", zarr_format=2)
try:
    hpctrain.run("logs")
except FileNotFoundError as error:
    missing = str(error)
print(json.dumps(dict(
    steps=[r.steps.index.tolist(), r.steps["loss"].tolist(), str(r.steps["t"].dtype)],
    evaluations=[r.evaluations.index.tolist(), r.evaluations["val_loss"].tolist(), r.evaluations["r2/tilt"].tolist()],
    epochs=r.epochs["loss"].tolist(), best=r.best["step"], table=list(t.index), states=t["state"].to_dict(),
    lost=str(t["loss"]["nan"]), columns={c: t[c].to_dict() for c in t.columns if c.startswith("training.optimizer")},
    csv=[p.shape, list(p.columns), p.index.name], npz=[q.shape, list(q.columns)], missing=missing,
    parquet=a.equals(p.astype(a.dtypes)), zarr=list(hpctrain.predictions("p.zarr").ice.shape),
)))
`,
    );
    const told = (kind: string, field: string) =>
      eventsOf(cwd, "pt").flatMap((event) => event.kind === kind ? [event[field]] : []);
    assertEquals(steps, [[1, 2, 3, 4], told("step", "loss"), "datetime64[ns, UTC]"]);
    const [evaluation] = eventsOf(cwd, "pt").filter(({ kind }) => kind === "eval");
    assertEquals(evaluations, [[4], [evaluation.val_loss], [
      (evaluation.metrics as Record<string, number>)["r2/tilt"],
    ]]);
    assertEquals([epochs, best], [told("epoch", "loss"), 4]);
    assertEquals(table, ["cut", "nan", "pt", "safetensors", "sharded"]);
    assertEquals(states, { cut: "open", nan: "failed", pt: "done", safetensors: "done", sharded: "done" });
    assertEquals(lost, "nan");
    assertEquals(columns["training.optimizer.learning_rate"].safetensors, 0.002);
    assertEquals(csv, [[16, 4], [
      "prediction_amplitude",
      "prediction_tilt",
      "target_amplitude",
      "target_tilt",
    ], "id"]);
    assertEquals(npz, [[16, 4], ["prediction_0", "prediction_1", "target_0", "target_1"]]);
    assertEquals([parquet, zarr], [true, [2, 3]]);
    assertMatch(missing, /^logs is no run: it has no events\.jsonl/);
  }));
