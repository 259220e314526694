// Weights of timm's and Hugging Face's models under the names and in the layouts of the same models here, which are
// torchvision's (resnets, vit, convnext) and nanoGPT's (gpt). The file's keys tell whose they are.
import type { TensorShape } from "./state_dict.ts";
import { DTYPE_BYTES, isContiguous, memoryStorage, tensorBytes, TensorData } from "./value.ts";

interface Library {
  /** Its owner's name and the model's, in words. */
  readonly whose: string;
  /** A tensor that only its files have, and one that the model has. */
  readonly has: RegExp;
  readonly wants: string;
  /** Names of the file and of the model, in which `#` is a number. The first that fits counts. */
  readonly names: readonly (readonly [theirs: string, ours: string | ((...numbers: number[]) => string)])[];
  /** Tensors of the file that hold no weights of the model. */
  readonly without?: RegExp;
  /** Matrices that are stored the other way round. */
  readonly turned?: RegExp;
}

const HF_LAYER = "vit.encoder.layer.#", HF_NEW = "vit.layers.#";
const LAYER = "encoder.layers.encoder_layer_#", QKV = `${LAYER}.self_attention.in_proj_`;

/** Stages and what makes maps smaller before them take turns. */
const stage = (part: string) => (s: number, i: number) => `features.${2 * s + 1}.${i}.${part}`;
const smaller = (s: number, i: number) => `features.${2 * s}.${i}.`;

/** Stages and steps are counted from 1 in torchvision's resnets. */
const HF_RESNET = "resnet.encoder.stages.#.layers.#";
const residual = (part: string) => (s: number, i: number, k = 0) =>
  `layer${s + 1}.${i}.${part.replace("#", String(k + 1))}.`;

