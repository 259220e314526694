"""Reads the store of a folder of logs as MLflow reads it, and prints its runs as JSON."""

import json
import math
import os
import sys

import mlflow


def plain(x):
    return x if not isinstance(x, float) or math.isfinite(x) else str(x)


client = mlflow.MlflowClient("file:" + os.path.join(sys.argv[1], "mlruns"))
print(
    json.dumps(
        [
            {
                "experiment": experiment.name,
                "name": run.info.run_name,
                "status": run.info.status,
                "params": run.data.params,
                "tags": run.data.tags,
                "metrics": {
                    name: [[m.step, plain(m.value)] for m in client.get_metric_history(run.info.run_id, name)]
                    for name in run.data.metrics
                },
            }
            for experiment in client.search_experiments()
            for run in client.search_runs([experiment.experiment_id])
        ]
    )
)
