"""The zoo's models in PyTorch, as the step times compare them; torchvision may not be there."""
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.append(str(Path(__file__).parent.parent / "peers"))
from models import Gpt, cross_entropy  # noqa: E402  (the GPT that the CPU's benchmark compares with)


class SimpleConvnet(nn.Module):
    def __init__(self, channels, size, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        side = (size - 4) // 2
        self.fc1 = nn.Linear(64 * side * side, 128)
        self.fc2 = nn.Linear(128, outputs)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv2(F.relu(self.conv1(x))), 2))
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class CosmoCnn(nn.Module):
    def __init__(self, channels, size, width, outputs):
        super().__init__()
        stages = []
        for factor in (1, 2, 4, 4):
            if size < 2:
                break
            conv = nn.Conv2d(channels, width * factor, 3, padding=1, bias=False)
            stages += [conv, nn.BatchNorm2d(width * factor), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            channels, size = width * factor, size // 2
        self.features = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.Linear(channels, 64), nn.ReLU(), nn.Linear(64, outputs))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def double(into, out):
    layers = []
    for channels in (into, out):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class Unet(nn.Module):
    def __init__(self, channels, width, outputs, depth=3):
        super().__init__()
        self.down = nn.ModuleList(double(channels if i == 0 else width << (i - 1), width << i) for i in range(depth))
        self.bottom = double(width << (depth - 1), width << depth)
        sizes = [width << (depth - 1 - i) for i in range(depth)]
        self.upsample = nn.ModuleList(nn.ConvTranspose2d(2 * out, out, 2, stride=2) for out in sizes)
        self.conv = nn.ModuleList(double(2 * out, out) for out in sizes)
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x if not skips else F.max_pool2d(x, 2))
            skips.append(x)
        x = self.bottom(F.max_pool2d(x, 2))
        for upsample, conv, skip in zip(self.upsample, self.conv, reversed(skips)):
            x = conv(torch.cat([skip, upsample(x)], 1))
        return self.head(x)


class Bottleneck(nn.Module):
    def __init__(self, into, planes, stride):
        super().__init__()
        out = 4 * planes
        self.conv1, self.bn1 = nn.Conv2d(into, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = nn.Conv2d(planes, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or into != out:
            self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)), inplace=True)


class Resnet50(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, into = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                blocks.append(Bottleneck(into, 64 << stage, 2 if stage > 0 and i == 0 else 1))
                into = 256 << stage
        self.layers = nn.Sequential(*blocks)
        self.fc = nn.Linear(into, outputs)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        return self.fc(self.layers(x).mean((2, 3)))


def prepare(spec):
    """The model, an input, a target and the loss."""
    name, batch, size, channels, width, outputs = (
        spec[k] for k in ("model", "batch", "size", "channels", "width", "outputs"))
    if name == "mlp":
        model = nn.Sequential(nn.Linear(7, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))
        return model, torch.randn(batch, 7), torch.randn(batch, outputs), F.mse_loss
    if name == "gpt":
        x, y = (torch.randint(0, outputs, (batch, size)) for _ in range(2))
        return Gpt(outputs, size, spec["layers"], width, spec["heads"]), x, y, cross_entropy
    x = torch.randn(batch, channels, size, size).to(memory_format=torch.channels_last)
    if name == "cosmo-cnn":
        model, y, loss = CosmoCnn(channels, size, width, outputs), torch.randn(batch, outputs), F.mse_loss
    elif name == "unet":
        model, y, loss = Unet(channels, width, outputs), torch.randint(0, outputs, (batch, size, size)), F.cross_entropy
    else:
        model = Resnet50(channels, outputs) if name == "resnet50" else SimpleConvnet(channels, size, outputs)
        y, loss = torch.randint(0, outputs, (batch,)), F.cross_entropy
    return model.to(memory_format=torch.channels_last), x, y, loss
