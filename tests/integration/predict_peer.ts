// What Python makes of a run's weights and figures, beside what was written. Test helper.
import { python } from "../core/checkpoint/python.ts";

const PEER = `
import csv, json, sys, numpy, torch, netCDF4
data, *outs = sys.argv[2:]
z = numpy.load(f"{sys.argv[1]}/{data}")
own = torch.load(f"{sys.argv[1]}/checkpoints/r_latest.pt", weights_only=True)
figures = own["hpctrain"]["normalisation"]
weights = own["model_state_dict"]
x = (torch.from_numpy(z["x"]) - torch.tensor(figures["mean"]).float()) / torch.tensor(figures["std"]).float()
for i in (0, 2):
    x = torch.relu(torch.nn.functional.linear(x, weights[f"{i}.weight"], weights[f"{i}.bias"]))
want = torch.nn.functional.linear(x, weights["4.weight"], weights["4.bias"]).numpy()
targets = own["hpctrain"].get("target_normalisation")
if targets:
    want = want * numpy.float32(targets["std"]) + numpy.float32(targets["mean"])
target = z["y"] if "y" in z else z["c"]
def read(path):
    if path.endswith(".npz"):
        return dict(numpy.load(path))
    if path.endswith(".nc"):
        with netCDF4.Dataset(path) as d:
            return {name: numpy.asarray(v[:]) for name, v in d.variables.items()}
    rows = list(csv.DictReader(open(path)))
    return {name: numpy.array([float(r[name]) for r in rows]) for name in rows[0]}
verdicts = []
for out in outs:
    got = read(f"{sys.argv[1]}/{out}")
    ids = got["id"].astype(int)
    prediction, known = (got[n].reshape(len(ids), -1) for n in ("prediction", "target"))
    verdict = {"ids": ids.tolist(), "worst": float(abs(prediction - want[ids]).max()),
        "targets": float(abs(known - target.reshape(len(target), -1)[ids]).max())}
    if "label" in got:
        shares = torch.softmax(torch.from_numpy(want[ids]), 1).numpy()
        verdict["labels"] = int((got["label"] != shares.argmax(1)).sum())
        verdict["probability"] = float(abs(got["probability"] - shares.max(1)).max())
    verdicts.append(verdict)
print(json.dumps(verdicts))
`;

export interface Verdict {
  readonly ids: number[];
  /** Largest differences from Python's outputs, and from the data's targets. */
  readonly worst: number;
  readonly targets: number;
  /** Labels that are not Python's. */
  readonly labels: number;
  readonly probability: number;
}

export const hpctrainMlp = (cwd: string, data: string, outs: readonly string[]): Verdict[] =>
  JSON.parse(python(PEER, cwd, data, ...outs));
