"""The script that a PyTorch user writes for speed: a batch that lies on the GPU, bf16 by autocast, AdamW fused.
`python3 peer.py MODEL BATCH eager|compile|reduce-overhead` prints one line of JSON."""
import json
import sys
import time

import torch

from models import MODELS, batch_of

name, batch, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
began = time.perf_counter()
model = MODELS[name][0]().cuda().train()
x, y = (t.cuda() for t in batch_of(name, batch))
if x.dim() == 4:
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
run = model if mode == "eager" else torch.compile(model, mode="default" if mode == "compile" else mode)


def step():
    if mode == "reduce-overhead":
        torch.compiler.cudagraph_mark_step_begin()
    with torch.autocast("cuda", torch.bfloat16):
        logits = run(x)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


times, first = [], None
for block in range(8):  # ten steps each, and one look at the loss
    at = time.perf_counter()
    for _ in range(10):
        loss = step()
    loss.item()
    times.append((time.perf_counter() - at) / 10)
    first = first or time.perf_counter() - began
ms = 1000 * sorted(times[4:])[2]
print(json.dumps({"ms": round(ms, 3), "first_steps_s": round(first, 2), "memory_mib": torch.cuda.max_memory_reserved() >> 20}))
