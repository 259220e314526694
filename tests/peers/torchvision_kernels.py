"""torchvision v2's kernels: each case names one, with its parameters and a picture; the answer has its pixels."""
import json
import sys

import torch
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC}


def affine(x, c):
    return F.affine(x, c["angle"], c["translate"], c["scale"], c["shear"], interpolation=MODES[c["mode"]], fill=c["fill"], center=c["center"])


KERNELS = {
    "rotate": lambda x, c: F.rotate(x, c["angle"], interpolation=MODES[c["mode"]], fill=c["fill"], center=c["center"]),
    "affine": affine,
    "perspective": lambda x, c: F.perspective(x, c["start"], c["end"], interpolation=MODES[c["mode"]], fill=c["fill"]),
    "elastic": lambda x, c: F.elastic(
        x, torch.tensor([c["dx"], c["dy"]], dtype=torch.float64).reshape(2, *x.shape[-2:]).permute(1, 2, 0)[None],
        interpolation=MODES[c["mode"]], fill=c["fill"]),
    "resized_crop": lambda x, c: F.resized_crop(x, *c["box"], c["size"], interpolation=MODES[c["mode"]], antialias=True),
    "resize": lambda x, c: F.resize(x, c["size"], interpolation=MODES[c["mode"]], antialias=True),
    "center_crop": lambda x, c: F.center_crop(x, c["size"]),
    "pad": lambda x, c: F.pad(x, c["padding"], fill=c["fill"], padding_mode=c["mode"]),
    "brightness": lambda x, c: F.adjust_brightness(x, c["factor"]),
    "contrast": lambda x, c: F.adjust_contrast(x, c["factor"]),
    "saturation": lambda x, c: F.adjust_saturation(x, c["factor"]),
    "hue": lambda x, c: F.adjust_hue(x, c["factor"]),
    "sharpness": lambda x, c: F.adjust_sharpness(x, c["factor"]),
    "grayscale": lambda x, c: F.rgb_to_grayscale(x, num_output_channels=c["channels"]),
    "posterize": lambda x, c: F.posterize(x, c["bits"]),
    "solarize": lambda x, c: F.solarize(x, c["threshold"]),
    "invert": lambda x, c: F.invert(x),
    "autocontrast": lambda x, c: F.autocontrast(x),
    "equalize": lambda x, c: F.equalize(x),
    "gaussian_blur": lambda x, c: F.gaussian_blur(x, c["sides"], [c["sigma"], c["sigma"]]),
    "jpeg": lambda x, c: F.jpeg(x, c["quality"]),
    "erase": lambda x, c: F.erase(x, *c["box"], torch.tensor(c["value"])[:, None, None]),
}


def answer(case):
    dtype = {"u8": torch.uint8, "f32": torch.float64, "mask": torch.uint8}[case["type"]]
    # The nearest pixel is copied: in float64 no place half-way between two is decided by the last bits of float32.
    if case.get("mode") == "nearest" and case["kernel"] in ("rotate", "affine", "perspective", "elastic"):
        dtype = torch.float64
    x = torch.tensor(case["values"], dtype=torch.float64).to(dtype).reshape(case["shape"])
    x = tv_tensors.Mask(x) if case["type"] == "mask" else tv_tensors.Image(x)
    y = KERNELS[case["kernel"]](x, case)
    return {"shape": list(y.shape), "values": y.to(torch.float64).flatten().tolist()}


torch.set_num_threads(1)
json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
