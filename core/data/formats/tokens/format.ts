import type { Format } from "../../format.ts";
import { loadReader } from "../../source/reader.ts";
import { tokensReader } from "./reader.ts";
import { looksLikeTokens, openTokens, previewTokens } from "./tokens.ts";

export const tokens: Format = {
  endings: [".bin"],
  folder: { has: "train.bin", detect: looksLikeTokens },
  path: "the file or folder to read",
  reader: () => loadReader({ module: tokensReader }),
  open: openTokens,
  preview: previewTokens,
};
