// Takes the fenced blocks out of a Markdown page, and the hpctrain commands out of a block.

export interface Block {
  language: string;
  text: string;
  /** The line of the opening fence, from 1. */
  line: number;
  /** What the HTML comment right before the fence says: "runs", "printed", "file: run.yaml", or nothing. */
  mark: string;
}

export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const fence = /^```(\w*)\s*$/.exec(lines[i]);
    if (!fence) continue;
    const end = lines.indexOf("```", i + 1);
    if (end < 0) throw new Error(`the block that opens in line ${i + 1} is never closed`);
    // The formatter puts an empty line between the comment and the fence.
    const before = lines.slice(0, i).findLast((line) => line !== "") ?? "";
    const mark = /^<!--\s*(.*?)\s*-->$/.exec(before)?.[1] ?? "";
    blocks.push({ language: fence[1], text: lines.slice(i + 1, end).join("\n") + "\n", line: i + 1, mark });
    i = end;
  }
  return blocks;
}

export interface DocCommand {
  /** Leading NAME=value words. */
  env: Record<string, string>;
  argv: string[];
}

/** The lines of a shell block that call hpctrain, as words; comments, quotes and continued lines are understood. */
export function commandsOf(shell: string): DocCommand[] {
  const commands: DocCommand[] = [];
  for (const line of shell.replaceAll("\\\n", " ").split("\n")) {
    const words = wordsOf(line);
    const env: Record<string, string> = {};
    for (let pair; (pair = /^([A-Z_][A-Z0-9_]*)=(.*)$/.exec(words[0] ?? "")); words.shift()) {
      env[pair[1]] = pair[2];
    }
    if (/^(\.\/|\.\/scripts\/|dist\/)?hpctrain$/.test(words[0] ?? "")) {
      commands.push({ env, argv: words.slice(1) });
    }
  }
  return commands;
}

function wordsOf(line: string): string[] {
  const words = line.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
  const comment = words.findIndex((word) => word.startsWith("#"));
  return (comment < 0 ? words : words.slice(0, comment)).map((word) => word.replace(/["']/g, ""));
}
