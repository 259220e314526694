"""The models of tests/peers/real: transformers, timm, diffusers, segmentation-models-pytorch, torch_geometric, neuraloperator and torchaudio."""

import importlib

import numpy as np
import torch
from case import made

MODULES = ("hugging_face", "timm_models", "diffusion", "segmentation", "graphs", "fourier", "audio", "own")


def of(case):
    random = np.random.default_rng(5)
    inputs = {name: torch.from_numpy(made(spec, case.batch, random)) for name, spec in case.inputs.items()}
    if case.labels:
        inputs[case.labels] = torch.from_numpy(made(case.target, case.batch, random))
    return case.build().float(), (), inputs


def models():
    for module in map(importlib.import_module, MODULES):
        for name, case in module.MODELS.items():
            yield name, lambda case=case: of(case)
