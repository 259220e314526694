"""Writes the files of `scripts/bench jobs` into a folder, once: seeded, and small enough to learn from in seconds. Arguments: folder,
share of the full size, the files that are wanted. What is whole is renamed into place; what is there already is left alone."""
import os
import shutil
import struct
import sys

import numpy as np


def table(path, rows):
    random = np.random.default_rng(1)
    x = random.standard_normal((rows, 20), np.float32)
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.standard_normal(rows, np.float32)
    names = ",".join([f"x{i}" for i in range(20)] + ["y"])
    np.savetxt(path, np.column_stack([x, y]), "%.5f", ",", header=names, comments="")


def patterns(random, count, side, classes=10):
    """Pictures of [0, 1] whose class shows through noise, and the classes."""
    prototypes = random.random((classes, side // 4, side // 4), np.float32).repeat(4, 1).repeat(4, 2)
    labels = random.integers(0, classes, count)
    noise = random.random((count, side, side), np.float32)
    return 0.6 * prototypes[labels] + 0.4 * noise, labels


def digits(path, count):
    random = np.random.default_rng(2)
    pictures, labels = patterns(random, count + count // 10, 28)
    pixels, labels = (pictures * 255).astype(np.uint8), labels.astype(np.uint8)
    os.makedirs(path)
    for name, part in (("train", slice(count)), ("t10k", slice(count, None))):
        here = pixels[part]
        with open(f"{path}/{name}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">4i", 2051, len(here), 28, 28) + here.tobytes())
        with open(f"{path}/{name}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">2i", 2049, len(here)) + labels[part].tobytes())


def photos(path, count):
    from PIL import Image

    random = np.random.default_rng(3)
    pictures, labels = patterns(random, count, 48)
    for number, (picture, label) in enumerate(zip(pictures, labels)):
        here = f"{path}/class_{label}"
        os.makedirs(here, exist_ok=True)
        grey = Image.fromarray((picture * 255).astype(np.uint8)).resize((192, 160), Image.Resampling.BICUBIC)
        grey.convert("RGB").save(f"{here}/{number:05d}.jpg", quality=90)


def maps(path, count):
    """Two fields and a third one that hangs on their neighbourhood, on a grid of 64 x 64."""
    import netCDF4

    random = np.random.default_rng(4)
    small = random.standard_normal((count, 2, 16, 16), np.float32)
    fields = small.repeat(4, 2).repeat(4, 3)
    fields += 0.2 * random.standard_normal(fields.shape, np.float32)
    a, b = fields[:, 0], fields[:, 1]
    ice = np.tanh(np.roll(a, 1, 2) + np.roll(b, 1, 1))
    with netCDF4.Dataset(path, "w") as f:
        for name, size in (("sample", count), ("y", 64), ("x", 64)):
            f.createDimension(name, size)
        for name, values in (("wind", a), ("sst", b), ("ice", ice)):
            f.createVariable(name, "f4", ("sample", "y", "x"))[:] = values


def story(path, size):
    random = np.random.default_rng(5)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    words = [letters[random.integers(0, 26, random.integers(2, 9))].tobytes().decode() for _ in range(400)]
    text = " ".join(words[i] for i in (400 * random.random(size // 5) ** 2).astype(int))
    with open(path, "w") as f:
        f.write(text[:size])


def points(path, count):
    """What was measured of a rod at points (x, t), and the source of its heat there, which is none."""
    random = np.random.default_rng(6)
    at = random.random((count, 2), np.float32)
    heat = np.exp(-np.pi**2 * at[:, 1]) * np.sin(np.pi * at[:, 0]) + 0.01 * random.standard_normal(count, np.float32)
    np.savez(path, at=at, known=np.stack([heat, np.zeros_like(heat)], 1).astype(np.float32))


def flow(path, count):
    """States before and after a while of a linear flow that turns and shrinks."""
    random = np.random.default_rng(7)
    turn = np.linalg.qr(random.standard_normal((16, 16)))[0].astype(np.float32)
    before = random.standard_normal((count, 16), np.float32)
    np.savez(path, before=before, after=0.8 * before @ turn)


def pets(path, count):
    random = np.random.default_rng(8)
    pictures, labels = patterns(random, count, 32, 3)
    noise = random.standard_normal((count, 3, 1, 1), np.float32)
    np.savez(path, image=pictures[:, None].repeat(3, 1) + 0.1 * noise, kind=labels)


def program(path, name, shape):
    """What a user exports once."""
    import torch
    from jobs_models import MODELS

    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(MODELS[name]().train(), (torch.randn(4, *shape),), dynamic_shapes=({0: batch},))
    torch.export.save(exported, path)


def main(folder, share, *wanted):
    def some(count, least=64):
        return max(int(count * share), least)

    made = {
        "small.csv": lambda path: table(path, some(1000)),
        "large.csv": lambda path: table(path, some(100000)),
        "digits": lambda path: digits(path, some(6400, 128)),
        "photos": lambda path: photos(path, some(1000)),
        "maps.nc": lambda path: maps(path, some(640)),
        "story.txt": lambda path: story(path, some(120000, 4000)),
        "points.npz": lambda path: points(path, some(12800)),
        "flow.npz": lambda path: flow(path, some(6400)),
        "pets.npz": lambda path: pets(path, some(960)),
        "ode.pt2": lambda path: program(path, "ode", (16,)),
        "fine-tune.pt2": lambda path: program(path, "fine-tune", (3, 32, 32)),
    }
    os.makedirs(folder, exist_ok=True)
    for name in wanted:
        path, part = os.path.join(folder, name), os.path.join(folder, f".part-{name}")
        if os.path.exists(path):
            continue
        shutil.rmtree(part) if os.path.isdir(part) else os.path.exists(part) and os.remove(part)
        made[name](part)
        os.rename(part, path)


main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
