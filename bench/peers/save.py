"""PyTorch's side of the save benchmark: saves the same tensors, for each line of input. See bench/save_worker.ts.
Arguments: "plain" (torch.save to the file's own name) or "safe" (a temporary file, fsync, rename), the folder, the sizes."""
import json
import os
import sys
import time

import torch

how, folder, features, hidden, layers, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
widths = [features] + [hidden] * layers
blocks = [m for a, b in zip(widths, widths[1:]) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())]
model = torch.nn.Sequential(*blocks, torch.nn.Linear(hidden, 1))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
loss = torch.nn.functional.mse_loss(model(torch.randn(batch, features)), torch.randn(batch, 1))
loss.backward()
optimizer.step()
optimizer.zero_grad(set_to_none=True)
path = os.path.join(folder, how + ".pt")


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def save():
    state = {"model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    if how == "plain":
        torch.save(state, path)
        return
    torch.save(state, path + ".tmp")
    sync(path + ".tmp")
    os.replace(path + ".tmp", path)
    sync(folder)


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    save()
    seconds = time.perf_counter() - began
    answer = {"seconds": seconds, "stall": seconds, "bytes": os.path.getsize(path), "cpu": time.process_time()}
    print(json.dumps(answer), flush=True)
