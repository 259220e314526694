"""Reads runs: the events and the settings that hpctrain leaves in logs/RUN."""

import json
import os
from functools import cached_property

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_MEASURED = {"step", "eval", "epoch", "system", "times"}


class Run:
    """One run. Its tables are pandas DataFrames."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.name = os.path.basename(os.path.abspath(self.folder))
        if not os.path.exists(os.path.join(self.folder, "events.jsonl")):
            raise FileNotFoundError(f"{self.folder} is no run: it has no events.jsonl. Runs are the folders below logs/")

    @cached_property
    def events(self):
        """All records, as dicts, in the order in which they were written."""
        found = []
        with open(os.path.join(self.folder, "events.jsonl"), encoding="utf-8") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a kill has cut it
                if isinstance(event, dict):
                    found.append(_revived(event) if event.get("kind") in _MEASURED else event)
        return found

    def table(self, kind):
        """The records of a kind as a DataFrame: "step", "eval", "epoch", "times", "system", "save", "warning"."""
        import pandas

        rows = []
        for event in self.events:
            if event.get("kind") != kind:
                continue
            row = {name: value for name, value in event.items() if name != "kind"}
            row.update(row.pop("metrics", None) or {})
            validation = row.pop("val_metrics", None) or {}
            row.update({f"val_{name}": value for name, value in validation.items()})
            rows.append(row)
        frame = pandas.DataFrame(rows)
        if "t" in frame:
            frame["t"] = pandas.to_datetime(frame["t"], unit="s", utc=True)
        return frame

    @property
    def steps(self):
        """Loss, learning rate, gradient norm, ... of each logged step, by step."""
        return self._by("step")

    @property
    def evaluations(self):
        """`val_loss` and the metrics of each evaluation, by step."""
        return self._by("eval")

    @property
    def epochs(self):
        """The means of each epoch, by step."""
        return self._by("epoch")

    def _by(self, kind):
        frame = self.table(kind)
        return frame.set_index("step") if "step" in frame else frame

    @property
    def config(self):
        """The settings of the last start, by section."""
        return self._last("config").get("config", {})

    @property
    def about(self):
        """Model, parameters, ranks, device, host, ... of the last start."""
        return {name: value for name, value in self._last("run").items() if name not in ("t", "kind")}

    @property
    def state(self):
        """"done", "stopped", "failed", or "open" where it trains or was killed."""
        kinds = [event.get("kind") for event in self.events]
        if "exit" not in kinds or "step" in kinds[len(kinds) - kinds[::-1].index("exit"):]:
            return "open"
        return {0: "done", 75: "stopped"}.get(self._last("exit")["code"], "failed")

    @property
    def best(self):
        """The best evaluation, as a dict, or None: that with the least finite loss, or what the run's --monitor says."""
        evals = [e for e in self.events if e.get("kind") == "eval"]
        by = (evals[-1].get("monitor") if evals else None) or {"name": "val_loss", "mode": "min"}

        def value(event):
            own = event.get("monitor")
            if by["name"] == "val_loss":
                return event["val_loss"]
            return own["value"] if own and own["name"] == by["name"] else event["metrics"].get(by["name"], float("nan"))

        finite = [e for e in evals if abs(value(e)) < float("inf")]
        sign = -1 if by["mode"] == "max" else 1
        return min(finite, key=lambda event: sign * value(event), default=None)

    def _last(self, kind):
        return next((event for event in reversed(self.events) if event.get("kind") == kind), {})

    def __repr__(self):
        return f"<Run {self.name}: {self.state}>"


def run(folder):
    """A run by its folder, such as logs/first."""
    return Run(folder)


def runs(logs="logs"):
    """A DataFrame with a row for each run below `logs`, and a column for each setting in which they differ."""
    import pandas

    rows, settings = {}, {}
    for name in sorted(os.listdir(logs)):
        folder = os.path.join(logs, name)
        if not os.path.exists(os.path.join(folder, "events.jsonl")):
            continue
        found = Run(folder)
        last, best = found._last("step"), found.best or {}
        rows[name] = {
            "state": found.state,
            "model": found.about.get("model"),
            "parameters": found.about.get("parameters"),
            "steps": last.get("step"),
            "loss": last.get("loss"),
            "best_val_loss": best.get("val_loss"),
            "best_step": best.get("step"),
        }
        settings[name] = dict(_flat(found.config))
    every = {path for of_one in settings.values() for path in of_one}
    for path in sorted(every):
        values = [json.dumps(of_one.get(path)) for of_one in settings.values()]
        if len(set(values)) > 1 and path.split(".")[0] in ("model", "data", "training"):
            for name, of_one in settings.items():
                rows[name][path] = of_one.get(path)
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def _flat(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _revived(record):
    """JSON has no NaN and no infinities, so hpctrain writes them as texts."""
    return {
        name: _revived(value) if isinstance(value, dict) else _NUMBERS.get(value, value) if isinstance(value, str) else value
        for name, value in record.items()
    }
