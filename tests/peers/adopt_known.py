"""What core/adopt/watch/hpctrain_adopt/known.py takes files and transforms for: asked by tests/core/adopt/known_test.ts."""
import csv
import json
import os
import sys
import tempfile
from types import SimpleNamespace

os.environ["HPCTRAIN_ADOPT"] = json.dumps({"out": tempfile.gettempdir(), "steps": 1})
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../core/adopt/watch"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from hpctrain_adopt import data, known  # noqa: E402
from torchvision import transforms as T  # noqa: E402
from torchvision.transforms import v2  # noqa: E402


class Rows:
    def __init__(self, *fields):
        self.fields = fields

    def __len__(self):
        return len(self.fields[0])

    def __getitem__(self, i):
        return tuple(field[i] for field in self.fields)


def rows(*fields):
    """What its samples are taken for."""
    loader = SimpleNamespace(dataset=Rows(*fields), collate_fn=torch.utils.data.default_collate)
    shapes = [(list(t.shape[1:]), str(t.dtype).removeprefix("torch.")) for t in fields]
    data.FIELDS["how"] = {
        name: {"path": (k,), "shape": shape, "dtype": dtype} for k, (name, (shape, dtype)) in enumerate(zip("xy", shapes))
    }
    return known.rows_of(loader)


random = np.random.default_rng(0)
x, y = random.normal(size=(40, 3)).astype("float32"), random.integers(0, 4, 40)
np.savez("both.npz", inputs=x, classes=y)
os.mkdir("apart")
np.save("apart/a.npy", x[:, ::-1].copy())
np.save("apart/b.npy", y + 1)
with open("text.csv", "w", newline="") as file:
    writer = csv.writer(file, delimiter=";")
    writer.writerows([["u", "v", "w", "kind"], *[[*map(float, row), "dcba"[k]] for row, k in zip(x, y)]])
for path in ("both.npz", "apart/a.npy", "apart/b.npy", "text.csv"):
    data.OPENED[os.path.abspath(path)] = None
image = SimpleNamespace(dataset=Rows(torch.ones(2, 1, 4, 4)), collate_fn=torch.utils.data.default_collate)


def reshaped(*sides):
    data.FIELDS["how"] = {"x": {"path": (0,), "shape": list(sides), "dtype": "float32"}}
    return data.is_reshaped(image, image.dataset)


tokens = np.arange(5000, dtype=np.uint16)
short = lambda found: found and {**found, "path": os.path.relpath(found["path"])}  # noqa: E731
words = [
    T.RandomResizedCrop(32, scale=(0.5, 1)),
    T.RandomCrop(32, padding=4),
    T.ColorJitter(0.4, hue=0.1),
    T.RandomApply([T.GaussianBlur(3)], p=0.3),
    T.TrivialAugmentWide(),
    v2.RandomHorizontalFlip(0.3),
    v2.ToDtype(torch.float32, scale=True),
    T.ToTensor(),
    T.Normalize((0.5,), (0.25,)),
    T.RandomErasing(),
]
print(
    json.dumps(
        {
            "archive": short(rows(torch.tensor(x), torch.tensor(y))),
            "folder": short(rows(torch.tensor(x[:, ::-1].copy()), torch.tensor(y + 1))),
            "columns": short(rows(torch.tensor(x[:, [2, 0]]), torch.tensor(3 - y))),
            "other": rows(torch.tensor(x) * 2, torch.tensor(y)),
            "fewer": rows(torch.tensor(x[:39]), torch.tensor(y[:39])),
            "words": known.words(words),
            "calm": known.words([one for step in words for one in known.without_draws(step)]),
            "lambda": known.words([T.Lambda(abs)]),
            "mnist": known.torchvision_path(SimpleNamespace(train=True, raw_folder="d/MNIST/raw"), "MNIST", None),
            "mnist's test": known.torchvision_path(SimpleNamespace(train=False, raw_folder="d/MNIST/raw"), "MNIST", None),
            "window": known.is_window(tokens, np.arange(700, 710), np.arange(701, 711)),
            "no window": known.is_window(tokens, np.arange(700, 710), np.arange(702, 712)),
            "view": data.made_of(torch.arange(24).reshape(2, 3, 4), torch.arange(24.0).reshape(2, 12)),
            "other sides": data.made_of(torch.arange(24).reshape(2, 3, 4), torch.arange(24.0).reshape(3, 8)),
            "reshaped": [reshaped(1, 4, 4), reshaped(16)],
            "leaves": [list(path) for path, _ in data.leaves({"a": [torch.ones(1), "no"], "b": (torch.ones(1),)})],
        }
    )
)
