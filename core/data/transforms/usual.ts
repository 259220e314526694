// What kinds of data are normalised with where the settings leave it open, of values from 0 to 1. Imports types only.
import type { Normalisation } from "./values.ts";

/** torchvision's figures for models that see photographs. */
export const IMAGENET: Normalisation = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };

/** By kind of data; other kinds are left as they are. */
export const USUAL: Readonly<Record<string, Normalisation>> = {
  mnist: { mean: [0.1307], std: [0.3081] },
  imagefolder: IMAGENET,
};
