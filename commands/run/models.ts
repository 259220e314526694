// `hpctrain models [NAME]`: the models there are, or one of them block by block.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import { loadDataReader, openData } from "../../core/data/open/open.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatCount, formatWhole, inColumns } from "../../core/base/format.ts";
import {
  type BlockCost,
  costOf,
  fitOf,
  type MemoryFit,
  memorySize,
  type ModelCost,
} from "../../core/models/cost.ts";
import { aboutModel, factsFor } from "../../core/models/known_sizes.ts";
import { createModel, MODELS } from "../../core/models/registry.ts";
import { type ExportedModel, exportedModel, isExported } from "../../core/models/exported/model.ts";
import { createLoss } from "../../core/models/losses.ts";
import { type Facts, type Model, parameterCount } from "../../core/models/model.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { attentionsIn } from "../../core/train/gpu.ts";
import { memoryNamed } from "../../core/train/throughput.ts";
import type { Config } from "../../core/settings/settings.ts";
import { manualSeed } from "../../ffi/context.ts";
import type { DType } from "../../ffi/dtype.ts";
import { withUserCode } from "../user_code.ts";
import { OPTIONS, SETTINGS, USAGE } from "../models.ts";

interface Sample {
  readonly shape: readonly number[];
  readonly dtype: DType;
}

interface Gpu {
  readonly bytes: number;
  /** AMD's compute no TF32 by themselves. */
  readonly amd: boolean;
}

function gpuOf(text: string): Gpu {
  const bytes = memoryNamed(text);
  return { bytes: bytes ?? memorySize(text), amd: bytes !== null };
}

