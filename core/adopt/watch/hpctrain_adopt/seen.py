"""What was seen of the script so far, and the lines of it."""

import json
import os
import sys

import torch
from torch.utils._pytree import tree_flatten

ASKED = json.loads(os.environ["HPCTRAIN_ADOPT"])
OUT, STEPS = ASKED["out"], ASKED["steps"]
HERE = os.path.dirname(os.path.abspath(__file__))


class Seen:
    """All that is known so far."""

    def __init__(self):
        self.model = self.state = self.training = None
        self.optimizers, self.schedulers, self.loader, self.clip = [], [], None, None
        self.depth, self.calls, self.value_calls = 0, None, []
        self.first, self.batches, self.losses, self.rates, self.norms = None, [], [], [], []
        self.steps, self.micro, self.per_step = 0, 0, []
        self.amp, self.scaled, self.draws, self.where = None, {}, [], {}
        self.odd, self.others = [], []  # optimizers beside the first
        # While batches are compared nothing is drawn; a program that is exported draws, or does not.
        self.quiet, self.exporting = True, False


S = Seen()


def place():
    """The line of the script that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if os.path.isfile(name) and not os.path.abspath(name).startswith(HERE):
            inside = any(part in name for part in ("/site-packages/", "/dist-packages/", sys.base_prefix + "/lib/"))
            if not inside:
                return f"{os.path.relpath(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def odd(what):
    told = {"what": what, "where": place()}
    if told not in S.odd:
        S.odd.append(told)


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if torch.is_tensor(t)]
