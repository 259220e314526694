// The pages of the site: the Markdown files, the address of each, and how the list groups them.
import { dirname, join, relative } from "paths";

export const ROOT = new URL("../../", import.meta.url).pathname;
export const LIST = "docs/manual.md";
const RESULTS = "bench/results";
const FOLDERS = ["docs", "docs/guides", "docs/reference", "docs/design", RESULTS];
/** Pages that stand outside of docs/. */
const OUTSIDE: Readonly<Record<string, string>> = {
  "README.md": "index.html",
  "CHANGELOG.md": "changelog.html",
  "CONTRIBUTING.md": "contributing.html",
  "examples/README.md": "examples/index.html",
};

export const read = (path: string): string => Deno.readTextFileSync(join(ROOT, path));

/** The paths of all pages in the repository. */
export function pagePaths(): string[] {
  const inside = FOLDERS.flatMap((folder) =>
    [...Deno.readDirSync(join(ROOT, folder))].map(({ name }) => `${folder}/${name}`)
  );
  return [
    ...Object.keys(OUTSIDE),
    ...inside.filter((path) => path.endsWith(".md")).sort(),
    ...extensionPages(),
  ];
}

/** Each extension has its page with it. */
export const extensionPages = (): string[] =>
  [...Deno.readDirSync(join(ROOT, "extensions"))].map(({ name }) => `extensions/${name}/README.md`).sort();

/** The address of a file of the repository in the site. A file that is no page is there as text, a picture as it is. */
export function addressOf(path: string): string {
  if (OUTSIDE[path]) return OUTSIDE[path];
  if (path.endsWith(".md")) return path.replace(/^docs\/|\/README(?=\.md$)/, "").replace(/\.md$/, ".html");
  if (/\.(png|jpg|svg|webp)$/.test(path)) return path.replace(/^docs\//, "");
  return `source/${path}.txt`;
}

/** A link of a page: the file that it names, or null where it leaves the repository. */
export function targetOf(page: string, link: string): { path: string; anchor: string } | null {
  if (/^[a-z]+:/i.test(link)) return null;
  const [file, anchor = ""] = link.split("#");
  const path = file === "" ? page : join(dirname(page), file).replace(/\/$/, "");
  return { path: path === "examples" ? "examples/README.md" : path, anchor };
}

/** The address of one file as another page's link has it. */
export function linkTo(page: string, path: string, anchor = ""): string {
  const link = relative(dirname(addressOf(page)), addressOf(path));
  return anchor ? `${link}#${anchor}` : link;
}

export interface Group {
  readonly title: string;
  readonly pages: readonly string[];
}

/** The groups of the list of pages: a heading of it, or the first cell of a row, with the pages that it links to. */
export function groups(): Group[] {
  const found: { title: string; pages: string[] }[] = [];
  for (const line of read(LIST).split("\n")) {
    const title = /^## (.*)/.exec(line)?.[1] ?? /^\| *([a-z][^|]*?) *\| *\[/.exec(line)?.[1];
    if (title) found.push({ title: title[0].toUpperCase() + title.slice(1), pages: [] });
    for (const [, link] of line.matchAll(/\]\(([^)#]+\.md)\)/g)) {
      const path = targetOf(LIST, link)!.path;
      if (!found.some(({ pages }) => pages.includes(path))) found.at(-1)!.pages.push(path);
    }
  }
  const listed = new Set(found.flatMap(({ pages }) => pages));
  const others = (folder: string) =>
    pagePaths().filter((path) => path.startsWith(`${folder}/`) && !listed.has(path));
  return [
    ...found,
    { title: "Extensions", pages: extensionPages() },
    { title: "Design", pages: others("docs/design") },
    { title: "Results of benchmarks", pages: others(RESULTS) },
  ].filter(({ pages }) => pages.length > 0);
}
