"""A model that is called twice in a step, with noise between, and a cosine schedule by steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
for step in range(40):
    x = torch.randn(16, 12)
    one, other = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
    alike = F.normalize(one, dim=1) @ F.normalize(other, dim=1).T / 0.5
    loss = F.cross_entropy(alike, torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
