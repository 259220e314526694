"""A copy of what a Dataset gives, and a file that reads the Dataset by Python."""

import math
import os
import re
import shutil
import sys

import numpy as np
import torch

from .data import FIELDS, LOADERS, sample_of, samples
from .seen import ASKED, HERE, OUT, S

TARGET = re.compile(r"(targets?|labels?|y|y_true)(_\d+)?")

# A file of the copy has about so many bytes.
FILE_BYTES = 64 << 20


def copy(loader, other):
    """Its samples as arrays, in one pass: the script's order of them does not matter."""
    if not ASKED["copy"]:
        return {}
    one = samples(loader, [0])
    each = max(1, sum(t.numel() * t.element_size() for t in one.values()))
    count = len(loader.dataset) + (len(other.dataset) if other else 0)
    free = shutil.disk_usage(OUT).free
    if each * count > free:
        return {"why": f"its samples take {each * count >> 20} MiB as arrays, and {free >> 20} MiB are free at {OUT}"}
    folder = os.path.join(OUT, "data")
    whole = any(not t.is_floating_point() for name, t in one.items() if not TARGET.fullmatch(name))
    try:
        for part, source in (("train", loader), ("val", other)):
            if source:
                write_part(source, os.path.join(folder, part), len(source.dataset) if whole else max(1, FILE_BYTES // each))
    except Exception as error:  # noqa: BLE001
        shutil.rmtree(folder, ignore_errors=True)
        return {"why": f"its samples can't be read one after the other: {type(error).__name__}: {error}"}
    return {"copied": {"bytes": each * count, "file": "/00000.npz" if whole else ""}}


def write_part(loader, folder, per_file):
    os.makedirs(folder)
    dataset, how = loader.dataset, FIELDS["how"]
    batches = torch.utils.data.DataLoader(dataset, 64, num_workers=loader.num_workers, collate_fn=loader.collate_fn)
    kept, rows, files, done = [], 0, 0, 0

    def write():
        arrays = {name: torch.cat([one[name] for one in kept]) for name in how}
        arrays = {name: (t.float() if t.is_floating_point() else t).numpy() for name, t in arrays.items()}
        np.savez(os.path.join(folder, f"{files:05}.npz"), **arrays)

    for batch in batches:
        made = sample_of(batch, how)
        kept.append(made)
        size = len(next(iter(made.values())))
        rows, done = rows + size, done + size
        if sys.stderr.isatty():
            print(f"\rCopying samples: {done:,} of {len(dataset):,}", end="", file=sys.stderr, flush=True)
        if rows >= per_file:
            write()
            kept, rows, files = [], 0, files + 1
    if kept:
        write()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def asked_of(how):
    """The kind of task, by the target: whole numbers are classes, of a sample or of each of its points."""
    target = next((name for name in how if TARGET.fullmatch(name)), None)
    if target is None:
        return {"task": "regression", "outputs": 1, "target": None}
    one, sides = how[target], S.first.sides
    if not one["dtype"].startswith("int"):
        return {"task": "regression", "outputs": max(1, math.prod(one["shape"])), "target": target}
    if len(one["shape"]) == 1:
        return {"task": "language", "outputs": (sides or [2])[-1], "target": target}
    return {
        "task": "segmentation" if one["shape"] else "classification",
        "outputs": sides[1] if len(sides) > 1 else 2,
        "target": target,
    }


def around(loader, other, how):
    """A file for --data that runs the script up to its loaders and takes their samples."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    script = {"module": spec.name.removesuffix(".__main__")} if spec else {"path": os.path.abspath(sys.argv[0])}
    asked = {
        **script,
        "argv": sys.argv[1:],
        "folder": os.getcwd(),
        "loaders": [k for one in (loader, other) for k, (made, _) in enumerate(LOADERS) if made is one],
        "how": how,
        **asked_of(how),
    }
    with open(os.path.join(HERE, "around.py")) as file:
        text = file.read()
    path = os.path.join(OUT, "data_adopted.py")
    with open(path, "w") as file:
        file.write(text.replace("ASKED = {}", f"ASKED = {asked!r}"))
    return path
