"""torchvision: of each of its files the first two models. Its detectors can't be exported, and its quantised ones are not trained."""

from collections import Counter

import torch
import torchvision.models as tv


def module_of(name):
    return tv.get_model_builder(name).__module__


def models():
    taken = Counter()
    for name in tv.list_models():
        taken[module_of(name)] += 1
        if taken[module_of(name)] <= 2 and ".detection." not in module_of(name) and not name.startswith("quantized"):
            yield name, lambda name=name: (build(name), example(name))


def build(name):
    return tv.get_model(name, weights=None, **({"weights_backbone": None} if ".segmentation." in module_of(name) else {}))


def example(name):
    module = module_of(name)
    if ".video." in module:
        return torch.randn(2, 3, 16, 224, 224) if "mvit" in name or "swin" in name else torch.randn(2, 3, 8, 112, 112)
    if ".optical_flow." in module:
        return torch.randn(2, 3, 128, 128), torch.randn(2, 3, 128, 128)
    return torch.randn(2, 3, 299, 299) if name == "inception_v3" else torch.randn(2, 3, 224, 224)
