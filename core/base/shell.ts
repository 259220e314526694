// Command lines: words quoted for bash, and the words that start this program again.
import { fromFileUrl } from "../../deps/path.ts";

// The words that start this program again: for a script, and for a person to type.

/** The executable; or Deno and the sources. */
export function thisProgram(): string[] {
  return Deno.build.standalone
    ? [Deno.execPath()]
    : [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", fromFileUrl(Deno.mainModule)];
}

/** The executable as it was called, since it may not be on the PATH. */
export function programAsCalled(): string {
  if (!Deno.build.standalone) return shellLine(thisProgram());
  const [called] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  const here = `${Deno.cwd()}/`;
  return shellLine([called.startsWith(here) ? `./${called.slice(here.length)}` : called]);
}

// Words as a person pastes them into a shell.

/** Only what a shell would read otherwise is put into quotes. */
export const shellLine = (words: readonly string[]): string =>
  words.map((word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");

// Words as bash reads them, and words of directives as sbatch reads them.

/** A word that is given, or a piece of shell that is to be expanded in the job: `"$SLURM_ARRAY_TASK_ID"`, say. */
export type ShellWord = string | { readonly shell: string };

const PLAIN = /^[\w@%+:,./-]+$/;
const LONG_FLAG = /^--[\w-]+=[\w@%+:,./=-]*$/;

/** One word, whatever is in it, on one line. No NUL: no argument can hold one. */
export function quote(word: string): string {
  if (PLAIN.test(word) || LONG_FLAG.test(word)) return word;
  // In single quotes nothing means anything. What they can't hold, and what looks to a reader as if it were meant to
  // be expanded, is escaped letter by letter.
  if (!/[\p{Cc}'\\$`\u2018-\u201f\u2028\u2029]/u.test(word)) return `'${word}'`;
  return `$'${word.replace(/[\p{Cc}'\\]/gu, escaped)}'`;
}

export const quoteWord = (word: ShellWord): string => typeof word === "string" ? quote(word) : word.shell;

export const quoteAll = (words: readonly ShellWord[]): string => words.map(quoteWord).join(" ");

const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };

function escaped(letter: string): string {
  if (letter === "'" || letter === "\\") return `\\${letter}`;
  if (NAMED[letter]) return NAMED[letter];
  // Bytes, not characters: bash's own \u depends on the locale of the node.
  return [...new TextEncoder().encode(letter)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join(
    "",
  );
}

/** A line of words: as many on one line as fit, the rest indented below. A flag stays with its value. */
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