const LIBRARIES: readonly Library[] = [
  {
    whose: "Hugging Face's ResNet",
    has: /^(resnet\.)?encoder\.stages\.0\.layers\.0\.layer\.0\.convolution\.weight$/,
    wants: "layer1.0.conv1.weight",
    names: [
      ["resnet.embedder.embedder.convolution.", "conv1."],
      ["resnet.embedder.embedder.normalization.", "bn1."],
      [`${HF_RESNET}.shortcut.convolution.`, residual("downsample.0")],
      [`${HF_RESNET}.shortcut.normalization.`, residual("downsample.1")],
      [`${HF_RESNET}.layer.#.convolution.`, residual("conv#")],
      [`${HF_RESNET}.layer.#.normalization.`, residual("bn#")],
      ["classifier.1.", "fc."],
    ],
  },
  {
    whose: "timm's ViT",
    has: /^blocks\.0\.attn\.qkv\.weight$/,
    wants: "class_token",
    names: [
      ["cls_token", "class_token"],
      ["pos_embed", "encoder.pos_embedding"],
      ["patch_embed.proj.", "conv_proj."],
      ["blocks.#.norm1.", `${LAYER}.ln_1.`],
      ["blocks.#.attn.qkv.", QKV],
      ["blocks.#.attn.proj.", `${LAYER}.self_attention.out_proj.`],
      ["blocks.#.norm2.", `${LAYER}.ln_2.`],
      ["blocks.#.mlp.fc1.", `${LAYER}.mlp.0.`],
      ["blocks.#.mlp.fc2.", `${LAYER}.mlp.3.`],
      ["norm.", "encoder.ln."],
      ["head.", "heads.head."],
    ],
  },
  {
    whose: "Hugging Face's ViT",
    has: /^(vit\.)?embeddings\.cls_token$/,
    wants: "class_token",
    without: /^(vit\.)?pooler\.|^(vit\.)?embeddings\.mask_token$/,
    names: [
      ["vit.embeddings.cls_token", "class_token"],
      ["vit.embeddings.position_embeddings", "encoder.pos_embedding"],
      ["vit.embeddings.patch_embeddings.projection.", "conv_proj."],
      [`${HF_LAYER}.layernorm_before.`, `${LAYER}.ln_1.`],
      [`${HF_LAYER}.attention.attention.query.`, `${QKV}0.`],
      [`${HF_LAYER}.attention.attention.key.`, `${QKV}1.`],
      [`${HF_LAYER}.attention.attention.value.`, `${QKV}2.`],
      [`${HF_LAYER}.attention.output.dense.`, `${LAYER}.self_attention.out_proj.`],
      [`${HF_LAYER}.layernorm_after.`, `${LAYER}.ln_2.`],
      [`${HF_LAYER}.intermediate.dense.`, `${LAYER}.mlp.0.`],
      [`${HF_LAYER}.output.dense.`, `${LAYER}.mlp.3.`],
      [`${HF_NEW}.layernorm_before.`, `${LAYER}.ln_1.`],
      [`${HF_NEW}.attention.q_proj.`, `${QKV}0.`],
      [`${HF_NEW}.attention.k_proj.`, `${QKV}1.`],
      [`${HF_NEW}.attention.v_proj.`, `${QKV}2.`],
      [`${HF_NEW}.attention.o_proj.`, `${LAYER}.self_attention.out_proj.`],
      [`${HF_NEW}.layernorm_after.`, `${LAYER}.ln_2.`],
      [`${HF_NEW}.mlp.fc1.`, `${LAYER}.mlp.0.`],
      [`${HF_NEW}.mlp.fc2.`, `${LAYER}.mlp.3.`],
      ["vit.layernorm.", "encoder.ln."],
      ["classifier.", "heads.head."],
    ],
  },
  {
    whose: "timm's ConvNeXt",
    has: /^stages\.0\.blocks\.0\.conv_dw\.weight$/,
    wants: "features.0.0.weight",
    names: [
      ["stem.#.", (i) => `features.0.${i}.`],
      ["stages.#.downsample.#.", smaller],
      ["stages.#.blocks.#.gamma", stage("layer_scale")],
      ["stages.#.blocks.#.conv_dw.", stage("block.0.")],
      ["stages.#.blocks.#.norm.", stage("block.2.")],
      ["stages.#.blocks.#.mlp.fc1.", stage("block.3.")],
      ["stages.#.blocks.#.mlp.fc2.", stage("block.5.")],
      ["head.norm.", "classifier.0."],
      ["head.fc.", "classifier.2."],
    ],
  },
  {
    whose: "Hugging Face's ConvNeXt",
    has: /^(convnext\.)?encoder\.stages\.0\.layers\.0\.dwconv\.weight$/,
    wants: "features.0.0.weight",
    names: [
      ["convnext.embeddings.patch_embeddings.", "features.0.0."],
      ["convnext.embeddings.layernorm.", "features.0.1."],
      ["convnext.encoder.stages.#.downsampling_layer.#.", smaller],
      ["convnext.encoder.stages.#.layers.#.layer_scale_parameter", stage("layer_scale")],
      ["convnext.encoder.stages.#.layers.#.dwconv.", stage("block.0.")],
      ["convnext.encoder.stages.#.layers.#.layernorm.", stage("block.2.")],
      ["convnext.encoder.stages.#.layers.#.pwconv1.", stage("block.3.")],
      ["convnext.encoder.stages.#.layers.#.pwconv2.", stage("block.5.")],
      ["convnext.layernorm.", "classifier.0."],
      ["classifier.", "classifier.2."],
    ],
  },
  {
    whose: "Hugging Face's GPT-2",
    has: /^(transformer\.)?h\.0\.attn\.c_attn\.weight$/,
    wants: "transformer.wte.weight",
    without: /\.attn\.(masked_)?bias$/,
    turned: /\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$/,
    names: [["lm_head.", "lm_head."], ["transformer.", "transformer."]],
  },
];

interface Known {
  readonly tensors: Map<string, TensorData>;
  readonly notice?: string;
}

