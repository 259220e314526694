// Writes core/models/user/templates/hpctrain.d.ts, what users' files see of the library, from core/models/user/library.ts:
//   deno run --allow-all --no-lock scripts/user_types.ts [OUT]
// It alone uses the TypeScript compiler, which is no part of the program.
import ts from "npm:typescript@5.9.2"; // not in deno.lock: what is there is put into the executable
import { dirname, fromFileUrl, join } from "paths";
import { exportList } from "./user_ops.ts";

const ROOT = fromFileUrl(new URL("../", import.meta.url));
const ENTRY = join(ROOT, "core/models/user/library.ts");
const ENTRIES = [
  "ModelLibrary",
  "DataLibrary",
  "JudgeLibrary",
  "OptimizerLibrary",
  "MadeModel",
  "MadeData",
  "MadeLoss",
  "MadeMetrics",
  "MadeOptimizer",
];
const HEAD =
  `// The library, as the function of a file given to hpctrain sees it. Made by: hpctrain types > hpctrain.d.ts
// Import from it with \`import type\`: types are all there is here.
// deno-lint-ignore-file
// deno-fmt-ignore-file
`;

/** The ops are in core/models/user/ops.ts; the context of a forward pass and learnt positions are of internal members alone. */
const SKIPPED = /\/(ffi\/ops|nn\/forward_context|checkpoint\/positions)\.ts$/;

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
    if (text === undefined || needed.has(path) || SKIPPED.test(path)) return;
    needed.set(path, text);
    for (const [, name] of text.matchAll(/(?:from |import\()"(\.[^"]+)"/g)) visit(join(dirname(path), name));
  };
  visit(ENTRY);
  return needed;
}

/** The name of the library that stands for this source; none for the top. */
function home(path: string): "" | "ops" | "nn" | "init" {
  if (path.endsWith("/nn/init.ts")) return "init";
  if (path.includes("/core/models/nn/")) return "nn";
  return /\/core\/models\/user\/ops?\.ts$/.test(path) ? "ops" : "";
}

/** A source's declarations without internal members and without what ties it to files. */
function loose(text: string): string {
  return text
    .replace(/^ +\/\*\*(?:(?!\*\/)[^])*@internal\s*\*\/\n.*\n/gm, "")
    .replace(/^(import|export) [^;]*? from "[^"]+";\n/gm, "")
    .replace(/^export (type )?\{[^}]*\};\n/gm, "")
    .replace(/import\("[^"]+"\)\./g, "")
    .replace(/^(declare|interface|type)/gm, "export $1");
}

/** All that a declared namespace has is exported. */
const inside = (name: string, body: string) =>
  `export declare namespace ${name} {\n${body.replace(/^export (declare )?/gm, "")}}\n`;

/** The statements that what the entry exports leads to, and one list of what they export. */
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
  const isExported = (s: ts.Statement) =>
    (ts.getCombinedModifierFlags(s as ts.DeclarationStatement) & ts.ModifierFlags.Export) !== 0;
  const all = file.statements.filter((statement) => kept.has(statement));
  const names = [...byName].filter(([, them]) => them.some((s) => kept.has(s) && isExported(s))).map((
    [name],
  ) => name);
  const texts = all.map((s) => s.getFullText().trimStart().replace(/^export /m, ""));
  return `${texts.join("\n")}\n${exportList(names)}`;
}

const homes = { "": "", ops: "", nn: "", init: "" };
for (const [path, text] of declarations()) homes[home(path)] += loose(text);
const verbs = /export \{ ([^}]*?),? \} from "..\/..\/..\/ffi\/make.ts"/.exec(
  Deno.readTextFileSync(join(ROOT, "core/models/user/ops.ts")).replace(/\s+/g, " "),
)![1].split(", ");
const top = homes[""].replace(/^export declare (const|function) /gm, "declare $1 ");
const body = [
  verbs.map((name) => `declare const verb_${name}: typeof ${name};\n`).join(""),
  inside("ops", homes.ops + verbs.map((name) => `const ${name}: typeof verb_${name};\n`).join("")),
  inside("nn", homes.nn + inside("init", homes.init)),
  "type Module = nn.Module;\n",
].join("");
const made = HEAD + reached(top + body);
Deno.writeTextFileSync(Deno.args[0] ?? join(ROOT, "core/models/user/templates/hpctrain.d.ts"), made);
