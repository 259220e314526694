import type { Format } from "../../format.ts";
import { IDX_NAME, looksLikeMnist, openMnist, previewMnist } from "./mnist.ts";

export const mnist: Format = {
  endings: [],
  folder: { has: "train-images-idx3-ubyte", detect: looksLikeMnist },
  path: "the folder with train-images-idx3-ubyte",
  open: openMnist,
  preview: previewMnist,
  previews: IDX_NAME,
};
