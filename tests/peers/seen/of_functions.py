"""Functions of PyTorch's that public models call by these names (torch.concat stands in some ninety of their files), where no model beside this one does."""

import torch
from torch import nn

X = torch.rand(4, 4) + torch.eye(4)
COUNTS = torch.tensor([1, 2, 0, 3])


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.function(x * self.weight)


FUNCTIONS = {
    "concat": lambda x: torch.concat([x, x]),
    "concatenate": lambda x: torch.concatenate([x, x]),
    "atleast_1d": torch.atleast_1d,
    "atleast_2d": torch.atleast_2d,
    "flipud": torch.flipud,
    "inverse": torch.inverse,
    "fmax": lambda x: torch.fmax(x, 2 * x),
    "fmin": lambda x: torch.fmin(x, 2 * x),
    "rad2deg": torch.rad2deg,
    "trapz": lambda x: torch.trapz(x, dx=0.5),
    "special.expit": torch.special.expit,
    "special.logsumexp": lambda x: torch.special.logsumexp(x, 1),
    "fft.ifft2": lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real,
    "fft.ifftshift": torch.fft.ifftshift,
    "fft.rfftfreq": lambda x: x[0, :3] * torch.fft.rfftfreq(4),
    "linalg.vecdot": lambda x: torch.linalg.vecdot(x, x),
    "meshgrid of old": lambda x: torch.meshgrid(x[0], x[1])[0],
    "quantile of several": lambda x: torch.quantile(x, torch.tensor([0.1, 0.5]), dim=0),
    "masked_select": lambda x: x.masked_select(x > 0.5).sum(),
    "argwhere": lambda x: torch.argwhere(x > 0.5).sum() + x.sum(),
    "triu_indices": lambda x: x[torch.triu_indices(4, 4)[0]],
    "randint_like": lambda x: x + torch.randint_like(x, 0, 5),
    "repeat_interleave by a tensor": lambda x: x.repeat_interleave(COUNTS, dim=0),
    "repeat_interleave of counts": lambda x: x[torch.repeat_interleave(COUNTS)],
    "tanh_": lambda x: (x + 0).tanh_(),
    "sqrt_": lambda x: (x + 0).sqrt_(),
    "square_": lambda x: (x + 0).square_(),
    "log_": lambda x: (x + 0).log_(),
    "tril_": lambda x: (x + 0).tril_(),
    "triu_": lambda x: (x + 0).triu_(),
}


def models():
    for name, function in FUNCTIONS.items():
        yield name, lambda function=function: (Called(function), X)
    yield "Conv1d of the same length", lambda: (nn.Conv1d(4, 4, 3, padding="same"), torch.rand(2, 4, 9))
    yield "Conv3d of the same size", lambda: (nn.Conv3d(2, 2, 3, padding="same"), torch.rand(1, 2, 5, 5, 5))
