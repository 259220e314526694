"""Answers of ONNX files beside those that were written with them, by onnxruntime: python onnx_answers.py FOLDER"""

import glob
import json
import sys

import numpy
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(3)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
differences = {}
for path in sorted(glob.glob(f"{sys.argv[1]}/*.onnx")):
    base = path[: -len(".onnx")]
    about = json.load(open(f"{base}.json"))
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {each.key for each in model.metadata_props} == {"samples"}
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = numpy.fromfile(f"{base}.in", dtype="int64" if about["whole"] else "float32").reshape(about["input"])
    wanted = numpy.fromfile(f"{base}.out", dtype="float32").reshape(about["output"])
    (found,) = session.run(None, {"input": given})
    assert found.shape == wanted.shape, (about["title"], found.shape, wanted.shape)
    differences[about["title"]] = float(abs(found - wanted).max() / abs(wanted).max())
print(json.dumps(differences))
