import type { Format } from "../../format.ts";
import { loadReader } from "../../source/reader.ts";
import { lacksClasses, looksLikeImages, openImageFolder, previewImages } from "./imagefolder.ts";
import { IMAGES_READER } from "./listing.ts";

export const imagefolder: Format = {
  endings: [".jpg", ".jpeg", ".png", ".webp"],
  folder: { has: "a folder of images for each class", detect: looksLikeImages },
  path: "the file or folder to read",
  reader: async () => {
    await import("./reader.ts"); // named here, so that it is in the executable
    await loadReader({ module: IMAGES_READER });
  },
  open: openImageFolder,
  lacksTargets: lacksClasses,
  preview: previewImages,
};
