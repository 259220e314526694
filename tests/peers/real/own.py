"""What real models are like, in plain PyTorch: for the tests that run always."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from case import Case, image, labels, mask, numbers, whole

LIBRARY = "own"


class Series(nn.Module):
    """[samples, time, features], as recurrent networks and transformers take them."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, series):
        return self.head(self.rnn(series)[0][:, -1])


class Tagger(nn.Module):
    """A class of each token, the classes last."""

    def __init__(self):
        super().__init__()
        self.words, self.drop, self.head = nn.Embedding(20, 8), nn.Dropout(0.1), nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids)
        mean = (x * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return {"logits": self.head(self.drop(x + mean[:, None]))}


class Signal(nn.Module):
    """A class of each moment, the classes second."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(2, 8, 3, padding=1), nn.Conv1d(8, 3, 1)

    def forward(self, x):
        return self.last(F.relu(self.first(x)))


class Quarter(nn.Module):
    """Classes of pixels at a quarter of the labels' size."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1))

    def forward(self, x):
        return self.body(x)


class Denoiser(nn.Module):
    """Its loss takes no targets."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        out = self.out(F.gelu(self.into(x)))
        return {"loss": F.mse_loss(out, x), "out": out}


MODELS = {
    "series": Case(Series, {"series": numbers(7, 4)}, "numbers", numbers(2)),
    "tagger": Case(Tagger, {"input_ids": whole(20, 9), "attention_mask": mask(9)}, "tokens", labels(3, 9)),
    "signal": Case(Signal, {"x": numbers(2, 11)}, "classes", labels(3, 11)),
    "quarter": Case(Quarter, {"x": image(16)}, "maps", whole(3, 16, 16)),
    "denoiser": Case(Denoiser, {"x": numbers(6)}, "graph"),
}
