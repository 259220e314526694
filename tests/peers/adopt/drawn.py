"""A Dataset that draws in __getitem__, a part of which validates: no sample comes twice."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


class Noisy(Dataset):
    def __init__(self, count):
        self.x = torch.randn(count, 1, 6, 6, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(1, 6, 6), int(self.x[i].mean() > 0)


if __name__ == "__main__":
    assert sys.argv[1:] == ["--lr", "0.1"], sys.argv
    torch.manual_seed(0)
    train, val = random_split(Noisy(100), [80, 20])
    loaders = DataLoader(train, batch_size=10, shuffle=True), DataLoader(val, batch_size=10)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    for epoch in range(5):
        for x, label in loaders[0]:
            loss = nn.functional.cross_entropy(model(x), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
