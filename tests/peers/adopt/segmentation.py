"""A U-Net for masks in the habit of those scripts: channels last, cross entropy and a Dice by hand, added in place, RMSprop, a
plateau; one of its weights is long enough for torch to round the norm of its gradient."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pair(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, n_classes=3):
        super().__init__()
        self.n_classes = n_classes
        self.down, self.deep, self.up = pair(3, 8), pair(8, 96), nn.ConvTranspose2d(96, 8, 2, 2)
        self.last, self.out = pair(16, 8), nn.Conv2d(8, n_classes, 1)

    def forward(self, x):
        fine = self.down(x)
        return self.out(self.last(torch.cat([fine, self.up(self.deep(F.max_pool2d(fine, 2)))], dim=1)))


def dice_loss(input, target, epsilon=1e-6):
    input, target = input.flatten(0, 1), target.flatten(0, 1)
    both = 2 * (input * target).sum(dim=(-1, -2, -3))
    either = input.sum(dim=(-1, -2, -3)) + target.sum(dim=(-1, -2, -3))
    either = torch.where(either == 0, both, either)
    return 1 - ((both + epsilon) / (either + epsilon)).mean()


torch.manual_seed(0)
images = torch.rand(64, 3, 16, 16)
masks = (images.mean(1) * 6 - 1.5).long().clamp(0, 2)
loader = torch.utils.data.DataLoader(list(zip(images, masks)), batch_size=8, shuffle=True, drop_last=True)
model, criterion = UNet().to(memory_format=torch.channels_last), nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for epoch in range(5):
    model.train()
    for image, mask in loader:
        image = image.to(dtype=torch.float32, memory_format=torch.channels_last)
        with torch.autocast("cpu", enabled=False):
            predicted = model(image)
            loss = criterion(predicted, mask)
            hot = F.one_hot(mask, model.n_classes).permute(0, 3, 1, 2).float()
            loss += dice_loss(F.softmax(predicted, dim=1).float(), hot)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
