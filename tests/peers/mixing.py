"""torchvision's MixUp and CutMix with the shares and boxes that are sent, its boxes for the numbers that are sent, and
how well numbers agree with a Beta distribution."""
import json
import sys
from unittest import mock

import torch
from scipy import stats
from torchvision.transforms import v2

MIXUP, CUTMIX = v2.MixUp(num_classes=2), v2.CutMix(num_classes=2)


def mixed(case):
    """A batch of two is rolled by one: each is mixed with the other."""
    images = torch.tensor(case["input"]).reshape(case["shape"])
    labels = torch.tensor(case["target"])
    if labels.ndim == 1:
        labels = labels[:, None]
    params = {"labels": labels, "batch_size": 2}
    if case["box"] is None:
        params["lam"], mixer = case["share"], MIXUP
    else:
        top, bottom, left, right = case["box"]
        area = (right - left) * (bottom - top) / (images.shape[-2] * images.shape[-1])
        params["box"], params["lam_adjusted"], mixer = (left, top, right, bottom), 1 - area, CUTMIX
    answer = [mixer.transform(x, params).flatten().tolist() for x in (images, labels)]
    return {"input": answer[0], "target": answer[1]}


def box(case):
    share, row, column, height, width = case
    places = {width: int(column * width), height: int(row * height)}
    with mock.patch.object(CUTMIX._dist, "sample", lambda size: torch.tensor(share, dtype=torch.float64)):
        with mock.patch("torch.randint", lambda below, size: torch.tensor([places[below]])):
            params = CUTMIX.make_params([torch.zeros(1, 1, height, width)])
    left, top, right, bottom = params["box"]
    return {"box": [top, bottom, left, right], "share": params["lam_adjusted"]}


def agreement(case):
    return stats.kstest(case["values"], stats.beta(case["alpha"], case["alpha"]).cdf).pvalue


asked = json.load(sys.stdin)
print(json.dumps({
    "mixed": [mixed(case) for case in asked["mixed"]],
    "boxes": [box(case) for case in asked["boxes"]],
    "agreement": [agreement(case) for case in asked["beta"]],
}))
