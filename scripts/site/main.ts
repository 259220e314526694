// Makes the site of the documents: `main.ts OUT` writes one folder, which a browser opens from the disk.
import { dirname, join } from "paths";
import { madeParts, withParts } from "./made.ts";
import { render } from "./markdown.ts";
import { addressOf, type Group, groups, pagePaths, read, ROOT } from "./pages.ts";
import { htmlOf, type Shown } from "./template.ts";

/** Writes the site, and returns how many pages it has. */
export async function makeSite(out: string): Promise<number> {
  const parts = await madeParts();
  const pages = pagePaths().map((path): Shown => {
    const rendered = render(path, withParts(read(path), parts));
    return { path, title: rendered.headings[0]?.title ?? path, rendered };
  });
  const titles = new Map(pages.map(({ path, title }) => [path, title]));
  const grouped = groups();
  const known = new Set(titles.keys()), others = new Set<string>();
  for (const page of pages) {
    write(out, addressOf(page.path), htmlOf(page, grouped, titles));
    page.rendered.targets.filter((path) => !known.has(path)).forEach((path) => others.add(path));
  }
  for (const path of others) write(out, addressOf(path), asItIs(join(ROOT, path)));
  write(
    out,
    "search.js",
    `globalThis.hpctrainPages = ${JSON.stringify(searched(inOrder(pages, grouped)))};\n`,
  );
  write(out, "style.css", Deno.readFileSync(new URL("style.css", import.meta.url)));
  write(out, "site.js", Deno.readFileSync(new URL("client.js", import.meta.url)));
  return pages.length;
}

/** As in the list of pages, and then what it does not list: the search shows what comes first before its equals. */
function inOrder(pages: readonly Shown[], grouped: readonly Group[]): Shown[] {
  const listed = grouped.flatMap(({ pages }) => pages);
  const place = ({ path }: Shown) => listed.indexOf(path) + 1 || listed.length + 1;
  return pages.toSorted((a, b) => place(a) - place(b));
}

/** One row a section: the address, the page's title, the section's title, and its text. */
function searched(pages: readonly Shown[]): string[][] {
  return pages.flatMap(({ path, title, rendered: { headings } }) =>
    headings.map((
      heading,
    ) => [`${addressOf(path)}#${heading.anchor}`, title, heading.title, heading.text.trim()])
  );
}

/** A folder is shown by the names in it. */
function asItIs(path: string): string | Uint8Array<ArrayBuffer> {
  if (!Deno.statSync(path).isDirectory) return Deno.readFileSync(path);
  return [...Deno.readDirSync(path)].map(({ name }) => `${name}\n`).sort().join("");
}

function write(out: string, address: string, content: string | Uint8Array<ArrayBuffer>): void {
  const path = join(out, address);
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.writeFileSync(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
}

if (import.meta.main) {
  const out = Deno.args[0] ?? join(ROOT, "dist/docs");
  console.log(`${await makeSite(out)} pages: open ${join(out, "index.html")}`);
}
