"""A variational autoencoder: forward draws, and the loss is a sum of two in a function of its own."""
import torch
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.mean, self.spread = nn.Linear(64, 40), nn.Linear(40, 5), nn.Linear(40, 5)
        self.fc3, self.fc4 = nn.Linear(5, 40), nn.Linear(40, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x.view(-1, 64)))
        mu, logvar = self.mean(h), self.spread(h)
        z = mu + torch.randn_like(logvar) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(made, x, mu, logvar):
    bce = F.binary_cross_entropy(made, x.view(-1, 64), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


torch.manual_seed(1)
images = torch.rand(128, 1, 8, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, torch.zeros(128)), batch_size=16, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
total = 0
for epoch in range(3):
    for data, _ in loader:
        optimizer.zero_grad()
        loss = loss_function(*[(out := model(data))[0], data, *out[1:]])
        loss.backward()
        total += loss.item()
        optimizer.step()
