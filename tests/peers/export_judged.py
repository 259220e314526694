"""Exported programs that compute their own loss or take several inputs, and what eager training of them gives."""
import json
import os
import struct
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim, export, save


class Judged(nn.Module):
    """Works on its targets first, and has a weight that only the loss uses."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 16), nn.Tanh())
        self.deep = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
        self.heat = nn.Parameter(torch.tensor(1.5))

    def forward(self, x, labels):
        wanted = F.one_hot(labels, 4).to(x.dtype)
        logits = self.deep(self.body(x))
        loss = -(F.log_softmax(logits * self.heat, -1) * wanted).sum(-1).mean()
        return {"loss": loss, "aux": {"hidden": logits * 2}, "logits": logits}


class Language(nn.Module):
    """As nanoGPT gives them: logits and loss in a tuple, without names."""

    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(11, 16), nn.Linear(16, 11, bias=False)
        self.wte.weight = self.head.weight
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, idx, targets):
        x = self.wte(idx)
        logits = self.head(x + self.mlp(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


class Vae(nn.Module):
    """Judged against its own input, with noise; the loss wants more than the reconstruction."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x):
        mu, log = self.into(x).chunk(2, -1)
        recon = self.out(mu + torch.randn_like(mu) * (0.5 * log).exp())
        kl = -0.5 * (1 + log - mu**2 - log.exp()).mean()
        return {"recon": recon, "loss": F.mse_loss(recon, x) + 0.1 * kl}


class Latent(nn.Module):
    """It draws for each sample, for each of its positions, in place, and for its weights."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3))

    def forward(self, x):
        each = torch.bernoulli(torch.sigmoid(x)) + torch.randn(x.shape[0], 6)
        position = torch.rand_like(x.reshape(-1, 3)).reshape(-1, 6)
        written = torch.empty_like(x).normal_()
        weight = self.weight + 0.1 * torch.randn_like(self.weight)
        return (x + each + position + written) @ weight


class Noisy(nn.Module):
    """Only its loss draws."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        noise = torch.randn_like(x)
        return {"out": self.layer(x), "loss": F.mse_loss(self.layer(x + noise), noise)}


class Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x, labels):
        return F.cross_entropy(self.layer(x), labels)


