"""Comes into each Python of a script that is adopted: when it has imported torch, what trains is watched (hpctrain_adopt).

Another sitecustomize, of the system or the environment, is run first, as it would have been.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def others():
    places = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec and spec.loader:
        spec.loader.exec_module(sys.modules.get("sitecustomize") or importlib.util.module_from_spec(spec))


class Torch:
    """Finds torch as Python would, and has it watched once it is there."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            refuse_older(module.__version__)
            sys.path.insert(0, HERE)
            try:
                import hpctrain_adopt
            finally:
                sys.path.remove(HERE)
            hpctrain_adopt.begin()

        spec.loader.exec_module = exec_module
        return spec


def refuse_older(version):
    """torch.export writes programs that are read here from 2.10 on."""
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) >= (2, 10):
        return
    error = f"The script's PyTorch is {version}, and 2.10 or newer is needed to write its model: run it with a newer one, this once"
    with open(os.path.join(json.loads(os.environ["HPCTRAIN_ADOPT"])["out"], "seen.json"), "w") as file:
        json.dump({"error": error, "odd": []}, file)
    os._exit(1)


def first():
    """Of the processes of a job only one is watched: the first of its ranks, and no worker."""
    if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) not in ("", "0"):
        return False
    return "HPCTRAIN_ADOPT" in os.environ


others()
if first():
    sys.meta_path.insert(0, Torch())
