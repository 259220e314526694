"""Double precision in a script: makes data and an exported program of float64, trains it, and reads what hpctrain predicts."""
import csv
import json
import sys

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def numbers():
    torch.manual_seed(3)
    x = torch.randn(48, 3, dtype=torch.float64)
    return x, (x[:, :1] * x[:, 1:2] + x[:, 2:] / 3)


def make(folder):
    x, y = numbers()
    rows = torch.cat([x, y], 1).tolist()
    with open(f"{folder}/data.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "c", "y"], *rows])
    np.savez(f"{folder}/data.npz", x=x.numpy(), y=y.numpy())
    torch.manual_seed(0)
    net, batch = Net().double(), torch.export.Dim("batch")
    torch.export.save(torch.export.export(net, (x[:4],), dynamic_shapes=({0: batch},)), f"{folder}/net.pt2")
    torch.export.save(torch.export.export(net.float(), (x[:4].float(),), dynamic_shapes=({0: batch},)), f"{folder}/single.pt2")


def train(kind, options, steps):
    x, y = numbers()
    torch.manual_seed(0)
    net = Net().double()
    optimizer = getattr(torch.optim, kind)(net.parameters(), **options)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)]


def predicted(folder, checkpoint):
    """How far the predictions in each file are from what the checkpoint's weights give here, and their types."""
    x, _ = numbers()
    net = Net().double()
    net.load_state_dict(torch.load(f"{folder}/{checkpoint}", weights_only=True)["model_state_dict"])
    own = net(x).detach().numpy()[:, 0]
    with open(f"{folder}/p.csv") as file:
        texts = [float(row["prediction"]) for row in csv.DictReader(file)]
    files = {"npz": np.load(f"{folder}/p.npz")["prediction"][:, 0], "csv": np.array(texts)}
    return {name: [str(values.dtype), float(np.abs(values - own).max())] for name, values in files.items()}


asked = json.load(sys.stdin)
if "checkpoint" in asked:
    json.dump(predicted(asked["folder"], asked["checkpoint"]), sys.stdout)
else:
    make(asked["folder"])
    json.dump([train(*one) for one in asked["runs"]], sys.stdout)
