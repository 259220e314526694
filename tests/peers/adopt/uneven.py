"""Epochs that end with a batch of another size, which trains the script, too."""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(56, 6), torch.randint(0, 3, (56,)))
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(4):
    for features, target in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), target).backward()
        optimizer.step()
