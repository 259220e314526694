"""The networks of `scripts/bench jobs` as a PyTorch user writes them: the sizes are those that hpctrain's command lines give its own."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Gpt, Layers


def mlp():
    return nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))


class Convnet(nn.Module):
    """PyTorch's MNIST example."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
        return self.fc2(self.dropout2(x))


def double(into, out):
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
    )


class Unet(nn.Module):
    def __init__(self, channels=2, width=16, depth=3):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([channels] + widths, widths[:-1]))
        self.bottom = double(widths[-2], widths[-1])
        pairs = list(zip(widths[1:], widths))[::-1]
        self.upsample = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(double(2 * b, b) for _, b in pairs)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for upsample, up in zip(self.upsample, self.up):
            x = up(torch.cat([skips.pop(), upsample(x)], 1))
        return self.head(x)


class Heat(Layers):
    """u(x, t), and the residual of the heat equation, u_t - u_xx."""

    @torch.enable_grad()  # in validation, too
    def forward(self, at):
        at = at.detach().requires_grad_()
        u = self.through(at)
        slope = torch.autograd.grad(u.sum(), at, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0:1].sum(), at, create_graph=True)[0][:, 0:1]
        return torch.cat([u, slope[:, 1:2] - bend], 1)


class Euler(Layers):
    """Eight steps of Euler's method."""

    def forward(self, x):
        for _ in range(8):
            x = x + 0.125 * self.through(x)
        return x


def resnet18(classes):
    import torchvision  # only here: importing it costs the other jobs nothing

    return torchvision.models.resnet18(num_classes=classes)


def finetuned():
    """A new head, and below the last stage nothing learns."""
    model = resnet18(3)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(("layer4.", "fc.")))
    return model


MODELS = {
    "small-table": mlp,
    "large-table": mlp,
    "digits": Convnet,
    "photos": lambda: resnet18(10),
    "maps": Unet,
    "gpt": lambda: Gpt(tokens=256),
    "pinn": lambda: Heat([2, 64, 64, 1], torch.tanh),
    "ode": lambda: Euler([16, 64, 16], torch.tanh),
    "fine-tune": finetuned,
}
