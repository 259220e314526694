// Measures how long a page takes its reader: the words to read and the commands to type, for scripts/stranger and a test.
import { type Block, blocksOf } from "../../tests/integration/docs_blocks.ts";

/** Slower than most adults read and type. */
const WORDS_A_MINUTE = 200, LETTERS_A_MINUTE = 200;

export interface Effort {
  readonly readingMinutes: number;
  readonly typingMinutes: number;
  /** Shell commands, and what makes pictures for those who have none. */
  readonly blocks: readonly Block[];
}

export function effortOf(markdown: string): Effort {
  const blocks = blocksOf(markdown).filter(({ language }) => language !== "");
  const prose = markdown.replace(/^```[^]*?^```/gm, "").replace(/\]\([^)]*\)|<[^>]*>/g, "");
  const words = prose.split(/[\s|]+/).filter((word) => /\w/.test(word)).length;
  const letters = blocks.reduce((sum, { language, text }) => sum + (language === "sh" ? text.length : 0), 0);
  return { readingMinutes: words / WORDS_A_MINUTE, typingMinutes: letters / LETTERS_A_MINUTE, blocks };
}

/** The pages on the way from nothing to a network that was trained on one's images, as far as they lead there. */
export function wayToOwnImages(read: (page: string) => string): [page: string, effort: Effort][] {
  return [
    ["README.md", effortOf(read("README.md"))],
    ["docs/guides/your-images.md", effortOf(read("docs/guides/your-images.md").split("## Make it fast")[0])],
  ];
}
