"""Data that may be read here as it lies: torchvision's folders, arrays and tables of numbers, files of tokens. What is named is
checked here by hpctrain's own reader, sample by sample, before it is believed.
"""

import copy
import csv
import enum
import inspect
import itertools
import os

import numpy as np
import torch

from .data import FIELDS, OPENED, samples
from .seen import S

# So many samples are compared, at even distances.
COMPARED = 256
# Larger tables are not looked through.
MOST_BYTES = 1 << 30
# Tokens are looked for in pieces of so many.
PIECE = 1 << 26

DRAWN = ("ColorJitter", "GaussianBlur", "GaussianNoise", "RandAugment", "AutoAugment", "TrivialAugmentWide", "AugMix", "ElasticTransform")


def known_files(loader, other):
    """What the data could be, and the Dataset without what its transforms draw."""
    dataset = loader.dataset
    module, name = type(dataset).__module__, type(dataset).__name__
    if module.startswith("torchvision.datasets"):
        place = torchvision_path(dataset, name, other and other.dataset)
        if place is None or getattr(dataset, "target_transform", None) is not None:
            return None, dataset
        steps = steps_of(dataset.transform)
        quiet, calm = copy.copy(dataset), list(itertools.chain(*(without_draws(one) for one in steps)))
        quiet.transform = (lambda image: run(calm, image)) if steps else None
        settings = place | ({"augment": words(steps)} if steps else {}) | (sides_of(other.dataset) if other and any(without_draws(one) != [one] for one in steps) else {})
        return {"settings": settings, "name": name}, quiet
    return known_arrays(loader, other), dataset


def torchvision_path(dataset, name, other):
    if name in ("MNIST", "FashionMNIST", "KMNIST") and dataset.train:
        return {"type": "mnist", "data_path": os.path.abspath(dataset.raw_folder)}
    if name == "ImageFolder":
        root = os.path.abspath(dataset.root)
        validates = other is not None and os.path.dirname(os.path.abspath(getattr(other, "root", ""))) == os.path.dirname(root)
        return {"type": "imagefolder", "data_path": os.path.dirname(root) if os.path.basename(root) == "train" and validates else root}
    return None


def steps_of(transform):
    if transform is None:
        return []
    return list(transform.transforms) if type(transform).__name__ == "Compose" else [transform]


def sides_of(dataset):
    """Validation's own, beside a list that draws."""
    found = {}
    for step in steps_of(getattr(dataset, "transform", None)):
        if type(step).__name__ == "Resize" and isinstance(step.size, int):
            found["resize"] = step.size
        if type(step).__name__ == "CenterCrop" and len(set(step.size)) == 1:
            found["centre_crop"] = step.size[0]
    return found if len(found) == 2 else {}


def run(steps, image):
    for step in steps:
        image = step(image)
    return image


def without_draws(step):
    """As an evaluation would do it here."""
    name = type(step).__name__
    if name == "RandomCrop":
        return [torchvision().CenterCrop(step.size)]
    if name == "RandomResizedCrop":
        side = min(step.size)
        kind = {"interpolation": step.interpolation, "antialias": True}
        return [torchvision().Resize(round(side * 256 / 224), **kind), torchvision().CenterCrop(step.size)]
    return [] if name.startswith("Random") or name in DRAWN else [step]


def torchvision():
    import torchvision.transforms

    return torchvision.transforms


def words(steps):
    """As a list of --augment's."""
    return ", ".join(word(step) for step in steps)


def word(step):
    given = []
    for name, parameter in inspect.signature(type(step).__init__).parameters.items():
        value = getattr(step, name, None)
        if name not in ("self", "inplace") and value is not None and value != parameter.default:
            text = argument(value)
            if text is not None:
                given.append(f"{name}={text}")
    return f"{type(step).__name__}({', '.join(given)})"


def argument(value):
    if isinstance(value, enum.Enum):
        return argument(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, (list, tuple)):
        each = [word(one) if isinstance(one, torch.nn.Module) else argument(one) for one in value]
        if None in each:
            return None
        inner = ", ".join(each)
        return f"[{inner}]" if any(isinstance(one, torch.nn.Module) for one in value) else f"({inner}{',' if len(each) == 1 else ''})"
    return None


def known_arrays(loader, other):
    """The columns and arrays of files that the script has opened whose rows are the samples."""
    found = rows_of(loader)
    if found is None:
        return None
    validation = rows_of(other) if other else None
    settings = {"data_path": found["path"], "columns": found["columns"]}
    if validation and validation["columns"] == found["columns"] and validation["path"] != found["path"]:
        settings["validation_path"] = validation["path"]
    return {"settings": settings, "name": os.path.basename(found["path"])}


