// The linter of imports: what it refuses and what it lets pass.
import { assertEquals } from "@std/assert";
import { lintImports } from "../../scripts/lint_imports.ts";

Deno.test("a package that is imported past deps/ is found, whichever way it is imported", () => {
  const source = [
    '// from "words" of a comment',
    'import { join } from "@std/path";',
    'import type { Dataset } from "h5wasm";',
    'const { h5wasm } = await import("h5wasm/node");',
    'import source jpeg from "npm:codec@1.0.0/jpeg.wasm";',
    'export * from "jsr:@std/path@1";',
    'import { sha } from "node:crypto";',
    'import { x } from "./x.ts";',
    'const url = new URL("../presets", import.meta.url);',
  ].join("\n");
  assertEquals(lintImports(source).map(({ line, specifier }) => `${line} ${specifier}`), [
    "2 @std/path",
    "3 h5wasm",
    "4 h5wasm/node",
    "5 npm:codec@1.0.0/jpeg.wasm",
    "6 jsr:@std/path@1",
  ]);
});
