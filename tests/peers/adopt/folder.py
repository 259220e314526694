"""Folders of images in the habit of torchvision's references: random crops and flips to train with, a resize to validate with."""
import os

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torchvision import datasets, transforms

random = np.random.default_rng(0)
for part, count in (("train", 24), ("val", 6)):
    for name in ("cats", "dogs"):
        os.makedirs(f"photos/{part}/{name}", exist_ok=True)
        for k in range(count):
            Image.fromarray(random.integers(0, 255, (24, 30, 3), dtype=np.uint8)).save(f"photos/{part}/{name}/{k}.png")

figures = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
trained = transforms.Compose(
    [transforms.RandomResizedCrop(16, scale=(0.3, 1)), transforms.RandomHorizontalFlip(), transforms.ToTensor(), figures]
)
judged = transforms.Compose([transforms.Resize(18), transforms.CenterCrop(16), transforms.ToTensor(), figures])
train = datasets.ImageFolder("photos/train", trained)
val = datasets.ImageFolder("photos/val", judged)
torch.manual_seed(0)
loaders = [torch.utils.data.DataLoader(one, batch_size=8, shuffle=one is train) for one in (train, val)]
model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 7 * 7, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
for epoch in range(5):
    for images, target in loaders[0]:
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
