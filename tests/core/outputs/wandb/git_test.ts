// The commit of a folder, read from .git.
import { assertEquals } from "@std/assert";
import { dirname, join } from "paths";
import { gitFacts } from "../../../../core/outputs/wandb/setup.ts";
import { inTemp } from "../../../integration/program.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

function write(folder: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    Deno.mkdirSync(dirname(join(folder, name)), { recursive: true });
    Deno.writeTextFileSync(join(folder, name), text);
  }
}

const CONFIG = `[core]
	bare = false
[remote "other"]
	url = https://example.org/other.git
[remote "origin"]
	url = https://me:password@example.org/mine.git
`;

Deno.test("a branch, a packed branch and a lone commit are found, from any folder below", () =>
  inTemp((root) => {
    write(root, {
      ".git/HEAD": "ref: refs/heads/main\n",
      ".git/refs/heads/main": `${COMMIT}\n`,
      "a/b/c": "",
    });
    assertEquals(gitFacts(join(root, "a/b"))?.commit, COMMIT);
    Deno.removeSync(join(root, ".git/refs/heads/main"));
    write(root, { ".git/packed-refs": `# pack-refs\n${COMMIT} refs/heads/main\n` });
    assertEquals(gitFacts(root)?.commit, COMMIT);
    write(root, { ".git/HEAD": `${COMMIT}\n` });
    assertEquals(gitFacts(root), { commit: COMMIT, remote: undefined, root });
  }));

Deno.test("the remote is origin, without the password in it", () =>
  inTemp((root) => {
    write(root, { ".git/HEAD": COMMIT, ".git/config": CONFIG });
    assertEquals(gitFacts(root)?.remote, "https://example.org/mine.git");
  }));

Deno.test("a worktree has its own commit and shares the rest", () =>
  inTemp((root) => {
    write(root, {
      "main/.git/config": CONFIG,
      "main/.git/refs/heads/side": COMMIT,
      "main/.git/worktrees/w/HEAD": "ref: refs/heads/side",
      "main/.git/worktrees/w/commondir": "../..",
      "w/.git": `gitdir: ${root}/main/.git/worktrees/w`,
    });
    assertEquals(gitFacts(join(root, "w")), {
      commit: COMMIT,
      remote: "https://example.org/mine.git",
      root: join(root, "w"),
    });
  }));

Deno.test("no repository, an empty one and a damaged one are no error", () =>
  inTemp((root) => {
    assertEquals(gitFacts(root), null);
    write(root, { ".git/HEAD": "ref: refs/heads/none" });
    assertEquals(gitFacts(root), null);
    write(root, { ".git/HEAD": "no commit" });
    assertEquals(gitFacts(root), null);
  }));

for (
  const [url, told] of [
    ["https://user:p@ss@example.org/mine.git", "https://example.org/mine.git"],
    ["https://example.org/mine.git?private_token=abc#x", "https://example.org/mine.git"],
    ['"https://user:p/ss@example.org/mine.git"', "https://example.org/mine.git"],
    ["TOKEN@example.org:group/mine.git", "example.org:group/mine.git"],
    ["git@example.org:group/mine.git", "git@example.org:group/mine.git"],
    ["oauth2:TOKEN@example.org:mine.git", "example.org:mine.git"],
    ["/data/user@site/mine.git", "/data/user@site/mine.git"],
    ["../mine@here", "../mine@here"],
  ]
) {
  Deno.test(`the remote ${url} is told as ${told}`, () =>
    inTemp((root) => {
      write(root, { ".git/HEAD": COMMIT, ".git/config": `[remote "origin"]\n\turl = ${url}\n` });
      assertEquals(gitFacts(root)?.remote, told);
    }));
}
