// Weights of timm's and Hugging Face's models under the names and in the layouts of the same models here, which are
// torchvision's (vit, convnext) and nanoGPT's (gpt). The file's keys tell whose they are.
import type { TensorShape } from "./state_dict.ts";
import { DTYPE_BYTES, memoryStorage, tensorBytes, TensorData } from "./value.ts";

interface Library {
  /** Its owner's name and the model's, in words. */
  readonly whose: string;
  /** A tensor that only its files have, and one that the model has. */
  readonly has: RegExp;
  readonly wants: string;
  /** Names of the file and of the model, in which `#` is a number. The first that fits counts. */
  readonly names: readonly (readonly [theirs: string, ours: string])[];
  /** Tensors of the file that hold no weights of the model. */
  readonly without?: RegExp;
  /** Matrices that are stored the other way round. */
  readonly turned?: RegExp;
}

const HF_LAYER = "vit.encoder.layer.#", HF_NEW = "vit.layers.#";
const LAYER = "encoder.layers.encoder_layer_#", QKV = `${LAYER}.self_attention.in_proj_`;

const LIBRARIES: readonly Library[] = [
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
  if (library === undefined || isOwn(library, shapes, tensors)) return { tensors };
  const found = new Map<string, TensorData>(), parts = new Map<string, TensorData[]>();
  for (const [name, tensor] of tensors) {
    if (library.without?.test(name)) continue;
    const ours = renamed(library, name);
    const part = /^(.*in_proj_)([012])\.(weight|bias)$/.exec(ours);
    if (part !== null) {
      (parts.get(part[1] + part[3]) ?? opened(parts, part[1] + part[3]))[Number(part[2])] = tensor;
    } else found.set(ours, library.turned?.test(ours) ? turned(tensor) : tensor);
  }
  for (const [name, three] of parts) found.set(name, joined(three));
  return { tensors: found, notice: `The names are ${library.whose}: its weights go to the same places here` };
}

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
    const [, first, rest] = /^(vit\.|transformer\.)?(.*)$/.exec(theirs)!;
    const source = (first ? `(?:${first})?` : "") + rest.replaceAll(".", "\\.").replace("#", "(\\d+)");
    const match = new RegExp(`^${source}`).exec(name);
    if (match === null) continue;
    return ours.replace("#", match[1] ?? "") + name.slice(match[0].length);
  }
  return name;
}

function opened(parts: Map<string, TensorData[]>, name: string): TensorData[] {
  const list: TensorData[] = [];
  parts.set(name, list);
  return list;
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
