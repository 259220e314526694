// Our side of the step times. Arguments: a Spec as JSON, the device, "deterministic" or nothing. peer.py is the other
// side.
import { resolveSettings } from "../../core/settings/resolve.ts";
import { createLoss } from "../../core/models/losses.ts";
import { createModel } from "../../core/models/registry.ts";
import { packParameters } from "../../core/train/gradients/arena.ts";
import { openDevice } from "../../core/train/device.ts";
import { keyedSeeds } from "../../core/train/blocks.ts";
import { createOptimizer } from "../../core/train/optimizers.ts";
import { trainStep } from "../../core/train/user_step.ts";
import { toDevice } from "../../ffi/make.ts";
import { contiguous, randint, randn } from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { answerRounds, type Train, trainer } from "../contestant.ts";
import { factsOf, settings, type Spec } from "./check.ts";

function batchOf(spec: Spec, device: Device): { input: Tensor; target: Tensor; items: number } {
  const { model, batch, size, outputs } = spec;
  const there = (t: Tensor) => keep(toDevice(t, device));
  if (model === "gpt") {
    const tokens = () => there(randint(0, outputs, [batch, size]));
    return { input: tokens(), target: tokens(), items: batch * size };
  }
  if (model === "mlp") {
    return { input: there(randn([batch, 7])), target: there(randn([batch, 1])), items: batch };
  }
  const images = there(contiguous(randn([batch, 3, size, size]), "channels_last"));
  return { input: images, target: there(randint(0, outputs, [batch])), items: batch };
}

function prepare(spec: Spec, asked: string, deterministic: boolean): Train {
  const shape = spec.model === "gpt"
    ? settings({ "model.layers": spec.layers, "model.embed": spec.width, "model.heads": spec.heads })
    : spec.model === "mlp"
    ? settings({ "model.hidden_size": spec.width })
    : [];
  const optimizer = spec.model === "resnet18"
    ? ["--optimizer", "sgd", ...settings({ "training.optimizer.momentum": 0.9 })]
    : ["--optimizer", "adamw"];
  const flags = ["--model", spec.model, ...shape, ...optimizer, "--weight-decay", "0.01", "--device", asked];
  if (deterministic) flags.push("--deterministic");
  const { config } = resolveSettings({ argv: [...flags, "--dropout", String(spec.dropout ?? 0)], env: {} });
  const { device } = openDevice(config);
  const facts = factsOf(spec);
  const loss = createLoss(config.training, facts);
  manualSeed(0n);
  const model = createModel(config.model, facts, loss.outputs);
  const arena = packParameters(model.root.namedParameters(), device, true);
  for (const [, buffer] of model.root.namedBuffers()) {
    if (device !== "cpu") buffer.replaceWith(toDevice(buffer, device));
  }
  manualSeed(1n);
  const batches = [scope(() => batchOf(spec, device))];
  const cast = spec.bf16 ? "bf16" as const : null;
  const options = {
    pass: { model, loss, cast, onGpu: device !== "cpu", seeds: keyedSeeds(model, 0) },
    arena,
    optimizer: createOptimizer(config.training.optimizer, arena),
    scaler: null,
    checkpointing: spec.checkpointing ?? false,
    clipNorm: 0,
    observe: null,
  };
  return trainer((number) => trainStep(options, batches, [1], 1e-3, false, number));
}

await answerRounds(prepare(JSON.parse(Deno.args[0]), Deno.args[1], Deno.args[2] === "deterministic"));
