// The commit that a folder is at, and where it came from: read from .git, without a process. May import @std/path.
import { dirname, join, resolve } from "../../../deps/path.ts";
import { isThere } from "../../there.ts";

export interface GitFacts {
  readonly commit?: string;
  readonly remote?: string;
  /** The folder that .git is in. */
  readonly root: string;
}

/** Null where the folder is in no repository, or nothing can be read of it. */
export function gitFacts(folder: string): GitFacts | null {
  const root = rootOf(resolve(folder));
  if (root === null) return null;
  const git = gitFolder(root);
  const commit = commitOf(git);
  const remote = remoteOf(git);
  return commit === undefined && remote === undefined ? null : { commit, remote, root };
}

function rootOf(folder: string): string | null {
  for (let at = folder;; at = dirname(at)) {
    if (isThere(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}

/** In a worktree or a submodule .git is a file that names the folder. */
function gitFolder(root: string): string {
  const path = join(root, ".git");
  const named = /^gitdir: (.+)/.exec(text(path) ?? "")?.[1];
  return named ? resolve(root, named.trim()) : path;
}

/** Where branches are kept: a worktree shares them. */
function commonFolder(git: string): string {
  const common = text(join(git, "commondir"))?.trim();
  return common ? resolve(git, common) : git;
}

const HASH = /^[0-9a-f]{40,64}$/;

function commitOf(git: string): string | undefined {
  const head = text(join(git, "HEAD"))?.trim() ?? "";
  const branch = /^ref: (.+)$/.exec(head)?.[1];
  if (branch === undefined) return HASH.test(head) ? head : undefined;
  const common = commonFolder(git);
  const loose = text(join(git, branch))?.trim() ?? text(join(common, branch))?.trim() ?? "";
  if (HASH.test(loose)) return loose;
  const packed = (text(join(common, "packed-refs")) ?? "").split("\n")
    .find((line) => line.endsWith(` ${branch}`))?.split(" ")[0] ?? "";
  return HASH.test(packed) ? packed : undefined;
}

/** The remote "origin", or the first; without a password that stands in it. */
function remoteOf(git: string): string | undefined {
  let remote: string | undefined, section = "";
  for (const line of (text(join(commonFolder(git), "config")) ?? "").split("\n")) {
    const title = /^\s*\[(.+)\]\s*$/.exec(line)?.[1];
    if (title !== undefined) section = title;
    const url = /^\s*url\s*=\s*(\S+)/.exec(line)?.[1];
    if (url === undefined || !/^remote\s/.test(section)) continue;
    if (remote === undefined || section === 'remote "origin"') remote = url;
  }
  return remote?.replace(/^(\w+:\/\/)[^/@]*@/, "$1");
}

/** Null for what is no file; a large one is not ours to read. */
function text(path: string): string | null {
  try {
    const { isFile, size } = Deno.statSync(path);
    return isFile && size < 16e6 ? Deno.readTextFileSync(path) : null;
  } catch {
    return null;
  }
}
