// The words of a text of CUDA C, without comments and without the lines that are not for a GPU of NVIDIA's.
import { NoPtx } from "./no_ptx.ts";

/** Numbers, names, strings and signs. */
const TOKEN =
  /0x[\da-f]+[ul]*|(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?[ful]*|[a-z_]\w*|"[^"]*"|<<=|>>=|<<|>>|::|\+\+|--|&&|\|\||[-+*\/%&|^<>=!]=|[^\s\w]/giy;

/** The next loop is to be written out. */
export const UNROLL = "__unroll__";

const DEFINED = new Set(["__CUDA_ARCH__"]);

export function tokensOf(text: string): string[] {
  const lines: string[] = [], taken = [true];
  for (const line of text.replace(/\/\*[^]*?\*\//g, " ").split("\n")) {
    const [, word, name] = /^\s*#\s*(\w+)\s*(\w*)/.exec(line) ?? [];
    if (word === undefined) {
      if (taken.every(Boolean)) lines.push(line.replace(/\/\/.*/, ""));
    } else if (word === "ifdef") taken.push(DEFINED.has(name));
    else if (word === "else") taken.push(!taken.pop());
    else if (word === "endif") taken.pop();
    else if (word === "pragma" && name === "unroll") lines.push(UNROLL);
    else throw new NoPtx(line.trim());
  }
  const content = lines.join("\n"), tokens: string[] = [];
  for (let at = 0;;) {
    at += /^\s*/.exec(content.slice(at, at + 400))![0].length;
    if (at >= content.length) return tokens;
    if (/\s/.test(content[at])) continue;
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(content)!;
    tokens.push(token);
    at += token.length;
  }
}
