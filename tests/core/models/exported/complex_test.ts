// Parameters that are complex numbers: trained as pairs of real ones, and in the state dict what they are in Python.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { join } from "paths";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { predicted } from "../../../../core/train/media.ts";
import { randn, viewAsReal } from "../../../../ffi/ops.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run } from "../../train/rig.ts";

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<
  { answers: { waves: { losses: number[]; state: Record<string, [string, number[]]> } } }
>("export_cases.py", { folder });

exportedModel(join(folder, "waves.pt2")).root.free(); // what is opened once is opened here, and is no test's leak

for (const checkpointing of [false, true]) {
  Deno.test(`complex weights train to PyTorch's losses and values${checkpointing ? ", also block by block" : ""}`, () => {
    setThreads(1); // as the peer
    const model = exportedModel(join(folder, "waves.pt2"));
    const facts = { task: "regression", input: { shape: [3], dtype: "f32" }, outputs: 2 } as const;
    const flags = ["--optimizer", "sgd", "--weight-decay", "0", "--set", "training.optimizer.momentum=0"];
    const r = rig(model, facts, { flags, direct: true, checkpointing });
    const losses = answers.waves.losses.map((_, i) =>
      scope(() => {
        manualSeed(BigInt(10 + i));
        return run(r, [{ input: randn([4, 3]), target: randn([4, 2]) }], { number: i, lr: 0.1 }).loss;
      })
    );
    assertEquals(losses, answers.waves.losses);
    const state = model.root.stateDict().filter(([, t]) => t.dtype === "c64");
    assertEquals(state.map(([name]) => name), Object.keys(answers.waves.state));
    for (const [name, t] of state) {
      const [dtype, wanted] = answers.waves.state[name];
      assertEquals(dtype, "torch.complex64");
      // PyTorch's own SGD is not fused for complex numbers: it rounds once more.
      scope(() => toNumbers(viewAsReal(t)).forEach((value, i) => assertAlmostEquals(value, wanted[i], 1e-7)));
    }
    const held = liveTensors();
    scope(() => void predicted(r.step.pass, randn([4, 3])));
    assertEquals(liveTensors(), held);
    model.root.free();
  });
}
