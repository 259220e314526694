"""Spiking networks whose steps have a gradient of their own, and what eager training of them gives."""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, gradient):
        (v,) = ctx.saved_tensors
        return gradient / (1 + v.abs()) ** 2


def written(v):
    soft = v / (1 + v.abs())  # whose derivative is the surrogate's
    return (v > 0).float().detach() + (soft - soft.detach())


class Spiking(nn.Module):
    spike = staticmethod(Spike.apply)

    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x):
        v, out = torch.zeros(x.shape[0], 16), 0
        for _ in range(4):
            v = 0.9 * v + self.into(x)
            spikes = self.spike(v - 0.5)
            v = v * (1 - spikes)
            out = out + self.head(spikes)
        return out


class Written(Spiking):
    spike = staticmethod(written)


class Masked(nn.Module):
    """Steps that only choose, and what the user stops."""

    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(6, 16), nn.Linear(16, 4)
        self.still = nn.Linear(6, 16)

    def forward(self, x):
        y, other = self.into(x), self.still(x).detach()
        kept = torch.zeros_like(y)
        kept[:, 2:] = y[:, 2:] * (y[:, 2:] > other[:, 2:])
        return self.head(torch.where(y > 0, y, 0.1 * kept.round()))


class Rounded(nn.Module):
    """A weight that is rounded, without a gradient in Python, too."""

    def __init__(self):
        super().__init__()
        self.into, self.weight = nn.Linear(6, 16), nn.Parameter(torch.randn(16, 4))

    def forward(self, x):
        return self.into(x) @ torch.round(self.weight * 4)


class Scan(torch.autograd.Function):
    """It needs nothing of what it writes over, since its backward is its own."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        ctx.save_for_backward(x)
        square = y * y
        y.mul_(2)
        return square + y

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (2 * x + 2)


class Scanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(Scan.apply(self.into(x)))


asked = json.load(sys.stdin)
folder, STEPS = asked["folder"], asked["steps"]
torch.set_num_threads(1)
answers = {}
for model in [Spiking, Written, Masked, Rounded, Scanned]:
    torch.manual_seed(1)
    made, name = model().train(), model.__name__.lower()
    program = export(made, (torch.randn(8, 6),), dynamic_shapes=({0: Dim("batch", min=2)},))
    save(program, os.path.join(folder, f"{name}.pt2"))
    if model is Scanned:
        save(program.run_decompositions(), os.path.join(folder, "decomposed.pt2"))
    optimizer = torch.optim.SGD(made.parameters(), lr=1e-2, momentum=0.9)
    answers[name] = []
    for step in range(STEPS):
        torch.manual_seed(1000 + step)
        loss = F.cross_entropy(made(torch.randn(8, 6)), torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        answers[name].append(loss.item())
answers["decomposed"] = answers["scanned"]
json.dump({"torch": torch.__version__, "answers": answers}, sys.stdout)
