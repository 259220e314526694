// A page of Markdown as HTML, with its headings, and the text that is searched.
import { Marked, type Token, type Tokens } from "../../deps/marked.ts";
import { uniqueAnchors } from "./anchors.ts";
import { linkTo, targetOf } from "./pages.ts";

export interface Heading {
  readonly depth: number;
  readonly title: string;
  readonly anchor: string;
  /** The text below it, without marks. */
  text: string;
}

export interface Rendered {
  readonly html: string;
  readonly headings: readonly Heading[];
  /** The files that it links to or shows. */
  readonly targets: readonly string[];
}

export function render(page: string, markdown: string): Rendered {
  const marked = new Marked(), anchor = uniqueAnchors();
  const headings: Heading[] = [], targets = new Set<string>();
  const moved = (link: string): string => {
    const target = targetOf(page, link);
    if (!target) return link;
    targets.add(target.path);
    return linkTo(page, target.path, target.anchor);
  };
  const tokens = marked.lexer(markdown);
  marked.walkTokens(tokens, (token: Token) => {
    if (token.type === "link" || token.type === "image") token.href = moved(token.href);
    if (token.type === "html") {
      token.text = token.text.replace(
        /\b(src|srcset|href)="([^"]*)"/g,
        (_: string, name: string, link: string) => `${name}="${moved(link)}"`,
      );
    }
  });
  for (const token of tokens) {
    if (token.type === "heading") {
      const title = plain(token.tokens ?? []);
      headings.push({ depth: token.depth, title, anchor: anchor(title), text: "" });
    } else if (headings.length > 0) {
      headings.at(-1)!.text += ` ${textOf(token)}`;
    }
  }
  const left = [...headings];
  marked.use({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const { anchor } = left.shift()!;
        const inside = this.parser.parseInline(tokens);
        return `<h${depth} id="${anchor}">${inside} <a class="here" href="#${anchor}" aria-label="Link to this section">#</a></h${depth}>\n`;
      },
      code: ({ text, lang }: Tokens.Code) => `<pre><code>${highlighted(text, lang ?? "")}\n</code></pre>\n`,
      html: ({ text }: Tokens.HTML | Tokens.Tag) => /^\s*<!--/.test(text) ? "" : text,
    },
  });
  const html = marked.parser(tokens)
    .replaceAll("<table>", `<div class="table" tabindex="0" role="region" aria-label="Table"><table>`)
    .replaceAll("</table>", "</table></div>")
    .replaceAll("<pre>", `<pre tabindex="0">`)
    // A row of a setting is linked by the setting's path.
    .replaceAll(
      /<tr>\n<td><code>([a-z]+(?:\.[a-z][a-z0-9_]*)+)<\/code>/g,
      `<tr id="$1">\n<td><code>$1</code>`,
    );
  return { html, headings, targets: [...targets] };
}

const KEYWORDS: Readonly<Record<string, string>> = {
  ts:
    "import|from|export|default|const|let|function|return|class|extends|new|async|await|for|of|if|else|type|interface|this",
  python: "import|from|as|def|return|class|for|in|if|else|with|lambda|not|and|or|None|True|False|self",
  sh: "for|do|done|if|then|fi|in|export",
};
const COMMENTS: Readonly<Record<string, string>> = {
  ts: "\\/\\/.*",
  python: "#.*",
  sh: "(?<=^|\\s)#.*",
  yaml: "(?<=^|\\s)#.*",
};

/** Comments, texts, flags and keywords have colours; other languages stay as they are. */
function highlighted(text: string, language: string): string {
  const comment = COMMENTS[language];
  if (!comment) return escaped(text);
  const words = KEYWORDS[language] ? `|(?<word>\\b(?:${KEYWORDS[language]})\\b)` : "";
  const quoted = "\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`";
  const parts = new RegExp(
    `(?<comment>${comment})|(?<text>${quoted})|(?<flag>(?<=\\s)--[a-z][\\w-]*)${words}`,
    "gm",
  );
  let out = "", at = 0;
  for (const found of text.matchAll(parts)) {
    const [kind] = Object.entries(found.groups!).find(([, part]) => part !== undefined)!;
    out += `${escaped(text.slice(at, found.index))}<span class="${kind}">${escaped(found[0])}</span>`;
    at = found.index + found[0].length;
  }
  return out + escaped(text.slice(at));
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** The words of inline tokens, as a reader sees them. */
function plain(tokens: readonly Token[]): string {
  return tokens.map((token) => {
    if ("tokens" in token && token.tokens) return plain(token.tokens);
    return unescaped("text" in token ? token.text : token.raw);
  }).join("");
}

function unescaped(text: string): string {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'").replaceAll("&amp;", "&");
}

const textOf = (token: Token): string =>
  token.raw.replace(/<!--[^]*?-->/g, "").replace(/\]\([^)]*\)/g, "").replace(/[`*|[\]#]|-{3,}/g, " ")
    .replace(/\s+/g, " ").trim();
