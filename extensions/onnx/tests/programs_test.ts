import { testPrograms } from "../../../tests/core/export/programs.ts";
import { writeOnnx } from "../program.ts";

testPrograms("an ONNX file that onnxruntime answers with", {
  reader: new URL("./onnx_answers.py", import.meta.url),
  python: "HPCTRAIN_VIEWERS_PYTHON",
  refused: /^fno/, // ONNX has no complex numbers, and so no Fourier transforms that its readers know
  most: 1e-5,
  write: (path, title, _, recorded) => writeOnnx(`${path}.onnx`, title, recorded, { samples: "any" }),
});