class Fields(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.kinds = nn.Embedding(3, 4)
        self.head = nn.Linear(4 + 4 + 3, 2)

    def predict(self, image, tab, kind, mask):
        maps = F.relu(self.norm(self.conv(image))).masked_fill(~mask[:, None], 0)
        return self.head(torch.cat([maps.mean((2, 3)), self.kinds(kind), tab], 1))

    def forward(self, image, tab, kind, mask):
        return self.predict(image, tab, kind, mask)


class FieldsJudged(Fields):
    def forward(self, batch, y):
        out = self.predict(batch["image"], batch["tab"], batch["kind"], batch["mask"])
        return {"out": out, "loss": F.smooth_l1_loss(out, y)}


class Teacher(nn.Module):
    """What it predicts hangs on the targets."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 4)

    def forward(self, x, labels):
        logits = self.layer(torch.cat([x, labels[:, None].float()], 1))
        return {"logits": logits, "loss": F.cross_entropy(logits, labels)}


class Decoder(nn.Module):
    """As T5 and BART: the labels go in shifted right, unless forward is given what goes in."""

    def __init__(self):
        super().__init__()
        self.words, self.decoder, self.head = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 11)

    def forward(self, input_ids, labels, decoder_input_ids=None):
        if decoder_input_ids is None:
            decoder_input_ids = torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], 1)
        start = self.words(input_ids).mean(1)[None]
        logits = self.head(self.decoder(self.words(decoder_input_ids), start)[0])
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Each(Alone):
    def forward(self, x, labels):
        logits = self.layer(x)
        return {"logits": logits, "loss": F.cross_entropy(logits, labels, reduction="none")}


class Maps(nn.Module):
    """A class of each pixel; medical images have labels of [samples, 1, height, width]."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.InstanceNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1))

    def forward(self, image):
        return self.body(image)


asked = json.load(sys.stdin)
folder, STEPS, ROWS = asked["folder"], asked["steps"], 8
torch.set_num_threads(1)
batch = {0: Dim("batch", min=2)}
row, label = lambda: torch.randn(ROWS, 6), lambda: torch.randint(0, 4, (ROWS,))
tokens = lambda: torch.randint(0, 11, (ROWS, 5))
bits = lambda loss: struct.pack(">f", loss.item()).hex()
answers = {}


def written(name, model, example):
    torch.manual_seed(1)
    path = os.path.join(folder, f"{name}.pt2")
    shapes = torch.utils._pytree.tree_map(lambda t: batch, example)
    save(export(model().train(), example, dynamic_shapes=shapes), path)
    torch.manual_seed(1)
    return model().train()


def trained(name, model, example, draw):
    """The same batches as the tests draw: inputs first, then targets, each step with seeds of its own."""
    made = written(name, model, example)
    optimizer = torch.optim.SGD(made.parameters(), lr=1e-2, momentum=0.9, fused=True)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(1000 + step)
        given = draw()
        torch.manual_seed(2000 + step)
        out = made(*given)
        loss = out["loss"] if isinstance(out, dict) else out[1] if isinstance(out, tuple) else out
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    answers[name] = losses


trained("judged", Judged, (row(), label()), lambda: (row(), label()))
trained("language", Language, (tokens(), tokens()), lambda: (tokens(), tokens()))
trained("vae", Vae, (row(),), lambda: (row(),))
trained("alone", Alone, (row(), label()), lambda: (row(), label()))
for name, model in [("latent", Latent), ("noisy", Noisy)]:
    written(name, model, (row(),))
for name, model in [("teacher", Teacher), ("each", Each)]:
    written(name, model, (row(), label()))
written("shifted", Decoder, (tokens(), tokens()))
written("fed", Decoder, (tokens(), tokens(), tokens()))

# Columns of a file, in batches that are taken in their order.
random = np.random.default_rng(5)
count, held = 32, 8
columns = {
    "image": random.standard_normal((count, 2, 6, 5)).astype("f4"),
    "tab": random.standard_normal((count, 3)).astype("f4"),
    "kind": random.integers(0, 3, count),
    "mask": random.random((count, 6, 5)) < 0.7,
    "y": random.standard_normal((count, 2)).astype("f4"),
}
np.savez(os.path.join(folder, "fields.npz"), **columns)
tensors = {name: torch.from_numpy(values) for name, values in columns.items()}
inputs = lambda part: [tensors[name][part] for name in ["image", "tab", "kind", "mask"]]
named = lambda part: dict(zip(["image", "tab", "kind", "mask"], inputs(part)))
np.savez(os.path.join(folder, "rows.npz"), x=random.standard_normal((count, 6)).astype("f4"))
plain = written("fields", Fields, tuple(inputs(slice(0, 8))))
whole = written("fields_judged", FieldsJudged, (named(slice(0, 8)), tensors["y"][:8]))


def epochs(model, loss_of, order):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    losses = []
    for _ in range(2):
        for at in range(0, len(order), 8):
            part = torch.tensor(order[at:at + 8])
            loss = loss_of(model, part)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(bits(loss))
    return losses


order = list(range(count))
answers["fields"] = epochs(plain, lambda m, part: F.mse_loss(m(*inputs(part)), tensors["y"][part]), order)
answers["fields_judged"] = epochs(whole, lambda m, part: m(named(part), tensors["y"][part])["loss"], order)
images, classes = random.standard_normal((count, 1, 8, 8)).astype("f4"), random.integers(0, 3, (count, 1, 8, 8))
np.savez(os.path.join(folder, "maps.npz"), image=images, label=classes)
np.savez(os.path.join(folder, "floating.npz"), image=images, label=classes.astype("f4"))
pixels, wanted = torch.from_numpy(images), torch.from_numpy(classes[:, 0])
answers["maps"] = epochs(written("maps", Maps, (pixels[:8],)), lambda m, part: F.cross_entropy(m(pixels[part]), wanted[part]), order)
json.dump({"torch": torch.__version__, "answers": answers}, sys.stdout)
