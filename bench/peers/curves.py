"""ResNet-18 on a folder of photographs by the recipe of torchvision's references/classification, in its own transforms, model,
optimizer and schedule. `curves.py data FOLDER` makes the folder; `curves.py train FOLDER SEED EPOCHS STEP BATCH LR THREADS CROP`
prints a line of JSON an epoch."""
import json
import os
import sys

import numpy as np


def data(folder):
    """Eight classes of shape and texture, each with colours near its own, on backgrounds of any colour, of sizes that differ."""
    from PIL import Image

    random = np.random.default_rng(5)
    for part, count in (("train", 60), ("val", 30)):
        for name in range(8):
            os.makedirs(f"{folder}/{part}/class_{name}", exist_ok=True)
            for number in range(count):
                height, width = random.integers(72, 120, 2)
                y, x = np.mgrid[:height, :width] / min(height, width)
                back = random.integers(0, 256, 3)
                front = [90 + 75 * (name >> bit & 1) + random.integers(-70, 71) for bit in range(3)]
                angle, at = random.uniform(0, np.pi), random.uniform(0.35, 0.65, 2)
                along = (x - at[1]) * np.cos(angle) + (y - at[0]) * np.sin(angle)
                across = (y - at[0]) * np.cos(angle) - (x - at[1]) * np.sin(angle)
                size = random.uniform(0.2, 0.35)
                round_, square = along**2 + across**2 < size**2, np.maximum(abs(along), abs(across)) < size
                inside = [round_, square][name % 2]
                if name & 2:
                    inside &= ~([round_, square][name % 2] & (along**2 + across**2 < (0.6 * size) ** 2))
                stripes = np.sin(2 * np.pi * along * 12) > 0 if name & 4 else np.ones_like(inside)
                pixels = np.where((inside & stripes)[..., None], front, back) + random.normal(0, 20, (height, width, 3))
                image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
                image.save(f"{folder}/{part}/class_{name}/{number:03d}.jpg", quality=90)


def train(folder, seed, epochs, step, batch, rate, threads, crop):
    import torch
    import torchvision
    from torchvision import transforms as t

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    normal = [t.PILToTensor(), t.ConvertImageDtype(torch.float), t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    trained = t.Compose([t.RandomResizedCrop(crop), t.RandomHorizontalFlip(), *normal])
    judged = t.Compose([t.Resize(crop * 256 // 224), t.CenterCrop(crop), *normal])
    sets = [torchvision.datasets.ImageFolder(f"{folder}/{part}", how) for part, how in (("train", trained), ("val", judged))]
    loader = torch.utils.data.DataLoader(sets[0], batch, shuffle=True)
    judges = torch.utils.data.DataLoader(sets[1], batch)
    model = torchvision.models.resnet18(num_classes=len(sets[0].classes))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step, 0.1)
    for _ in range(epochs):
        model.train()
        losses = []
        for image, target in loader:
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        model.eval()
        with torch.inference_mode():
            right = sum((model(image).argmax(1) == target).sum().item() for image, target in judges)
        print(json.dumps({"loss": sum(losses) / len(losses), "accuracy": right / len(sets[1])}), flush=True)


if __name__ == "__main__":
    what, folder, *numbers = sys.argv[1:]
    if what == "data":
        data(folder)
    else:
        seed, epochs, step, batch = map(int, numbers[:4])
        train(folder, seed, epochs, step, batch, float(numbers[4]), *map(int, numbers[5:]))
