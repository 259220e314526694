"""The programs that the tests of this project export."""

import io
import json
import os
import runpy
import sys
import tempfile

import torch

PEERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ALONE = ("cases", "endings", "judged", "memories", "ops", "storm", "surrogates", "vmap")


def programs(name):
    """All that such a program saves."""
    saved, save, given, told = [], torch.export.save, sys.stdin, sys.stdout
    torch.export.save = lambda program, *_, **__: saved.append(program)
    sys.stdin, sys.stdout = io.StringIO(json.dumps({"folder": tempfile.mkdtemp(), "steps": 1, "every": 1})), io.StringIO()
    try:
        runpy.run_path(os.path.join(PEERS, f"export_{name}.py"), run_name="__main__")
    except Exception as error:  # what comes behind the last program: losses to compare, which nobody asks for
        print(error, file=sys.stderr)
    finally:
        torch.export.save, sys.stdin, sys.stdout = save, given, told
    return saved


def models():
    from export_models import MODELS, build, made

    for name in MODELS:
        yield name, lambda name=name: (build(name), made(MODELS[name][2]))
    for name in ALONE:
        for i, program in enumerate(programs(name)):
            yield f"{name} {i}", lambda program=program: program
