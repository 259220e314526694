"""A torchvision ResNet for hpctrain: run this once where Python is, and take resnet18.pt2 to the cluster.

    python examples/exported_resnet.py resnet18.pt2
    hpctrain --model resnet18.pt2 --data-path images --epochs 20 --batch-size 32
"""

import sys

import torch
import torchvision

out, classes, size = (sys.argv[1:] + ["resnet18.pt2", "10", "64"][len(sys.argv) - 1 :])[:3]
model = torchvision.models.resnet18(num_classes=int(classes)).train()
example = torch.randn(4, 3, int(size), int(size))
program = torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
torch.export.save(program, out)
