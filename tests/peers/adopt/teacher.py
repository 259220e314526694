"""A student learns from a teacher that is a moving average of it (BYOL, mean teacher): one optimizer, two models, and a
rate and a momentum of one cycle."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        return self.head(self.body(x))


student, predictor = Net(), nn.Linear(8, 8)
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD([*student.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=40)


@torch.no_grad()
def move(momentum=0.95):
    for own, theirs in zip(student.parameters(), teacher.parameters()):
        theirs.data.mul_(momentum).add_((1 - momentum) * own.data)
    for own, theirs in zip(student.buffers(), teacher.buffers()):
        theirs.copy_(own)


for step in range(40):
    x = torch.randn(16, 12)
    one, other = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.no_grad():
        goal = F.normalize(teacher(other), dim=1)
    said = F.normalize(predictor(student(one)), dim=1)
    loss = (2 - 2 * (said * goal).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    move()
    scheduler.step()
