# torch.optim.swa_utils on the checkpoints of a run: {epochs, last, batches, model} -> the largest differences of the averaged
# weights, of batch norms' statistics, and of the averaged model's answers.
import json
import os
import sys

import torch
from torch.optim.swa_utils import AveragedModel, update_bn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../examples/python"))
import zoo_models  # noqa: E402

torch.set_num_threads(1)
asked = json.load(sys.stdin)
model = zoo_models.cosmo_cnn(*asked["model"])
averaged = AveragedModel(model)
for path in asked["epochs"]:
    model.load_state_dict(torch.load(path, weights_only=True)["model_state_dict"])
    averaged.update_parameters(model)
update_bn([torch.tensor(batch) for batch in asked["batches"]], averaged)

ours = torch.load(asked["last"], weights_only=True)
state = ours["model_state_dict"] | ours["hpctrain"]["ema_state_dict"]
theirs = averaged.module.state_dict()
largest = {"weights": 0.0, "statistics": 0.0}
for name, value in theirs.items():
    kind = "statistics" if "running" in name or "batches" in name else "weights"
    largest[kind] = max(largest[kind], float((value - state[name]).abs().max()))

other = zoo_models.cosmo_cnn(*asked["model"])
other.load_state_dict(state)
x = torch.tensor(asked["batches"][0])
with torch.no_grad():
    largest["answers"] = float((other.eval()(x) - averaged.module.eval()(x)).abs().max())
print(json.dumps(largest | {"averaged": int(averaged.n_averaged)}))
