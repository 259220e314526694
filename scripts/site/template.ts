// The frame of a page: the bar with the search, the list of pages, the page, and what is on it.
import type { Rendered } from "./markdown.ts";
import { addressOf, type Group, linkTo, LIST } from "./pages.ts";

export interface Shown {
  readonly path: string;
  readonly title: string;
  readonly rendered: Rendered;
}

export function htmlOf(
  { path, title, rendered }: Shown,
  groups: readonly Group[],
  titles: Map<string, string>,
): string {
  const up = "../".repeat(addressOf(path).split("/").length - 1);
  const contents = rendered.headings.filter(({ depth }) => depth === 2);
  return `<!doctype html>
<html lang="en-GB" data-up="${up}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(path === "README.md" ? "hpctrain" : `${title} · hpctrain`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${up}style.css">
<script src="${up}site.js" defer></script>
</head>
<body>
<a class="skip" href="#page">To the page</a>
<header>
<a class="home" href="${linkTo(path, "README.md")}">hpctrain</a>
<a href="${linkTo(path, LIST)}">All documents</a>
<form role="search"><input type="search" placeholder="Search" aria-label="Search the documents" autocomplete="off">
<ol class="results" aria-label="Results" hidden></ol></form>
<button type="button" class="theme">Light / dark</button>
</header>
<div class="columns">
<nav aria-label="Pages"><details open><summary>Pages</summary>
${groups.map((group) => groupOf(group, path, titles)).join("\n")}
</details></nav>
<main id="page">
${rendered.html}
</main>
<aside aria-label="On this page">${
    contents.length < 2 ? "" : `<p>On this page</p><ul>
${contents.map(({ title, anchor }) => `<li><a href="#${anchor}">${escaped(title)}</a></li>`).join("\n")}
</ul>`
  }</aside>
</div>
</body>
</html>
`;
}

function groupOf({ title, pages }: Group, here: string, titles: Map<string, string>): string {
  const items = pages.map((path) => {
    const current = path === here ? ' aria-current="page"' : "";
    return `<li><a href="${linkTo(here, path)}"${current}>${escaped(titles.get(path) ?? path)}</a></li>`;
  });
  return `<p>${escaped(title)}</p>\n<ul>\n${items.join("\n")}\n</ul>`;
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
