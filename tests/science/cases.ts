// A case of science is a file here and a line in this table.
import type { Case } from "./case.ts";
import { cosmology } from "./cosmology.ts";
import { downscaling } from "./downscaling.ts";
import { fineTuning } from "./fine_tuning.ts";
import { pixelClasses } from "./pixel_classes.ts";
import { seaIce } from "./sea_ice.ts";
import { table } from "./table.ts";

export const CASES: Readonly<Record<string, Case>> = {
  "sea-ice": seaIce,
  cosmology,
  downscaling,
  "fine-tuning": fineTuning,
  "pixel-classes": pixelClasses,
  table,
};
