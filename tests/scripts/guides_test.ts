// A guide is read in one sitting: 300 to 900 words, without the commands and what they print.
import { assert } from "@std/assert";
import { join } from "paths";
import { ROOT } from "../integration/program.ts";

const GUIDES = join(ROOT, "docs/guides"), LEAST = 300, MOST = 900;

/** Words that are read: no code, no marks for the tests. */
const wordsIn = (page: string): number =>
  page.replaceAll(/```[^]*?```|<!--[^]*?-->/g, "").split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word))
    .length;

Deno.test("a guide has 300 to 900 words, and the manual names it", () => {
  const manual = Deno.readTextFileSync(join(ROOT, "docs/manual.md"));
  const guides = [...Deno.readDirSync(GUIDES)].map(({ name }) => name).filter((name) => name.endsWith(".md"));
  assert(guides.length >= 14, guides.join(" "));
  for (const name of guides) {
    const words = wordsIn(Deno.readTextFileSync(join(GUIDES, name)));
    assert(words >= LEAST && words <= MOST, `${name} has ${words} words`);
    assert(manual.includes(`(guides/${name})`), `docs/manual.md does not name ${name}`);
  }
});
