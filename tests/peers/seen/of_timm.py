"""timm: of each of its families the model that is smallest by its name."""

import timm
import torch

SMALL = ("atto", "femto", "pico", "nano", "xxs", "xx_small", "tiny", "_xs", "050", "_b0", "_s", "small", "18", "lite")


def models():
    for family in timm.list_modules():
        names = timm.list_models(module=family)
        rank = {name: next((i for i, part in enumerate(SMALL) if part in name), len(SMALL)) for name in names}
        for name in sorted(names, key=lambda name: (rank[name], names.index(name)))[:1]:
            yield name, lambda name=name: of(name)


def of(name):
    model = timm.create_model(name, num_classes=5)
    return model, torch.randn(2, *model.pretrained_cfg["input_size"])