def rows_of(loader):
    if len(FIELDS["how"]) > 2:
        return None
    count = len(loader.dataset)
    ids = sorted({int(i) for i in np.linspace(0, count - 1, min(count, COMPARED))})
    wanted = None
    for group in itertools.chain(tables(count), arrays(count)):
        wanted = wanted or samples(loader, ids)
        found = {name: columns_of(t, group["columns"], ids) for name, t in wanted.items()}
        if all(found.values()):
            return {"path": group["path"], "columns": found}
    return None


def columns_of(wanted, columns, ids):
    """The names of those that are this input, in their order."""
    rows = {name: torch.from_numpy(np.ascontiguousarray(column[ids])) for name, column in columns.items()}
    whole = [n for n, t in rows.items() if t.shape == wanted.shape and torch.equal(t.to(wanted.dtype), wanted)]
    if whole:
        return whole[:1]
    if wanted.dim() != 2:
        return None
    each, left = [], dict(rows)
    for column in wanted.T:
        one = next((n for n, t in left.items() if t.shape == column.shape and torch.equal(t.to(column.dtype), column)), None)
        if one is None:
            return None
        each.append(one)
        left.pop(one)
    return each


def readable(*endings):
    return [p for p in OPENED if p.endswith(endings) and os.path.isfile(p) and os.path.getsize(p) <= MOST_BYTES]


def arrays(count):
    """Archives one by one, and the arrays of a folder together."""
    folders = {}
    for path in readable(".npz", ".npy"):
        try:
            held = np.load(path, mmap_mode="r", allow_pickle=False)
            if path.endswith(".npy"):
                folders.setdefault(os.path.dirname(path), {})[os.path.basename(path)[:-4]] = held
            else:
                yield {"path": path, "columns": as_long({name: held[name] for name in held.files}, count)}
        except (OSError, ValueError):
            continue
    for folder, columns in folders.items():
        yield {"path": folder, "columns": as_long(columns, count)}


def as_long(columns, count):
    return {name: a for name, a in columns.items() if a.ndim > 0 and len(a) == count and a.dtype.kind in "biuf"}


def tables(count):
    for path in readable(".csv", ".tsv", ".txt"):
        try:
            with open(path, newline="") as file:
                mark = csv.Sniffer().sniff(file.readline(), ",;\t ").delimiter
                file.seek(0)
                rows = [row for row in csv.reader(file, delimiter=mark) if row]
        except (OSError, ValueError, csv.Error):
            continue
        named = any(number(cell) is None for cell in rows[0])
        names = [cell.strip() for cell in rows[0]] if named else [str(k) for k in range(len(rows[0]))]
        rows = rows[named:]
        if len(rows) == count and all(len(row) == len(names) for row in rows):
            yield {"path": path, "columns": {name: column([row[k] for row in rows]) for k, name in enumerate(names)}}


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def column(cells):
    """Texts are classes, in sorted order."""
    numbers = [number(cell) for cell in cells]
    if None not in numbers:
        return np.array(numbers)
    codes = {text: k for k, text in enumerate(sorted(set(cells)))}
    return np.array([codes[cell] for cell in cells])


def known_tokens():
    """A file that the first batch's rows are windows of, and whose next tokens are the targets."""
    if S.first is None or not S.batches:
        return None
    rows = [t for t in S.batches[0] if t.dim() == 2 and t.dtype == torch.int64]
    if len(rows) != 2 or rows[0].shape != rows[1].shape or rows[0].shape[1] < 4:
        return None
    length = rows[0].shape[1]
    for path in [p for p in OPENED if p.endswith(".bin")]:
        for kind in ("uint16", "uint32"):
            if os.path.getsize(path) % np.dtype(kind).itemsize:
                continue
            held = np.memmap(path, kind, "r")
            if all(is_window(held, x.numpy(), y.numpy()) for x, y in zip(rows[0][:3], rows[1][:3])):
                folder = os.path.dirname(path)
                whole = os.path.basename(path) == "train.bin" and os.path.isfile(os.path.join(folder, "val.bin"))
                settings = {"type": "tokens", "data_path": folder if whole else path, "token_type": kind, "windows": "random"}
                return {"settings": settings, "context": length, "name": os.path.basename(path), "file": path}
    return None


def is_window(held, x, y):
    window = np.append(x, y[-1])
    if not np.array_equal(x[1:], y[:-1]):
        return False
    for start in range(0, len(held), PIECE):
        piece = held[start : start + PIECE]
        for at in start + np.flatnonzero((piece[:-1] == window[0]) & (piece[1:] == window[1])):
            if np.array_equal(held[at : at + len(window)], window):
                return True
    return False
