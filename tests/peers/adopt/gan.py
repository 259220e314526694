"""Two models with an optimizer each, which take turns."""
import torch
import torch.nn as nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
judge = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
of_judge = torch.optim.Adam(judge.parameters(), 2e-4, (0.5, 0.999))
of_maker = torch.optim.Adam(maker.parameters(), 2e-4, (0.5, 0.999))
criterion = nn.BCELoss()
for step in range(40):
    judge.zero_grad()
    criterion(judge(torch.randn(8, 6)).view(-1), torch.ones(8)).backward()
    made = maker(torch.randn(8, 4))
    criterion(judge(made.detach()).view(-1), torch.zeros(8)).backward()
    of_judge.step()
    maker.zero_grad()
    criterion(judge(made).view(-1), torch.ones(8)).backward()
    of_maker.step()
