// Writes core/user/templates/hpctrain.d.ts, what users' files see of the library, from core/user/library.ts:
//   deno run --allow-all --no-lock scripts/user_types.ts [OUT]
// May import the TypeScript compiler, which is used for this alone and no part of the program.
import ts from "npm:typescript@5.9.2"; // not in deno.lock: what is there is put into the executable
import { dirname, fromFileUrl, join } from "@std/path";

const ROOT = fromFileUrl(new URL("../", import.meta.url));
const ENTRY = join(ROOT, "core/user/library.ts");
const ENTRIES = [
  "ModelLibrary",
  "DataLibrary",
  "JudgeLibrary",
  "MadeModel",
  "MadeData",
  "MadeLoss",
  "MadeMetrics",
];
const HEAD =
  `// The library, as the function of a file given to hpctrain sees it. Made by: hpctrain types > hpctrain.d.ts
// Import from it with \`import type\`: types are all there is here.
// deno-lint-ignore-file
// deno-fmt-ignore-file
`;

/** The declarations of each source that those of the entry need, by path. */
function declarations(): Map<string, string> {
  const program = ts.createProgram([ENTRY], {
    declaration: true,
    emitDeclarationOnly: true,
    allowImportingTsExtensions: true,
    strict: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
  });
  const all = new Map<string, string>();
  program.emit(undefined, (_, text, __, ___, sources) => all.set(sources![0].fileName, text));
  const needed = new Map<string, string>();
  const visit = (path: string) => {
    const text = all.get(path);
    if (text === undefined || needed.has(path)) return;
    needed.set(path, text);
    for (const [, name] of text.matchAll(/(?:from |import\()"(\.[^"]+)"/g)) visit(join(dirname(path), name));
  };
  visit(ENTRY);
  return needed;
}

/** Which name of the library stands for this source; none for the top. */
function home(path: string): "" | "ops" | "nn" | "init" {
  if (path.endsWith("/nn/init.ts")) return "init";
  if (path.includes("/core/models/nn/")) return "nn";
  return path.endsWith("/ffi/ops.ts") || path.endsWith("/core/user/ops.ts") ? "ops" : "";
}

/** The names that an op's schema gives its arguments: the compiler knows only their order. */
function namesOfArguments(): Map<string, string[]> {
  const source = Deno.readTextFileSync(join(ROOT, "ffi/ops.ts"));
  const names = new Map<string, string[]>();
  for (const [, name, schema] of source.matchAll(/export const (\w+) = aten\(\s*["'](.*?)["'],?\s*\);/gs)) {
    const inside = schema.slice(schema.indexOf("(") + 1, schema.lastIndexOf(") ->"));
    const parts = inside.replace(/\([^()]*\)/g, "").replace(/\[[^\]]*\]/g, "").split(",").map((p) =>
      p.trim()
    );
    names.set(
      name,
      parts.filter((part) => part !== "*" && part !== "").map((part) =>
        part.split("=")[0].trim().split(" ").at(-1)!
          .replace(/_(\w)/g, (_, letter) => letter.toUpperCase())
      ),
    );
  }
  return names;
}

/** A source's declarations without what ties it to files. */
function loose(text: string): string {
  return text
    .replace(/^(import|export) [^;]*? from "[^"]+";\n/gm, "")
    .replace(/^export (type )?\{[^}]*\};\n/gm, "")
    .replace(/import\("[^"]+"\)\./g, "")
    .replace(/^(declare|interface|type)/gm, "export $1");
}

function withNames(text: string): string {
  const names = namesOfArguments();
  return text.replace(
    /^export declare const (\w+): .*$/gm,
    (line, op) => line.replace(/args_(\d+)/g, (_, i) => names.get(op)?.[i] ?? `argument${i}`),
  );
}

const inside = (name: string, body: string) =>
  `export declare namespace ${name} {\n${body.replace(/^export declare /gm, "export ")}}\n`;

/** The statements that what the entry exports leads to. */
function reached(text: string): string {
  const file = ts.createSourceFile("all.d.ts", text, ts.ScriptTarget.ESNext, true);
  const byName = new Map<string, ts.Statement[]>();
  for (const statement of file.statements) {
    const { name } = statement as ts.InterfaceDeclaration;
    const first = (statement as ts.VariableStatement).declarationList?.declarations[0].name;
    const key = (name ?? first)?.getText() ?? "";
    byName.set(key, [...byName.get(key) ?? [], statement]);
  }
  const kept = new Set<ts.Statement>();
  const visit = (node: ts.Node) => {
    if (ts.isIdentifier(node)) { for (const found of byName.get(node.text) ?? []) keep(found); }
    ts.forEachChild(node, visit);
  };
  const keep = (statement: ts.Statement) => {
    if (kept.has(statement)) return;
    kept.add(statement);
    ts.forEachChild(statement, visit);
  };
  for (const name of ENTRIES) byName.get(name)!.forEach(keep);
  return file.statements.filter((statement) => kept.has(statement)).map((s) => s.getFullText().trimStart())
    .join("\n") +
    "\n";
}

/** How the compiler writes DType where it has looked it up. */
function unionOf(text: string): string {
  const keys = /declare const table: \{(.*?)^\};/ms.exec(text)![1];
  const expected = [...keys.matchAll(/^ {4}(?:readonly )?(\w+):/gm)].map(([, key]) => `"${key}"`).sort();
  const unions = new Set(homes.ops.match(/"\w+"(?: \| "\w+")+/g));
  const found = [...unions].find((union) => union.split(" | ").sort().join() === expected.join());
  if (!found) throw new Error("internal: DType is not written out as a union of its names any more.");
  return found;
}

const homes = { "": "", ops: "", nn: "", init: "" };
for (const [path, text] of declarations()) homes[home(path)] += loose(text);
const verbs = /export \{ ([^}]*?),? \} from "..\/..\/ffi\/make.ts"/.exec(
  Deno.readTextFileSync(join(ROOT, "core/user/ops.ts")).replace(/\s+/g, " "),
)![1].split(", ");
const top = homes[""].replace(/^export declare (const|function) /gm, "declare $1 ");
const body = [
  verbs.map((name) => `declare const verb_${name}: typeof ${name};\n`).join(""),
  inside("ops", withNames(homes.ops) + `export { ${verbs.map((n) => `verb_${n} as ${n}`).join(", ")} };\n`),
  inside("nn", homes.nn + inside("init", homes.init).replace("export declare", "export")),
  "type Module = nn.Module;\n",
].join("");
const made = `${HEAD}${reached(top + body)}export {};\n`.replaceAll(unionOf(top), "DType");
Deno.writeTextFileSync(Deno.args[0] ?? join(ROOT, "core/user/templates/hpctrain.d.ts"), made);
