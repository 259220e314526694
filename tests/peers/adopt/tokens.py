"""Tokens in nanoGPT's habit: a file that is mapped anew for each batch, windows from random places; a rate in that of transformers, and
so a model that gives its loss first."""
import functools

import numpy as np
import torch
import torch.nn as nn

np.random.default_rng(0).integers(0, 60, 4000).astype(np.uint16).tofile("train.bin")
np.random.default_rng(1).integers(0, 60, 800).astype(np.uint16).tofile("val.bin")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.mix, self.head = nn.Embedding(60, 16), nn.Linear(16, 16), nn.Linear(16, 60)

    def forward(self, idx, targets=None):
        logits = self.head(torch.tanh(self.mix(self.wte(idx))).cumsum(1))
        return {"loss": nn.functional.cross_entropy(logits.view(-1, 60), targets.view(-1)), "logits": logits}


def get_batch():
    data = np.memmap("train.bin", dtype=np.uint16, mode="r")
    at = torch.randint(len(data) - 12, (4,))
    return tuple(torch.stack([torch.from_numpy(data[i + k : i + k + 12].astype(np.int64)) for i in at]) for k in (0, 1))


def _get_linear_schedule_with_warmup_lr_lambda(step, *, num_warmup_steps, num_training_steps):
    return step / num_warmup_steps if step < num_warmup_steps else (num_training_steps - step) / (num_training_steps - num_warmup_steps)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rate = functools.partial(_get_linear_schedule_with_warmup_lr_lambda, num_warmup_steps=3, num_training_steps=40)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
for step in range(40):
    idx, targets = get_batch()
    optimizer.zero_grad(set_to_none=True)
    model(idx, targets)["loss"].backward()
    optimizer.step()
    scheduler.step()
