import { writePt2 } from "../../../core/export/pt2/file.ts";
import { testPrograms } from "./programs.ts";

testPrograms("an exported program that torch.export.load answers with", {
  reader: new URL("./pt2_answers.py", import.meta.url),
  python: "HPCTRAIN_PYTHON",
  refused: /^$/,
  most: 1e-5,
  write: (path, _, model, recorded) => writePt2(`${path}.pt2`, model, recorded),
});
