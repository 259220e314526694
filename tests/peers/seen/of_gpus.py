"""Layers of torch.nn for which libtorch has kernels of its own on GPUs, exported on one that is made up and decomposed."""

import of_torch
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

KINDS = ("RMSNorm", "BatchNorm2d", "GroupNorm", "LayerNorm", "Attention", "Dropout", "Conv2d", "EmbeddingBag")


def on_gpu(build):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        model, given = build()
        inputs = tuple(torch.empty_like(x, device="cuda") for x in (given if isinstance(given, tuple) else (given,)))
        return torch.export.export(model.train(), inputs).run_decompositions()


def models():
    for name, build in of_torch.layers():
        if any(kind in name for kind in KINDS):
            yield name, lambda build=build: on_gpu(build)
