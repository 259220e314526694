"""PyTorch's side of the ranks benchmark: DistributedDataParallel over Gloo, one thread a rank, batches that lie in memory."""
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from models import Gpt, adamw, cross_entropy


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
        return self.fc2(self.dropout2(x))


name, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
if name == "gpt":
    model, batch = Gpt(), 12
    inputs, targets = (torch.randint(0, 65, (20 * batch, 64)) for _ in range(2))
else:
    model, batch = Convnet(), 64
    inputs, targets = torch.randn(20 * batch, 1, 28, 28), torch.randint(0, 10, (20 * batch,))
ranks = nn.parallel.DistributedDataParallel(model)
optimizer = adamw(model.parameters())
done = []
for step in range(steps):
    at = step % 20 * batch
    loss = cross_entropy(ranks(inputs[at : at + batch]), targets[at : at + batch])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    loss.item()  # as a training loop that tells its loss does
    done.append(time.time())
if dist.get_rank() == 0:
    print(json.dumps({"done": done, "batch": batch * dist.get_world_size()}), flush=True)
dist.destroy_process_group()
