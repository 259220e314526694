"""torchvision's, Pillow's and PyTorch's transforms of the images that are sent, with the random numbers that are sent."""
import json
import sys

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import functional as F


def resized(pixels, side):
    if side == 0:
        return pixels
    if pixels.dtype == np.uint8:
        if len(pixels) == 3:
            colours = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
            return np.asarray(F.resize(colours, side)).transpose(2, 0, 1)
        planes = [F.resize(Image.fromarray(plane), side) for plane in pixels]
        return np.stack([np.asarray(plane) for plane in planes])
    exact = pixels.astype(np.float64) if pixels.dtype == np.float32 else pixels
    return F.resize(torch.from_numpy(exact), [side], antialias=True).numpy()


def geometry(case):
    plan, draw = case["plan"], case["draw"]
    image = resized(np.array(case["values"], case["dtype"]).reshape(case["shape"]), plan["resize"])
    image = torch.from_numpy(np.ascontiguousarray(image))
    if plan["centreCrop"]:
        image = F.center_crop(image, [plan["centreCrop"]] * 2)
    side, padding = plan["randomCrop"], plan["padding"]
    if side and draw is None:
        image = F.center_crop(image, [side, side])
    elif side:
        image = F.pad(image, [padding] * 4)
        top, left = (int(draw[i] * (image.shape[1 + i] - side + 1)) for i in range(2))
        image = F.crop(image, top, left, side, side)
    if draw is not None:
        if plan["flip"] != "none" and draw[2] < 0.5:
            image = F.hflip(image)
        if plan["flip"] == "both" and draw[3] < 0.5:
            image = F.vflip(image)
        if plan["rotate"]:
            image = torch.rot90(image, int(draw[4] * 4), [1, 2])
    return {"shape": list(image.shape), "values": image.flatten().tolist()}


print(json.dumps([geometry(case) for case in json.load(sys.stdin)]))
