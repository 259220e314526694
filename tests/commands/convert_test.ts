// `hpctrain convert` both ways, judged by PyTorch and the reference safetensors.
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { convert } from "../../commands/run/convert.ts";
import { readPt } from "../../core/checkpoint/pt.ts";
import { UserError } from "../../core/base/errors.ts";
import type { Key, Value } from "../../core/checkpoint/value.ts";
import { inFolder, python } from "../core/checkpoint/python.ts";
import { printed } from "./printed.ts";

const SAVE = `
import torch, sys
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
o = torch.optim.Adam(m.parameters()); m(torch.ones(1, 3)).sum().backward(); o.step()
torch.save({"epoch": 7, "config": {"lr": 0.1, "betas": (0.9, 0.99)}, "model_state_dict": m.state_dict(), "optimizer_state_dict": o.state_dict()}, sys.argv[1])`;

Deno.test(
  "a checkpoint goes to safetensors and back with weights and values equal, and says what stayed behind",
  inFolder(async (folder) => {
    const [start, middle, end] = [`${folder}/a.pt`, `${folder}/b.safetensors`, `${folder}/c.pt`];
    python(SAVE, start);
    const [code, text] = await printed(() => convert([start, middle]));
    assertEquals(code, 0);
    assertStringIncludes(text, "Wrote 4 tensors to");
    assertStringIncludes(text, "Not carried: optimizer_state_dict.");
    await printed(() => convert([middle, end]));
    const compared = python(
      `
import torch, sys
from safetensors.torch import load_file
a, c = (torch.load(p, weights_only=True) for p in (sys.argv[1], sys.argv[3]))
b = load_file(sys.argv[2])
for d in (b, c["model_state_dict"]):
    assert set(d) == set(a["model_state_dict"]) and all(torch.equal(d[k], t) for k, t in a["model_state_dict"].items())
torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).load_state_dict(c["model_state_dict"], strict=True)
print(c["epoch"], c["config"])`,
      start,
      middle,
      end,
    );
    assertEquals(compared.trim(), "7 {'lr': 0.1, 'betas': [0.9, 0.99]}");
  }),
);

Deno.test(
  "a bare state dict stays one, and --strip takes a prefix off its names",
  inFolder(async (folder) => {
    const [start, end] = [`${folder}/a.safetensors`, `${folder}/b.pt`];
    python(
      "import torch, sys; from safetensors.torch import save_file; save_file({'model.a': torch.ones(2), 'model.b': torch.ones(1)}, sys.argv[1])",
      start,
    );
    await printed(() => convert([start, end, "--strip", "model."]));
    using file = readPt(end);
    assertEquals([...(file.root as Map<Key, Value>).keys()], ["a", "b"]);
    await assertRejects(
      () => convert([start, `${folder}/c.pt`, "--strip", "modle."]),
      UserError,
      'no tensor\'s name begins with "modle."',
    );
  }),
);

Deno.test(
  "convert never replaces a file unasked, nor its own input, and wants an ending it knows",
  inFolder(async (folder) => {
    const [start, other] = [`${folder}/a.pt`, `${folder}/b.safetensors`];
    python(SAVE, start);
    Deno.writeTextFileSync(other, "precious");
    await assertRejects(() => convert([start, other]), UserError, "exists already");
    assertEquals(Deno.readTextFileSync(other), "precious");
    Deno.linkSync(start, `${folder}/link.pt`);
    await assertRejects(
      () => convert([start, `${folder}/link.pt`, "--force"]),
      UserError,
      "is the file to be converted itself",
    );
    await assertRejects(
      () => convert([start, `${folder}/a.h5`]),
      UserError,
      "its ending must say the format",
    );
    await printed(() => convert([start, other, "--force"]));
    assertEquals(Deno.statSync(other).size > 100, true);
  }),
);
