"""A language model in nanoGPT's habit: two groups of AdamW, accumulated micro-batches, clipping, a rate that is set by hand."""
import math

import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size, block_size, micro_steps, width = 4, 16, 2, 32
torch.manual_seed(1337)
data = torch.randint(0, 50, (5000,))


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    return tuple(torch.stack([data[i + k : i + k + block_size] for i in ix]) for k in (0, 1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, 2, c // 2).transpose(1, 2) for p in self.attn(self.ln_1(x)).split(c, 2))
        share = 0.1 if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=share, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, width), nn.Embedding(block_size, width)
        self.h, self.ln_f = nn.ModuleList([Block(), Block()]), nn.LayerNorm(width)
        self.head = nn.Linear(width, 50, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, 50), targets.view(-1), ignore_index=-1)


def rate(it):
    return 1e-3 * (it + 1) / 5 if it < 5 else 1e-4 + 0.5 * (1 + math.cos(math.pi * (it - 5) / 95)) * 9e-4


model = GPT()
groups = [
    {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
    {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cuda", enabled=False)
model = torch.compile(model)
for it in range(100):
    for group in optimizer.param_groups:
        group["lr"] = rate(it)
    for _ in range(micro_steps):
        logits, loss = model(*get_batch())
        loss = loss / micro_steps
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
