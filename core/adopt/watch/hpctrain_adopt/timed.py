"""Steps behind the watched ones, which run as they would without being watched, are timed."""

import time

import torch

from .drawn import again, hush
from .seen import STEPS, S

# So many at most, for so many seconds.
MOST, SECONDS = 20, 10.0
TIMES, ENDS = [], []
# What stands at the last watched step; whether steps are watched no longer, and functions.
STOOD = {"schedules": None, "over": False, "left": False}


def plain(value):
    if torch.is_tensor(value):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (int, float, str, bool)) or value is None else None


def schedule_of(scheduler):
    known = {key: plain(value) for key, value in vars(scheduler).items() if not key.startswith("_") and key != "optimizer"}
    return {"type": type(scheduler).__name__, **{key: value for key, value in known.items() if value is not None}}


def schedules():
    return STOOD["schedules"] or [schedule_of(one) for one in S.schedulers]


def stand():
    """At the last watched step."""
    STOOD["schedules"] = [schedule_of(one) for one in S.schedulers]


def is_over():
    return STOOD["over"]


def leave():
    """Behind what follows the last watched step."""
    STOOD["over"] = True
    again()
    if torch.overrides._get_current_function_mode() is S.recorder:
        S.recorder.__exit__(None, None, None)
        STOOD["left"] = True


def time_steps():
    """At the end of each step from then on."""
    ENDS.append(time.perf_counter())
    if len(ENDS) > min(MOST, STEPS) or ENDS[-1] - ENDS[0] > SECONDS:
        from .written import finish

        finish()


def end_timing():
    """What is written next is watched again."""
    TIMES.extend(later - earlier for earlier, later in zip(ENDS, ENDS[1:]))
    hush()
    if STOOD["left"]:
        S.recorder.__enter__()
