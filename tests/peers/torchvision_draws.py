"""What torchvision's transforms draw: means and deviations of their parameters, and of the pictures that policies make."""
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
POLICIES = {
    "rand_augment": v2.RandAugment(), "trivial_augment": v2.TrivialAugmentWide(), "auto_augment": v2.AutoAugment(),
    "auto_augment(cifar10)": v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
    "auto_augment(svhn)": v2.AutoAugment(v2.AutoAugmentPolicy.SVHN), "aug_mix": v2.AugMix(),
    "colour_jitter(0.4, 0.3, 0.5, 0.2)": v2.ColorJitter(0.4, 0.3, 0.5, 0.2), "photometric_distort": v2.RandomPhotometricDistort(),
    "affine(20, (0.1, 0.2), (0.7, 1.4), 15)": v2.RandomAffine(20, (0.1, 0.2), (0.7, 1.4), 15), "perspective": v2.RandomPerspective(),
    "elastic": v2.ElasticTransform(),
}
X, Y = torch.arange(40), torch.arange(36)[:, None]
SEEN = torch.stack([(X * 6 + Y * c * 3) % 230 + 20 for c in range(3)]).to(torch.uint8)


def pictures(policy):
    made = [policy(SEEN).double() for _ in range(int(sys.argv[2]))]
    return [[x.mean().item() for x in made], [x.std(unbiased=False).item() for x in made]]


json.dump({
    "policies": {name: spread(pictures(policy)) for name, policy in POLICIES.items()},
    "crop": spread(params(v2.RandomResizedCrop(32, scale=(0.2, 1)), "top", "left", "height", "width")),
    "erased": spread([[float(row[name]) for row in erasing] for name in ("i", "j", "h", "w")]),
}, sys.stdout)
