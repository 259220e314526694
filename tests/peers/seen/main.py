"""Exports the models of each file beside this one, and writes how many of them each form of an operation was seen in.

Its argument is the file to write. What takes too long, or is not exported here, is left out; the counts of each file say how many were.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import torch

# Core in PyTorch 2.10 to 2.13, and not since.
FORMERLY_CORE = ["aten.adaptive_avg_pool1d.default", "aten.avg_pool1d.default"]
# What run_decompositions() makes of attention where a program was exported on a GPU. Here it is exported on a CPU.
ON_GPUS = ["aten._scaled_dot_product_efficient_attention.default", "aten._scaled_dot_product_flash_attention.default"]
HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 3600


def core():
    """What PyTorch says any program can be written with."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    forms = [getattr(packet, overload) for packet in packets if hasattr(packet, "overloads") for overload in packet.overloads()]
    return sorted([str(form) for form in forms if torch.Tag.core in form.tags] + FORMERLY_CORE)


def main(out):
    models, operations = {}, Counter(dict.fromkeys(ON_GPUS, 0))
    for library in sorted(name[:-3] for name in os.listdir(HERE) if name.startswith("of_")):
        with subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "count.py"), library, str(SECONDS)], stdout=subprocess.PIPE, text=True
        ) as counting:
            told = [json.loads(line) for line in counting.stdout]
        models[library[3:]] = sum("forms" in each for each in told)
        operations.update(form for each in told for form in each.get("forms", ()))
        print(library, models[library[3:]], flush=True)
    found = {"torch": torch.__version__.split("+")[0], "models": models, "core": core(), "operations": dict(sorted(operations.items()))}
    with open(out, "w") as file:
        file.write(json.dumps(found, indent=2) + "\n")


main(sys.argv[1])
