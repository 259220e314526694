// The linter of imports: packages are named in deps/ alone, a file each, so that mod.ts works from any folder, where
// the import map of deno.json is not in force, and so that one line swaps a package's source.
import { sourceFiles } from "./lib/source_files.ts";

export interface Finding {
  readonly line: number;
  readonly specifier: string;
}

const IMPORT = /\b(?:from|import(?:\s+source\s+\w+\s+from)?)\s*\(?\s*"([^"\n]+)"/g;

/** The imports of one file that are neither paths nor parts of the runtime. */
export function lintImports(source: string): Finding[] {
  const code = source.replace(/^[ \t]*(\/\/|\*|\/\*).*$/gm, "");
  return [...code.matchAll(IMPORT)]
    .map(({ index, 1: specifier }) => ({ line: code.slice(0, index).split("\n").length, specifier }))
    .filter(({ specifier }) => /^[@\w]/.test(specifier) && !specifier.startsWith("node:"));
}

if (import.meta.main) {
  const findings = ["core", "extensions", "commands", "ffi", "main.ts", "mod.ts"].flatMap(sourceFiles)
    .filter((file) => !file.startsWith("core/models/user/templates/")) // what users' files look like
    .flatMap((file) => lintImports(Deno.readTextFileSync(file)).map((finding) => ({ file, ...finding })));
  for (const { file, line, specifier } of findings) {
    console.error(`${file}:${line}: "${specifier}" is a package: import it from its file in deps/.`);
  }
  Deno.exit(findings.length > 0 ? 1 : 0);
}
