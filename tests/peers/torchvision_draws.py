"""What torchvision's transforms draw: means and deviations of their parameters over many draws, for the same sizes."""
import json
import math
import sys

import torch
from torchvision.transforms import v2

torch.manual_seed(5)
COUNT = int(sys.argv[1])
PICTURE = torch.zeros(3, 60, 90, dtype=torch.uint8)


def params(transform, *names):
    rows = [transform.make_params([PICTURE]) for _ in range(COUNT)]
    return [[float(row[name] if row[name] is not None else math.nan) for row in rows] for name in names]


def spread(columns):
    answer = []
    for column in columns:
        x = torch.tensor(column, dtype=torch.float64)
        answer.append([x.mean().item(), x.std().item()])
    return answer


erasing = [row for row in (v2.RandomErasing(1).make_params([PICTURE]) for _ in range(COUNT)) if row["v"] is not None]
json.dump({
    "crop": spread(params(v2.RandomResizedCrop(32, scale=(0.2, 1)), "top", "left", "height", "width")),
    "erased": spread([[float(row[name]) for row in erasing] for name in ("i", "j", "h", "w")]),
}, sys.stdout)