export async function models(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const gpu = options.gpu === undefined ? undefined : gpuOf(options.gpu);
  const request = resolveSettings({
    argv: rest,
    env: Deno.env.toObject(),
    positionals: 1,
    usage: USAGE,
    takes: SETTINGS,
  });
  const [named] = request.positionals;
  const given = request.origin("model.name").kind !== "default";
  const { config } = request;
  const name = named ?? (given ? config.model.name : undefined);
  const { json } = config.output;
  try {
    if (name === undefined) {
      openDevice({ ...config, training: { ...config.training, device: "cpu" } });
      list(request, json);
    } else {await one(
        { ...request, config: { ...config, model: { ...config.model, name } } },
        gpu,
        json,
        options.plan,
      );}
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

function list({ config }: Resolved, json: boolean): void {
  const rows = MODELS.map((name) => {
    const model = { ...config.model, name };
    const facts = factsFor(model);
    const built = createModel(model, facts);
    const parameters = parameterCount(built.root);
    built.root.free();
    return { name, about: aboutModel(name), input: facts.input.shape, outputs: facts.outputs, parameters };
  });
  if (json) return console.log(JSON.stringify({ models: rows }, null, 2));
  const table = rows.map(({ name, about, input, outputs, parameters }) => [
    name,
    formatWhole(parameters),
    `[${input.join(", ")}] -> ${outputs}`,
    about,
  ]);
  console.log(inColumns([["model", "parameters", "for samples", ""], ...table], [1]).join("\n"));
  console.log(
    "One of them, block by block: hpctrain models NAME. Your own: hpctrain models my.pt2, my_model.ts.",
  );
}

async function one(request: Resolved, gpu: Gpu | undefined, json: boolean, plan: boolean): Promise<void> {
  const resolved = await withUserCode(request);
  const { config } = resolved;
  // The counts are the same on every device, and a GPU may be in use by others.
  openDevice({ ...config, training: { ...config.training, device: "cpu" } });
  manualSeed(BigInt(config.training.seed));
  const { model, sample, facts } = await opened(resolved);
  if (plan) {
    if (facts === null) {
      throw new UserError("usage", "--plan needs the task: add --data-type and --data-path.");
    }
    const { planLines } = await import("./model_plan.ts");
    return console.log((await planLines(model, facts, config)).join("\n"));
  }
  const cost = costOf(model, sample.rows, sample.batch);
  const fit = gpu === undefined ? undefined : fitOf(cost, gpu.bytes);
  if (json) {
    const tensors = model.root.stateDict().map(([name, { shape, dtype }]) => ({ name, dtype, shape }));
    const { shape, dtype } = sample.rows;
    return console.log(
      JSON.stringify({ model: model.name, input: { shape, dtype }, ...cost, fit, tensors }, null, 2),
    );
  }
  console.log(render(model, sample.rows, cost, config.training, fit, gpu?.amd).join("\n"));
}

interface Opened {
  readonly model: Model;
  readonly sample: { readonly rows: Sample; readonly batch: number };
  /** Null for an exported program without data. */
  readonly facts: Facts | null;
}

/** With the data's own sizes where the user names data. */
async function opened({ config, origin }: Resolved): Promise<Opened> {
  const named = ["data.type", "data.data_path", "data.code"].some((path) => origin(path).kind !== "default");
  if (isExported(config.model.name) && !named) {
    const model = exportedModel(config.model.name, { blocks: config.model.blocks });
    return { model, sample: exportedSample(model), facts: null };
  }
  const facts = named ? await factsOfData(config) : factsFor(config.model);
  const model = createModel(
    config.model,
    facts,
    named ? createLoss({ ...config.training, class_weights: [] }, facts).outputs : undefined,
  );
  return { model, sample: { rows: facts.input, batch: 2 }, facts };
}

async function factsOfData(config: Resolved["config"]) {
  await loadDataReader(config.data);
  return openData(config.data, { ...config.training, plain: true }, config.model).train.facts;
}

function exportedSample({ name, inputs }: ExportedModel): Opened["sample"] {
  const [{ name: input, meta }] = inputs;
  const [batch, ...shape] = meta.sizes;
  const fixed = shape.every((size) => typeof size === "number");
  if (inputs.length === 1 && fixed && meta.dtype !== null) {
    return { rows: { shape, dtype: meta.dtype }, batch: typeof batch === "number" ? batch : 2 };
  }
  throw new UserError(
    "usage",
    `${name}: the sizes of its input ${input} are known only with data: add --data-type and --data-path.`,
  );
}

const sizes = (shape: readonly number[]) => `[${shape.join(", ")}]`;

function render(
  model: Model,
  { shape, dtype }: Sample,
  cost: ModelCost,
  training: Config["training"],
  fit?: MemoryFit,
  amd = false,
): string[] {
  const row = ({ name, output, parameters, flops, activations }: Omit<BlockCost, "handedOn">) => [
    name,
    sizes(output),
    formatWhole(parameters),
    formatCount(flops),
    formatBytes(activations),
  ];
  const { parameters, flops, activations, blocks } = cost;
  const total = [
    "total",
    "",
    formatWhole(parameters),
    formatCount(flops),
    formatBytes(activations),
  ];
  return [
    model.describe(),
    `One sample is ${dtype} ${
      sizes(shape)
    }. FLOPs are of its forward pass (training takes three times as many); memory is what`,
    "its forward pass keeps for the backward pass, in f32.",
    ...inColumns([["block", "gives", "parameters", "FLOPs", "memory"], ...blocks.map(row), total], [2, 3, 4]),
    ...fit
      ? [...fitLines(fit), kernelsLine(model, training, amd)]
      : ["How large a batch fits: add --gpu 80GB."],
  ];
}

/** Without the GPU no more is known. */
function kernelsLine(model: Model, { tf32, channels_last: last }: Config["training"], amd: boolean): string {
  return "There " + [
    amd
      ? "fp32 products are whole"
      : tf32
      ? "fp32 products are TF32 (--no-tf32)"
      : "fp32 products are whole (--tf32)",
    ...(model.convolutional && last !== "off" ? ["images lie channels last (--no-channels-last)"] : []),
    ...(attentionsIn(model).length > 0
      ? ["libtorch chooses the kernel of attention, and the run's start says which"]
      : []),
  ].join("; ") + ".";
}

function fitLines({ gpuBytes, fixed, ways }: MemoryFit): string[] {
  const batches = ways.map(({ name, perSample, batch, capturedBatch }) => [
    `  ${name}`,
    batch > 0 ? `batches of up to ${batch}` : "does not fit",
    capturedBatch > 0 ? `${capturedBatch} in captured steps` : "",
    `${formatBytes(perSample)} a sample`,
  ]);
  return [
    `On a GPU with ${formatBytes(gpuBytes)}: ${
      formatBytes(fixed)
    } for weights, gradients and AdamW, and an estimate of`,
    ...inColumns(batches),
    "A captured step has memory of its own beside that of the first steps; larger batches run op by op (--no-compile).",
  ];
}
