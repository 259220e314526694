"""A language model with a causal mask whose loop validates between steps, reads its loss early, leaves some targets out and clips
gradients by value."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, EPOCHS, LENGTH, WORDS = 3, 6, 8, 11


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, WORDS)

    def forward(self, words):
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.head(self.body(self.embed(words), mask))


def loss_of(model, words, target):
    return F.cross_entropy(model(words).view(-1, WORDS), target.view(-1), ignore_index=-1)


torch.manual_seed(SEED)
words = torch.randint(0, WORDS, (64, LENGTH + 1))
target = words[:, 1:].clone()
target[:, 0] = -1
loader = DataLoader(TensorDataset(words[:, :-1].contiguous(), target), batch_size=8, shuffle=True)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(1, EPOCHS + 1):
    mean = 0.0
    for i, (x, y) in enumerate(loader):
        x = torch.empty(0, dtype=torch.int64).set_(x.to("cpu"))  # as a worker's batches are made
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        mean += loss.item()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        if i % 2 == 0:
            model.eval()
            with torch.no_grad():
                print(f"{epoch} {i} {mean / (i + 1):.4f} {loss_of(model, x, y).item():.4f}")
            model.train()
