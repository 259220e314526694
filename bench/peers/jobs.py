"""The script that a good PyTorch user writes for a job of `scripts/bench jobs`: DataLoader, AdamW fused, clipping, a cosine, validation
and two checkpoints an epoch. What is in memory is fetched a batch at a time, not sample by sample, since that is faster."""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from jobs_models import MODELS
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset, TensorDataset


def in_memory(x, y, batch, train):
    data = TensorDataset(x, y)
    order = RandomSampler(data) if train else SequentialSampler(data)
    return DataLoader(data, sampler=BatchSampler(order, batch, drop_last=False), batch_size=None)


def held_out(x, y, batch, scale=False):
    """A tenth validates. `scale`: inputs and targets have mean 0 and deviation 1 in training, channel by channel."""
    order = torch.randperm(len(x))
    count = len(x) - len(x) // 10
    train, val = order[:count], order[count:]
    if scale:
        x, y = (scaled(values, values[train]) for values in (x, y))
    return in_memory(x[train], y[train], batch, True), in_memory(x[val], y[val], batch, False)


def scaled(values, seen):
    sides = [i for i in range(values.dim()) if i != 1]
    return (values - seen.mean(sides, keepdim=True)) / seen.std(sides, keepdim=True)


def table(path, batch):
    import pandas

    values = torch.from_numpy(pandas.read_csv(path, dtype=np.float32).to_numpy(copy=True))
    return held_out(values[:, :-1], values[:, -1:], batch, scale=True)


def digits(path, batch):
    def read(name, train):
        with open(f"{path}/{name}-images-idx3-ubyte", "rb") as f:
            pixels = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
        with open(f"{path}/{name}-labels-idx1-ubyte", "rb") as f:
            labels = np.frombuffer(f.read(), np.uint8, offset=8)
        x = (torch.from_numpy(pixels.copy()).float() / 255 - 0.1307) / 0.3081
        return in_memory(x, torch.from_numpy(labels.astype(np.int64)), batch, train)

    return read("train", True), read("t10k", False)


def photos(path, batch):
    from torchvision import transforms as T
    from torchvision.datasets import ImageFolder

    same = [T.Resize(36), T.CenterCrop(32)]
    last = [T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    varied = ImageFolder(path, T.Compose([*same, T.RandomHorizontalFlip(), *last]))
    plain = ImageFolder(path, T.Compose([*same, *last]))
    order = torch.randperm(len(plain)).tolist()
    count = len(plain) - len(plain) // 10
    options = {"batch_size": batch, "num_workers": 2, "persistent_workers": True}
    train = DataLoader(Subset(varied, order[:count]), shuffle=True, **options)
    return train, DataLoader(Subset(plain, order[count:]), **options)


def maps(path, batch):
    import netCDF4

    with netCDF4.Dataset(path) as f:
        f.set_auto_mask(False)
        x = np.stack([f["wind"][:], f["sst"][:]], 1)
        y = f["ice"][:][:, None]
    return held_out(torch.from_numpy(x), torch.from_numpy(y), batch, scale=True)


class Windows:
    """Windows of a text side by side, which begin at another place in each epoch."""

    def __init__(self, tokens, context, batch, train):
        self.tokens, self.context, self.batch, self.train = tokens, context, batch, train

    def __len__(self):
        return -(-((len(self.tokens) - 1) // self.context) // self.batch)

    def __iter__(self):
        count = (len(self.tokens) - 1) // self.context
        spare = len(self.tokens) - 1 - count * self.context
        first = int(torch.randint(spare + 1, ())) if self.train else 0
        x, y = (self.tokens[at : at + count * self.context].view(count, -1) for at in (first, first + 1))
        return iter(in_memory(x, y, self.batch, self.train))


def text(path, batch):
    tokens = torch.from_numpy(np.fromfile(path, np.uint8).astype(np.int64))
    count = len(tokens) - len(tokens) // 10
    return Windows(tokens[:count], 64, batch, True), Windows(tokens[count:], 64, batch, False)


def arrays(x, y):
    def read(path, batch):
        with np.load(path) as file:
            return held_out(torch.from_numpy(file[x]), torch.from_numpy(file[y]), batch)

    return read


DATA = {
    "small-table": table,
    "large-table": table,
    "digits": digits,
    "photos": photos,
    "maps": maps,
    "gpt": text,
    "pinn": arrays("at", "known"),
    "ode": arrays("before", "after"),
    "fine-tune": arrays("image", "kind"),
}


def loss_of(output, target):
    if target.is_floating_point():
        return F.mse_loss(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=DATA)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--clip-norm", type=float, default=1)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    return parser.parse_args()


def prepared(wanted):
    """The model and its data; a program that is fine-tuned begins with the weights that it was exported with."""
    torch.set_num_threads(wanted.threads)
    torch.manual_seed(0)
    return MODELS[wanted.job](), *DATA[wanted.job](wanted.data, wanted.batch_size)


def report(model, steps, val_loss):
    """The last line, which the benchmark reads."""
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(json.dumps({"parameters": parameters, "steps": steps, "val_loss": val_loss}))


def save(path, state):
    """Whole or not at all."""
    torch.save(state, f"{path}.part")
    os.replace(f"{path}.part", path)


def main():
    wanted = arguments()
    model, train, val = prepared(wanted)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=wanted.lr, weight_decay=wanted.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, wanted.epochs * len(train))
    best, steps = float("inf"), 0
    os.makedirs("checkpoints", exist_ok=True)
    for epoch in range(wanted.epochs):
        model.train()
        total = torch.zeros(())
        for x, y in train:
            loss = loss_of(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, wanted.clip_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            total += loss.detach()
            steps += 1
        model.eval()
        with torch.no_grad():
            losses = [(loss_of(model(x), y), len(x)) for x, y in val]
        val_loss = (sum(loss * n for loss, n in losses) / sum(n for _, n in losses)).item()
        print(f"epoch {epoch + 1}: loss {total.item() / len(train):.4f}, val loss {val_loss:.4f}", flush=True)
        parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
        state = {"epoch": epoch, **{name: part.state_dict() for name, part in parts.items()}}
        save("checkpoints/latest.pt", state)
        if val_loss < best:
            best = val_loss
            save("checkpoints/best.pt", state)
    report(model, steps, val_loss)


if __name__ == "__main__":
    main()
