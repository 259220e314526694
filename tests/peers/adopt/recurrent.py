"""An LSTM with a batch norm and dropout over images by rows, Adam with amsgrad."""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(input_size=8, hidden_size=16, batch_first=True)
        self.norm, self.dropout, self.fc = nn.BatchNorm1d(16), nn.Dropout(0.25), nn.Linear(16, 5)

    def forward(self, x):
        out, _ = self.rnn(x.reshape(-1, 8, 8))
        return torch.log_softmax(self.fc(self.dropout(self.norm(out[:, -1]))), dim=1)


def ahead(loader):
    """Each batch is used when the next one was taken, as accelerate does."""
    batches = iter(loader)
    now = next(batches)
    for then in batches:
        yield now
        now = then
    yield now


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
data = torch.utils.data.TensorDataset(torch.randn(200, 1, 8, 8), torch.randint(0, 5, (200,)))
for epoch in range(4):
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 20, False)
    for image, target in ahead(torch.utils.data.DataLoader(data, batch_sampler=batches)):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(image), target)
        loss.backward()
        optimizer.step()
    scheduler.step()
