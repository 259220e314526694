// Words as bash reads them, and words of directives as sbatch reads them. Imports nothing.

/** A word that is given, or a piece of shell that is to be expanded in the job: `"$SLURM_ARRAY_TASK_ID"`, say. */
export type Word = string | { readonly shell: string };

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

export const quoteWord = (word: Word): string => typeof word === "string" ? quote(word) : word.shell;

export const quoteAll = (words: readonly Word[]): string => words.map(quoteWord).join(" ");

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
export function quoteLines(words: readonly Word[], indent = "  ", width = 96): string {
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
