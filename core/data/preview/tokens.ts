// Preview of files of tokens. May import tokens, token_file, files, its siblings.
import { basename } from "../../../deps/path.ts";
import { withFiles } from "../files.ts";
import { findTokens, numbersOf } from "../token_file.ts";
import { filesOf } from "../tokens.ts";
import type { Preview } from "./preview.ts";

export function withTokens<R>(path: string, use: (preview: Preview) => R): R {
  return withFiles((open) => {
    const names = filesOf(path);
    const found = [...names.train, ...names.val].map((name) => {
      const bytes = open(name);
      return { ...findTokens(bytes), name: basename(name), bytes };
    });
    return use({
      path,
      kind: "files of tokens",
      bytes: found.reduce((sum, { bytes }) => sum + bytes.size, 0),
      samples: null,
      row: "token",
      noun: "file",
      facts: {
        stored: [...new Set(found.map(({ said }) => said))].join(" and "),
        "validate with": names.val.length > 0
          ? names.val.map((name) => basename(name)).join(", ")
          : "no file of its own",
      },
      fields: found.map(({ bytes, name, at, length, width }) => ({
        name,
        shape: [length],
        dtype: width === 4 ? "u32" : width === 2 ? "u16" : "u8",
        read: (first, count) => numbersOf(bytes.read(at + first * width, count * width), width),
      })),
      classes: null,
      pictures: null,
    });
  });
}
