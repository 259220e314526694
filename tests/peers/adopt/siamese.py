"""Pairs of inputs, a sigmoid in the model and BCELoss outside."""
import torch
import torch.nn as nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
        self.head = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, left, right):
        return self.head(torch.cat((self.body(left), self.body(right)), 1))


torch.manual_seed(0)
model, criterion = Siamese(), nn.BCELoss()
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
for step in range(40):
    left, right, target = torch.randn(16, 12), torch.randn(16, 12), (torch.rand(16) < 0.5).float()
    optimizer.zero_grad()
    loss = criterion(model(left, right).squeeze(), target)
    loss.backward()
    optimizer.step()
