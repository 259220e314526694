"""Reads a folder of logs as TensorBoard and pandas read it, and prints it as JSON."""

import io
import json
import math
import os
import sys

logs = sys.argv[1]


def plain(x):
    return x if not isinstance(x, float) or math.isfinite(x) else str(x)


def tensorboard():
    from PIL import Image
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    scalars, histograms, images = {}, {}, {}
    for run in sorted(os.listdir(logs)):
        folder = os.path.join(logs, run)
        if not os.path.isdir(folder) or not any("tfevents" in name for name in os.listdir(folder)):
            continue
        all_of_them = {"scalars": 0, "images": 0, "histograms": 0}
        found = EventAccumulator(folder, size_guidance=all_of_them)
        found.Reload()
        tags = found.Tags()
        scalars[run] = {tag: [[s.step, plain(s.value)] for s in found.Scalars(tag)] for tag in tags["scalars"]}
        histograms[run] = {
            tag: [[h.step, h.histogram_value.num, sum(h.histogram_value.bucket)] for h in found.Histograms(tag)]
            for tag in tags["histograms"]
        }
        images[run] = {
            tag: [[i.step, *Image.open(io.BytesIO(i.encoded_image_string)).size] for i in found.Images(tag)]
            for tag in tags["images"]
        }

    runs = plugin_event_multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(logs)
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, logs)
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=logs))
    request = api_pb2.ListSessionGroupsRequest(allowed_statuses=[0, 1, 2, 3], slice_size=100)
    if scalars:
        groups = list_session_groups.Handler(context.RequestContext(), backend, "", request).run().session_groups
    else:
        groups = []
    hparams = [
        {
            "name": session.name,
            "status": session.status,
            "hparams": {name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()},
            "metrics": {m.name.tag: plain(m.value) for m in session.metric_values},
        }
        for group in groups
        for session in group.sessions
    ]
    return scalars, histograms, images, hparams


def tables():
    import pandas

    found = {}
    for run in sorted(os.listdir(logs)):
        path = os.path.join(logs, run, "metrics.csv")
        if os.path.exists(path):
            table = pandas.read_csv(path)
            found[run] = {name: [None if math.isnan(x) else plain(float(x)) for x in table[name]] for name in table}
    return found


scalars, histograms, images, hparams = tensorboard()
print(
    json.dumps(
        {
            "scalars": scalars,
            "histograms": histograms,
            "images": images,
            "hparams": hparams,
            "csv": tables(),
        }
    )
)
