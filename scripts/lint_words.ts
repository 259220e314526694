// The linter of words: comments are whole sentences, and exported names are made of the field's words.
import { sourceFiles } from "./lib/source_files.ts";

export interface Finding {
  readonly line: number;
  readonly kind: "fragment" | "name";
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

if (import.meta.main) {
  const sources = ["core", "commands", "ffi", "bench", "scripts", "main.ts", "mod.ts"].flatMap(sourceFiles);
  const findings = sources.flatMap((file) =>
    lintWords(Deno.readTextFileSync(file)).map(({ line, kind, text }) => `${file}:${line}: ${kind}: ${text}`)
  );
  for (const finding of findings) console.error(finding);
  Deno.exit(findings.length > 0 ? 1 : 0);
}
