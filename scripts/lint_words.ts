// The linter of words: comments are whole sentences, and exported names are made of the field's words.
// It reports counts by folder, and fails only for the folders in CLEAN, a list that only grows.
import { sourceFiles } from "./lib/source_files.ts";

export interface Finding {
  readonly line: number;
  readonly kind: "fragment" | "name";
  readonly text: string;
}

/** Folders (or files) without a finding, in which a new one fails. */
export const CLEAN: readonly string[] = [
  ...["bench", "commands", "core/base", "main.ts", "mod.ts", "scripts"],
  ...[
    "core/settings",
    "core/checkpoint",
    "core/data",
    "core/models/nn",
    "core/models/zoo",
    "core/models/exported",
  ],
  ...["core/train", "core/run"],
  ...["core/models/model.ts", "core/models/losses.ts", "core/models/registry.ts", "core/models/cost.ts"],
  ...["core/cluster", "core/export", "core/outputs", "core/predict", "ffi"],
  ...["core/ranks/control", "core/ranks/cpu", "core/ranks/job", "core/ranks/launch", "core/ranks/nccl"],
];

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

const folderOf = (file: string): string =>
  file.includes("/") ? file.split("/").slice(0, file.startsWith("core/") ? 2 : 1).join("/") : file;

/** `--all` prints every finding, `--all FOLDER` those of a folder. */
if (import.meta.main) {
  const [all, only = ""] = Deno.args;
  const counts = new Map<string, { fragment: number; name: number }>();
  let failed = false;
  for (
    const file of ["core", "commands", "ffi", "bench", "scripts", "main.ts", "mod.ts"].flatMap(sourceFiles)
  ) {
    const strict = CLEAN.some((path) => file === path || file.startsWith(`${path}/`));
    for (const { line, kind, text } of lintWords(Deno.readTextFileSync(file))) {
      const count = counts.get(folderOf(file)) ?? { fragment: 0, name: 0 };
      counts.set(folderOf(file), { ...count, [kind]: count[kind] + 1 });
      if (strict || (all === "--all" && file.startsWith(only))) {
        console.error(`${file}:${line}: ${kind}: ${text}`);
      }
      failed ||= strict;
    }
  }
  for (const [folder, { fragment, name }] of counts) {
    console.log(
      `${folder}: ${fragment} comments that begin as fragments, ${name} exported names of private words`,
    );
  }
  Deno.exit(failed ? 1 : 0);
}
