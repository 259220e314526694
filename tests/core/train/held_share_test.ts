// --validation-split beside files that validate by themselves.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { loadDataReader, openData } from "../../../core/data/open/open.ts";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { refuseShare } from "../../../core/train/checks.ts";
import { inFolder } from "../checkpoint/python.ts";
import { open } from "./rig.ts";
import { sentenceNamed } from "../../sentences.ts";

open();

/** A grey PNG of one pixel. */
const PIXEL = Uint8Array.from(
  atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="),
  (c) => c.charCodeAt(0),
);

function write(folder: string, files: Record<string, Uint8Array>): void {
  for (const [name, bytes] of Object.entries(files)) {
    Deno.mkdirSync(`${folder}/${name}`.replace(/\/[^/]*$/, ""), { recursive: true });
    Deno.writeFileSync(`${folder}/${name}`, bytes);
  }
}

const images = (...parts: string[]) =>
  Object.fromEntries(
    parts.flatMap((part) =>
      ["a", "b"].flatMap((name) => [0, 1, 2].map((i) => [`${part}/${name}/${i}.png`, PIXEL]))
    ),
  );
const pairs = (...parts: string[]) =>
  Object.fromEntries(
    parts.flatMap((part) =>
      ["images", "labels"].flatMap((kind) => [0, 1, 2].map((i) => [`${part}/${kind}/${i}.png`, PIXEL]))
    ),
  );
const tokens = (...parts: string[]) =>
  Object.fromEntries(
    parts.map((part) => [`${part}.bin`, new Uint8Array(new Uint16Array(400).fill(3).buffer)]),
  );

async function refuse(path: string, ...flags: string[]): Promise<void> {
  const resolved = resolveSettings({ argv: [`--data-path=${path}`, "--context=8", ...flags], env: {} });
  const { config } = resolved;
  await loadDataReader(config.data);
  refuseShare(resolved, openData(config.data, config.training, config.model));
}

for (
  const [what, files, name] of [
    ["a folder val of images", images, "val"],
    ["a folder val of image pairs", pairs, "val"],
    ["validation tokens", tokens, "val.bin"],
  ] as const
) {
  Deno.test(
    `a typed --validation-split is refused beside ${what}, and taken without it`,
    inFolder(async (folder) => {
      write(`${folder}/both`, files("train", "val"));
      write(`${folder}/one`, files("train"));
      let said = "";
      await refuse(`${folder}/both`, "--validation-split=0.4").catch((error) => {
        assertEquals(error instanceof UserError && error.kind, "usage", String(error));
        said = error.message;
      });
      const expected = sentenceNamed("core/train/held_share: validation-split would hold", { folder, name });
      assertStringIncludes(said, expected);
      await refuse(`${folder}/both`); // the default is no request
      await refuse(`${folder}/one`, "--validation-split=0.4");
    }),
  );
}
