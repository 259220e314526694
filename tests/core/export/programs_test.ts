import { assertEquals } from "@std/assert";
import { writePt2 } from "../../../core/export/pt2/file.ts";
import { openExported } from "../../../core/models/exported/archive.ts";
import { refusedTarget } from "../../../core/models/exported/operators.ts";
import { testPrograms } from "./programs.ts";

testPrograms("an exported program that torch.export.load answers with", {
  reader: new URL("./pt2_answers.py", import.meta.url),
  python: "HPCTRAIN_PYTHON",
  refused: /^$/,
  most: 1e-5,
  write: (path, title, model, recorded) => {
    writePt2(`${path}.pt2`, model, recorded);
    using archive = openExported(`${path}.pt2`);
    const refused = archive.program.nodes.filter(({ target }) => refusedTarget(target) !== "");
    assertEquals(refused.map(({ target }) => target), [], `${title}: --model would refuse it`);
  },
});