/** The same tensors where the names are the model's own, or nobody's that are known. */
export function knownNames(expected: readonly TensorShape[], tensors: Map<string, TensorData>): Known {
  const shapes = new Map(expected.map(({ name, shape }) => [name, shape]));
  const names = [...tensors.keys()];
  const library = LIBRARIES.find(({ has, wants }) =>
    shapes.has(wants) && names.some((name) => has.test(name))
  );
  if (library === undefined) return { tensors };
  if (isOwn(library, shapes, tensors)) return { tensors: withoutMasks(library, tensors) };
  const found = new Map<string, TensorData>(), parts = new Map<string, TensorData[]>();
  for (const [name, tensor] of tensors) {
    if (library.without?.test(name)) continue;
    const ours = renamed(library, name);
    const part = /^(.*in_proj_)([012])\.(weight|bias)$/.exec(ours);
    if (part !== null) {
      (parts.get(part[1] + part[3]) ?? opened(parts, part[1] + part[3]))[Number(part[2])] = tensor;
    } else found.set(ours, library.turned?.test(ours) ? turned(tensor) : shaped(tensor, shapes.get(ours)));
  }
  for (const [name, three] of parts) found.set(name, joined(three));
  return { tensors: found, notice: `The names are ${library.whose}: its weights go to the same places here` };
}

/** nanoGPT's older models have them among their weights, too. */
const withoutMasks = ({ without }: Library, tensors: Map<string, TensorData>): Map<string, TensorData> =>
  new Map([...tensors].filter(([name]) => !without?.test(name)));

/** nanoGPT's names are GPT-2's: only their matrices lie the other way round. */
function isOwn(
  { turned }: Library,
  shapes: ReadonlyMap<string, readonly number[]>,
  tensors: ReadonlyMap<string, TensorData>,
): boolean {
  const first = [...tensors].find(([name, { shape }]) => turned?.test(name) && shape[0] !== shape[1]);
  if (first === undefined) return false;
  const [name, { shape }] = first;
  const own = shapes.get(name);
  // Wide to the left is c_attn's and c_fc's way here, and narrow c_proj's.
  return own ? own[0] > own[1] === shape[0] > shape[1] : false;
}

function renamed({ names }: Library, name: string): string {
  for (const [theirs, ours] of names) {
    // A file of the model without its head lacks the first word.
    const [, first, rest] = /^(vit\.|transformer\.|convnext\.|resnet\.)?(.*)$/.exec(theirs)!;
    const source = (first ? `(?:${first})?` : "") + rest.replaceAll(".", "\\.").replaceAll("#", "(\\d+)");
    const match = new RegExp(`^${source}`).exec(name);
    if (match === null) continue;
    const made = typeof ours === "string"
      ? ours.replace("#", match[1] ?? "")
      : ours(...match.slice(1).map(Number));
    return made + name.slice(match[0].length);
  }
  return name;
}

function opened(parts: Map<string, TensorData[]>, name: string): TensorData[] {
  const list: TensorData[] = [];
  parts.set(name, list);
  return list;
}

/** A factor for each channel may be [n] or [n, 1, 1]. */
function shaped(tensor: TensorData, wanted: readonly number[] = tensor.shape): TensorData {
  const { dtype, shape, storage, offset } = tensor;
  const same = wanted.length > shape.length && wanted.slice(0, shape.length).join() === shape.join() &&
    wanted.slice(shape.length).every((size) => size === 1);
  return same && isContiguous(tensor) ? new TensorData(dtype, wanted, storage, undefined, offset) : tensor;
}

const turned = ({ dtype, shape, storage, strides, offset }: TensorData): TensorData =>
  new TensorData(dtype, shape.toReversed(), storage, strides.toReversed(), offset);

/** Queries, keys and values one below the other. */
function joined(three: readonly TensorData[]): TensorData {
  const [{ dtype, shape }] = three;
  const bytes = new Uint8Array(three.reduce((sum, t) => sum + t.numel, 0) * DTYPE_BYTES[dtype]);
  let at = 0;
  for (const part of three) {
    const own = tensorBytes(part);
    bytes.set(own, at);
    at += own.length;
  }
  return new TensorData(
    dtype,
    [three.reduce((sum, t) => sum + t.shape[0], 0), ...shape.slice(1)],
    memoryStorage(bytes),
  );
}
