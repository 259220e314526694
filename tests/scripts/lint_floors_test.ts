// The linter of floors: what it refuses and what it lets pass.
import { assertEquals } from "@std/assert";
import { circlesIn, goesUp, importsOf } from "../../scripts/lint_floors.ts";

const importsIn = (sources: Readonly<Record<string, string>>) =>
  Object.entries(sources).flatMap(([file, source]) => importsOf(file, source).atLoad);

Deno.test("core/data has floors of its own: arrays know no format, and a format knows nothing of what opens it", () => {
  const imports = importsIn({
    "core/data/arrays/rows.ts": 'import type { TiffRows } from "../formats/tiff/blocks.ts";',
    "core/data/formats/tiff/blocks.ts": 'import { noteRows } from "../../arrays/open_rows.ts";',
    "core/data/formats/csv/csv.ts": 'import { detect } from "../../open/open.ts";',
    "core/data/open/open.ts": 'import { csv } from "../formats/csv/format.ts";',
    "core/train/feed.ts": 'import { openData } from "../data/open/open.ts";',
    "core/models/model.ts": 'import type { Batch } from "../data/source/source.ts";',
  });
  assertEquals(imports.filter(goesUp).map(({ from }) => from), [
    "core/data/arrays/rows.ts",
    "core/data/formats/csv/csv.ts",
    "core/models/model.ts",
  ]);
});

Deno.test("types go round nowhere in core/data, and values go round nowhere", () => {
  const pair = (folder: string, kind: string) =>
    importsIn({
      [`${folder}/a.ts`]: `import ${kind}{ b } from "./b.ts";`,
      [`${folder}/b.ts`]: `import { a } from "./a.ts";`,
    });
  const round = (folder: string) => [`${folder}/a.ts`, `${folder}/b.ts`, `${folder}/a.ts`];
  assertEquals(circlesIn(pair("core/data/arrays", "type ")), [round("core/data/arrays")]);
  assertEquals(circlesIn(pair("core/outputs", "type ")), []);
  assertEquals(circlesIn(pair("core/outputs", "")), [round("core/outputs")]);
});
