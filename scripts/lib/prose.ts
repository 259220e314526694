// Turns of phrase that no reader of English expects, in documents and messages: each with what to write in its place.
import type { Finding } from "../lint_words.ts";

/** Few, and wrong wherever they stand: a turn that is right somewhere is not in the list. */
const ARCHAIC: readonly (readonly [RegExp, string])[] = [
  [/\bone's\s+own\b/, "your own, its own"],
  [/\b(?:is|are)\s+told\b(?!\s+(?:to|apart)\b)/, "is printed, is named, says"],
  [/\bunless\s+(?:it\s+is\s+)?told\b/, "by default"],
  [/\bas\s+told\b/, "as described"],
  [/\bhangs?\s+on\s+(?!to\b)/, "depends on"],
  [/\bheed(?:s|ed)?\b/, "obey, follow; not heeded: ignored"],
  [/\bparted\s+by\b/, "separated by"],
  [/\banew\b/, "again"],
  [/\bin\s+(?:its|the|their)\s+midst\b/, "in the middle"],
  [/\bif\s+need\s+be\b/, "if necessary"],
  [/\bas\s+[\w' ]{1,14}\s+(?:has|have)\s+(?:it|them)\b/, "as in"],
  [/,\s+for\s+(?:there|it|they|we|this|that)\s+(?:is|are|has|have|can|was|were|may)\b/, "because"],
  [/\btells?\s+of\b/, "describes, reports"],
  [/\b(?:thereof|therein|whence|lest|whereby|hither|thither|wherein)\b/, "a plain word"],
  [
    /(?<=^|[.!?:|]\s+|^[-*]\s+|\*\*\s)Of\s+(?!course\b)/m,
    'the subject first: not "Of a large file the first ..."',
  ],
];

/** The turns that a text has: a page, or the messages of a source. */
export function lintProse(text: string): Finding[] {
  return ARCHAIC.flatMap(([turn, better]) =>
    [...text.matchAll(new RegExp(turn, turn.flags + "g"))].map(({ index, 0: found }): Finding => ({
      line: text.slice(0, index).split("\n").length,
      kind: "archaic",
      text: `"${found.replace(/\s+/g, " ").trim()}": write ${better}`,
    }))
  ).sort((a, b) => a.line - b.line);
}

const blanks = (text: string): string => text.replace(/[^\n]/g, " ");

/** A page of Markdown without its code and comments, every line where it was. */
export const proseOf = (markdown: string): string =>
  markdown.replace(/^```[^]*?^```/gm, blanks).replace(/<!--[^]*?-->/g, blanks).replace(/^ {4,}.*$/gm, blanks)
    .replace(/`[^`\n]*`/g, (code) => `\`${"x".repeat(code.length - 2)}\``);

/** The texts in quotes of a TypeScript file, every line where it was: what its comments say is left out. */
export function messagesOf(source: string): string {
  const code = source.replace(/\/\*[^]*?\*\//g, blanks).replace(/^[ \t]*\/\/.*$/gm, blanks);
  let messages = "", end = 0;
  for (const { index, 0: text } of code.matchAll(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)) {
    messages += blanks(code.slice(end, index)) + text.replace(/\$\{[^{}]*\}/g, blanks);
    end = index + text.length;
  }
  return messages;
}
