// Tells which parameters a pattern of --param-group and --no-decay fits: a name with globs, a kind of layer, a number of
// dimensions, or blocks of the model.
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { checkPatterns, matcher } from "../base/patterns.ts";
import { isExported } from "../models/exported/model.ts";
import { headOf } from "../models/heads.ts";
import type { Model } from "../models/model.ts";
import { Embedding } from "../models/nn/linear.ts";
import type { Module } from "../models/nn/module.ts";
import { BatchNorm, GroupNorm, LayerNorm, RMSNorm } from "../models/nn/norms.ts";
import { isCode } from "../models/user/file.ts";
import type { Config } from "../settings/settings.ts";

export type Named = readonly [name: string, parameter: Tensor];

/** Tells whether a pattern fits a parameter. */
export type Fits = (parameter: Named) => boolean;

type Kind = (model: Model, config: Config) => Fits;

const NORMS = [LayerNorm, GroupNorm, RMSNorm, BatchNorm];

const ownedBy = ({ root }: Model, among: (module: Module) => boolean): Fits => {
  const owned = new Set(root.modules().filter(among).flatMap((m) => m.namedParameters().map(([, t]) => t)));
  return ([, t]) => owned.has(t);
};

const KINDS: Readonly<Record<string, Kind>> = {
  norms: (model) => ownedBy(model, (m) => NORMS.some((norm) => m instanceof norm)),
  biases: () => ([name]) => /(^|[._])bias$/.test(name),
  embeddings: (model) => {
    const tables = ownedBy(model, (m) => m instanceof Embedding);
    return (one) => tables(one) || /(^|\.)(pos_embedding|class_token)$/.test(one[0]);
  },
  head: (model, config) => {
    const fits = matcher(headOf(model, config));
    return ([name]) => fits(name);
  },
};

/** An exported program has ops in the place of layers, and a user's code may call its head as it likes. */
const UNKNOWN: Readonly<Record<string, (name: string) => boolean>> = {
  norms: isExported,
  embeddings: isExported,
  head: (name) => isExported(name) || isCode(name),
};

/** `setting` is the flag that a sentence names. A name of the model's own comes before a kind of layer. */
export function readPattern(pattern: string, setting: string, model: Model, config: Config): Fits {
  const named = model.root.namedParameters(), names = named.map(([name]) => name);
  const fits = conditionOf(pattern) ?? blocksOf(pattern, setting, model) ??
    (names.some(matcher([pattern])) ? null : kindOf(pattern, setting, model, config));
  if (fits === null) {
    checkPatterns(setting, [pattern], names, Object.keys(KINDS));
    const own = matcher([pattern]);
    return ([name]) => own(name);
  }
  if (named.some(fits)) return fits;
  throw new UserError("usage", `${setting} ${pattern} fits no parameter of this model: leave it out.`);
}

const COMPARE: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
  "==": (a, b) => a === b,
};

/** ndim<2 */
function conditionOf(pattern: string): Fits | null {
  const match = /^ndim\s*(<=?|>=?|==?)\s*(\d+)$/.exec(pattern);
  if (match === null) return null;
  const compare = COMPARE[match[1]], dims = Number(match[2]);
  return ([, { shape }]) => compare(shape.length, dims);
}

/** blocks[0-3], blocks[2] */
function blocksOf(pattern: string, setting: string, { blocks }: Model): Fits | null {
  const match = /^blocks\[(\d+)(?:-(\d+))?\]$/.exec(pattern);
  if (match === null) return null;
  const from = Number(match[1]), to = Number(match[2] ?? from);
  if (from > to || to >= blocks.length) {
    throw new UserError(
      "usage",
      `${setting} ${pattern}: this model has the blocks 0 to ${blocks.length - 1}, ` +
        `${blocks[0].name} to ${blocks.at(-1)!.name}.`,
    );
  }
  const within = new Set(
    blocks.slice(from, to + 1).flatMap(({ module }) => module?.namedParameters().map(([, t]) => t) ?? []),
  );
  return ([, t]) => within.has(t);
}

function kindOf(pattern: string, setting: string, model: Model, config: Config): Fits | null {
  if (!Object.hasOwn(KINDS, pattern)) return null;
  if (!UNKNOWN[pattern]?.(config.model.name)) return KINDS[pattern](model, config);
  throw new UserError(
    "usage",
    `${setting} ${pattern}: which layers of ${config.model.name} these are is not known here. Name them, or say ndim<2 for ` +
      "all parameters of one dimension.",
  );
}
