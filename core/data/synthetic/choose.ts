// Which made-up task fits a model and its loss. May import the made-up data sets.
import type { Source } from "../source.ts";
import type { Spec } from "./draw.ts";
import { fields } from "./fields.ts";
import { images } from "./images.ts";
import { masks } from "./masks.ts";
import { tokens } from "./tokens.ts";
import { vectors } from "./vectors.ts";

const IMAGE_MODEL = /^(simple-convnet|cosmo-cnn|vit|resnet\d+)$/;

/** A task that this model can learn. A model that is not in the zoo gets vectors. */
export function synthetic(spec: Spec): Source {
  const { name } = spec.model;
  if (name === "gpt") return tokens(spec);
  if (name === "unet") return masks(spec);
  if (!IMAGE_MODEL.test(name)) return vectors(spec);
  const classes = spec.loss === "cross_entropy" || (spec.loss === "auto" && name !== "cosmo-cnn");
  return classes ? images(spec) : fields(spec);
}
