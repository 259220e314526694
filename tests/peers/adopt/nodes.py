"""A network over a graph: each step has all of its nodes, its edges are a sparse matrix, and the loss is that of some of them."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, nodes, edges):
        hidden = F.relu(torch.mm(edges, self.first(nodes)))
        return F.log_softmax(torch.mm(edges, self.second(hidden)), dim=1)


torch.manual_seed(0)
nodes, kinds = torch.randn(40, 6), torch.randint(0, 3, (40,))
edges = (torch.eye(40) + (torch.rand(40, 40) < 0.1)).clamp(max=1)
edges = (edges / edges.sum(1, keepdim=True)).to_sparse()
known = torch.randperm(40)[:24]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for step in range(30):
    optimizer.zero_grad()
    said = model(nodes, edges)
    F.nll_loss(said[known], kinds[known]).backward()
    optimizer.step()
