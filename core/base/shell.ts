// Command lines are words quoted for bash; some start this program again.
import { fromFileUrl } from "../../deps/path.ts";

export function thisProgram(): string[] {
  return Deno.build.standalone
    ? [Deno.execPath()]
    : [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", fromFileUrl(Deno.mainModule)];
}

export function programAsCalled(): string {
  if (!Deno.build.standalone) return shellLine(thisProgram());
  const [called] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  const workingFolder = `${Deno.cwd()}/`;
  return shellLine([called.startsWith(workingFolder) ? `./${called.slice(workingFolder.length)}` : called]);
}

/** Only words that a shell would change are quoted. */
export const shellLine = (words: readonly string[]): string =>
  words.map((word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");

/** A piece of shell is expanded in the job: `"$SLURM_ARRAY_TASK_ID"`, say. */
export type ShellWord = string | { readonly shell: string };

const PLAIN = /^[\w@%+:,./-]+$/;
const LONG_FLAG = /^--[\w-]+=[\w@%+:,./=-]*$/;

/** The result is one word on one line. The word has no NUL, as no argument can hold one. */
export function quote(word: string): string {
  if (PLAIN.test(word) || LONG_FLAG.test(word)) return word;
  // Single quotes keep every character. What they cannot hold, and what looks like an expansion, is escaped.
  if (!/[\p{Cc}'\\$`\u2018-\u201f\u2028\u2029]/u.test(word)) return `'${word}'`;
  return `$'${word.replace(/[\p{Cc}'\\]/gu, escaped)}'`;
}

const quoteWord = (word: ShellWord): string => typeof word === "string" ? quote(word) : word.shell;

export const quoteAll = (words: readonly ShellWord[]): string => words.map(quoteWord).join(" ");

const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };

function escaped(letter: string): string {
  if (letter === "'" || letter === "\\") return `\\${letter}`;
  if (NAMED[letter]) return NAMED[letter];
  // Bytes are escaped, as bash's own \u depends on the node's locale.
  return [...new TextEncoder().encode(letter)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join(
    "",
  );
}

/** A line takes as many words as fit; a flag stays with its value. */
export function quoteLines(words: readonly ShellWord[], indent = "  ", width = 96): string {
  const lines: string[] = [];
  for (let i = 0; i < words.length; i++) {
    const [word, next] = [words[i], words[i + 1]];
    const takes = typeof word === "string" && /^--[\w-]+$/.test(word) && next !== undefined &&
      !(typeof next === "string" && next.startsWith("-"));
    const piece = takes ? `${quoteWord(word)} ${quoteWord(words[++i])}` : quoteWord(word);
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + piece.length <= width) {
      lines[lines.length - 1] = `${last} ${piece}`;
    } else lines.push(lines.length === 0 ? piece : indent + piece);
  }
  return lines.join(" \\\n");
}
