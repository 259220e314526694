"""Exported programs whose forward moves buffers and frozen weights, and what eager training of them gives."""
import json
import os
import struct
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(6, 8), nn.Linear(8, 4)


class Single(Base):
    """Its loss has one element, [1], as torchbnn's divergences give it."""

    def forward(self, x, labels):
        logits = self.head(torch.tanh(self.into(x)))
        divergence = torch.zeros(1)
        for weight in self.parameters():
            divergence = divergence + weight.square().mean()
        return logits, F.cross_entropy(logits, labels) + 0.1 * divergence


class Centres(Base):
    """The loss looks at a memory that moves behind it, without the labels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centres", torch.randn(4, 8))

    def forward(self, x, labels):
        z = self.into(x)
        logits = self.head(z)
        loss = F.cross_entropy(logits, labels) + 0.1 * (z - self.centres[labels]).pow(2).mean()
        with torch.no_grad():
            self.centres.mul_(0.9).add_(z.mean(0, keepdim=True), alpha=0.1)
        return {"logits": logits, "loss": loss}


class Bank(Base):
    """A gradient goes through what was read of a memory, which is another tensor in the end."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bank", torch.randn(12, 8))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x, labels):
        z = self.into(x)
        read = torch.softmax(z @ self.bank.t(), -1) @ self.bank
        with torch.no_grad():
            self.bank = self.bank.index_copy(0, (self.at + torch.arange(4)) % 12, z[:4])
            self.at = (self.at + 4) % 12
        logits = self.head(z + read)
        return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


class Momentum(Base):
    """A frozen copy of the encoder follows it, and a queue keeps what it gave."""

    def __init__(self):
        super().__init__()
        self.slow = nn.Linear(6, 8).requires_grad_(False)
        self.register_buffer("queue", torch.randn(8, 16))

    def forward(self, x, labels):
        with torch.no_grad():
            for slow, quick in zip(self.slow.parameters(), self.into.parameters()):
                slow.mul_(0.9).add_(quick, alpha=0.1)
            key = self.slow(x)
        key = key.detach()  # run_decompositions() forgets no_grad
        z = self.into(x)
        logits = self.head(z)
        alike = torch.cat([(z * key).sum(1, keepdim=True), z @ self.queue.clone()], 1)
        loss = F.cross_entropy(alike, torch.zeros_like(labels)) + F.cross_entropy(logits, labels)
        with torch.no_grad():
            self.queue.copy_(torch.cat([key[:4].t(), self.queue[:, :-4]], 1))
        return {"logits": logits, "loss": loss}


class Codebook(Base):
    """A codebook that follows the codes by averages, with the gradient straight through."""

    def __init__(self):
        super().__init__()
        codes = torch.randn(16, 8)
        for name, value in [("codes", codes), ("sums", codes.clone()), ("counts", torch.ones(16))]:
            self.register_buffer(name, value)

    def forward(self, x, labels):
        z = self.into(x)
        nearest = (self.codes.square().sum(1) - 2 * z @ self.codes.t()).argmin(1)
        taken = F.embedding(nearest, self.codes)
        hot = F.one_hot(nearest, 16).to(z.dtype)
        with torch.no_grad():
            self.counts.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            self.sums.mul_(0.9).add_(hot.t() @ z, alpha=0.1)
            self.codes.copy_(self.sums / (self.counts + 1e-5)[:, None])
        logits = self.head(z + (taken - z).detach())
        return {"logits": logits, "loss": F.cross_entropy(logits, labels) + F.mse_loss(z, taken.detach())}


class Moved(Base):
    """It moves what is trained."""

    def forward(self, x, labels):
        with torch.no_grad():
            self.into.weight.mul_(0.9)
        logits = self.head(self.into(x))
        return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


class Overwritten(Base):
    """What is predicted is made from what was written over after the loss had looked at it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.ones(4))

    def forward(self, x, labels):
        scores = self.head(self.into(x))
        loss = F.cross_entropy(scores, labels) + self.bias[labels].mean()
        with torch.no_grad():
            self.bias.mul_(0.9)
        return {"logits": scores + self.bias, "loss": loss}


asked = json.load(sys.stdin)
folder, STEPS, ROWS = asked["folder"], asked["steps"], 8
torch.set_num_threads(1)
row, label = lambda: torch.randn(ROWS, 6), lambda: torch.randint(0, 4, (ROWS,))
bits = lambda loss: struct.pack(">f", loss.item()).hex()


def written(model):
    torch.manual_seed(1)
    made, batch, name = model().train(), {0: Dim("batch", min=4)}, model.__name__.lower()
    program = export(made, (row(), label()), dynamic_shapes=(batch, batch))
    save(program, os.path.join(folder, f"{name}.pt2"))
    save(program.run_decompositions(), os.path.join(folder, f"{name}_decomposed.pt2"))


def trained(model):
    torch.manual_seed(1)
    made = model().train()
    weights = [p for p in made.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-2, momentum=0.9, fused=True)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(1000 + step)
        out = made(row(), label())
        loss = out["loss"] if isinstance(out, dict) else out[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    buffers = {name: value.double().flatten().tolist() for name, value in made.state_dict().items()}
    return {"losses": losses, "state": buffers}


answers = {}
for model in [Single, Centres, Bank, Momentum, Codebook]:
    written(model)
    answers[model.__name__.lower()] = trained(model)
for model in [Moved, Overwritten]:
    written(model)
json.dump({"torch": torch.__version__, "answers": answers}, sys.stdout)
