"""Pairs of inputs, a sigmoid in the model and BCELoss outside; two optimizers for one loss, which are made anew before they are used."""
import torch
import torch.nn as nn

torch.manual_seed(0)
body, criterion = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)), nn.BCELoss()
top = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())
data, targets = torch.randn(40, 2, 16, 12), (torch.rand(40, 16) < 0.5).float()
for _ in range(2):
    of_body, of_head = torch.optim.Adadelta(body.parameters(), lr=1.0), torch.optim.Adadelta(top.parameters(), lr=0.5)
for step in range(40):
    left, right, target = *data[step].unbind(), targets[step]
    of_body.zero_grad()
    of_head.zero_grad()
    loss = criterion(top(torch.cat((body(left), body(right)), 1)).squeeze(), target)
    loss.backward()
    of_body.step()
    of_head.step()
