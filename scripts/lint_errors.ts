// The linter of the error style: what a user reads must be a whole sentence that says what to do.
import { sourceFiles } from "./lib/source_files.ts";

export interface Finding {
  file: string;
  line: number;
  sentence: string;
}

export function lintErrors(file: string, source: string): Finding[] {
  const findings: Finding[] = [];
  const report = (at: number, sentence: string) =>
    findings.push({ file, line: source.slice(0, at).split("\n").length, sentence });
  for (const { index, 0: head, 1: kind } of source.matchAll(/\bthrow new (Error|TypeError|RangeError)\(/g)) {
    if (file.startsWith("ffi/") || inComment(source, index)) continue; // ffi has its own voice, turned into ours above it
    const [text = ""] = argumentsOf(source, index + head.length);
    if (!/^["'`]internal: /.test(text)) {
      report(
        index,
        `a bare ${kind} reaches the user as a bug: throw a UserError, or begin its text with "internal: "`,
      );
    }
  }
  for (const { index, 0: head } of source.matchAll(/\bnew UserError\(/g)) {
    if (inComment(source, index)) continue;
    const text = argumentsOf(source, index + head.length)[1] ?? "";
    if (/\binvalid\b/i.test(text) && !/expected|must|instead|one of/i.test(text)) {
      report(index, `"invalid" alone says nothing: say what was expected and what was found`);
    }
    // A text that ends in an interpolation or a variable may well be a sentence: only a literal end is judged.
    if (/["'`]$/.test(text) && !/[.?!}\n]\s*["'`]$/.test(text)) {
      report(index, "the text is not a whole sentence: it must end with a full stop or a question mark");
    }
  }
  return findings;
}

function inComment(source: string, at: number): boolean {
  const before = source.slice(source.lastIndexOf("\n", at) + 1, at);
  return /(^|\s)\/\/|^\s*\*|\/\*/.test(before);
}

/** The arguments of a call as source text; `start` is just after its opening bracket. */
function argumentsOf(source: string, start: number): string[] {
  const found: string[] = [];
  let from = start, i = start;
  for (let depth = 0; i < source.length; i++) {
    const c = source[i];
    if (`"'\``.includes(c)) i = endOfString(source, i);
    else if ("([{".includes(c)) depth++;
    else if (")]}".includes(c) && depth-- === 0) break;
    else if (c === "," && depth === 0) {
      found.push(source.slice(from, i).trim());
      from = i + 1;
    }
  }
  return [...found, source.slice(from, i).trim()].filter(Boolean);
}

/** Finds the end of the string that opens at `start`; a template's `${...}` may hold strings of its own. */
function endOfString(source: string, start: number): number {
  const quote = source[start];
  for (let i = start + 1; i < source.length; i++) {
    if (source[i] === "\\") i++;
    else if (source[i] === quote) return i;
    else if (quote === "`" && source.startsWith("${", i)) {
      for (let depth = 0;; i++) {
        if (`"'\``.includes(source[i])) i = endOfString(source, i);
        else if (source[i] === "{") depth++;
        else if (i >= source.length || source[i] === "}" && --depth === 0) break;
      }
    }
  }
  return source.length;
}

if (import.meta.main) {
  const findings = ["core", "extensions", "commands", "ffi", "main.ts"].flatMap(sourceFiles)
    .flatMap((file) => lintErrors(file, Deno.readTextFileSync(file)));
  for (const { file, line, sentence } of findings) console.error(`${file}:${line}: ${sentence}`);
  Deno.exit(findings.length > 0 ? 1 : 0);
}
