// The linter of words: comments are whole sentences, exported names are made of the field's words, and documents and
// messages have none of the turns in lib/prose.ts.
import { lintProse, messagesOf, proseOf } from "./lib/prose.ts";
import { sourceFiles } from "./lib/source_files.ts";

export interface Finding {
  readonly line: number;
  readonly kind: "fragment" | "name" | "archaic";
  readonly text: string;
}

const FRAGMENT =
  /^(?:(?:Of|With which|By which|In which|On which|To which|From which|Whether|What|Which|Whose)\b(?![^.?!]*\?)|Where\b(?![^.]*,))/;
/** `where` by itself is an op of PyTorch. */
const OUT_OF_NAMES = [
  ...["told", "said", "asked", "hear", "hears", "heard", "hearer", "ears", "breath", "late", "left"],
  ...["desk", "figures", "together", "where"],
];
const COMMENT = /^[ \t]*(\/\*\*[^]*?\*\/|\/\/.*(?:\n[ \t]*\/\/.*)*)/gm;
const EXPORTED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let) (\w+)/gm;

export function lintWords(source: string): Finding[] {
  const lineOf = (at: number) => source.slice(0, at).split("\n").length;
  const fragments = [...source.matchAll(COMMENT)].flatMap(({ index, 1: comment }): Finding[] => {
    const text = comment.replace(/^\/\*\*|\*\/$/g, "").replace(/^[ \t]*(?:\/\/|\*)[ \t]?/gm, "").trim();
    return FRAGMENT.test(text) ? [{ line: lineOf(index), kind: "fragment", text: text.split("\n")[0] }] : [];
  });
  const names = [...source.matchAll(EXPORTED)]
    .filter(({ 1: name }) => name !== "where" && wordsIn(name).some((word) => OUT_OF_NAMES.includes(word)))
    .map(({ index, 1: name }): Finding => ({ line: lineOf(index), kind: "name", text: name }));
  return [...fragments, ...names];
}

/** loadLate, LOAD_LATE -> load, late */
const wordsIn = (name: string): string[] =>
  name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase().split("_");

function pages(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    return isDirectory ? pages(path) : path.endsWith(".md") ? [path] : [];
  });
}

if (import.meta.main) {
  const program = ["core", "extensions", "commands", "ffi", "main.ts", "mod.ts"].flatMap(sourceFiles);
  const sources = [...program, ...["bench", "scripts"].flatMap(sourceFiles)];
  const documents = ["README.md", ...pages("docs"), ...pages("extensions")];
  const read = (file: string) => Deno.readTextFileSync(file);
  const findings = [
    ...sources.flatMap((file) => lintWords(read(file)).map((finding) => ({ file, ...finding }))),
    ...program.flatMap((file) => lintProse(messagesOf(read(file))).map((finding) => ({ file, ...finding }))),
    ...documents.flatMap((file) => lintProse(proseOf(read(file))).map((finding) => ({ file, ...finding }))),
  ];
  for (const { file, line, kind, text } of findings) console.error(`${file}:${line}: ${kind}: ${text}`);
  Deno.exit(findings.length > 0 ? 1 : 0);
}
