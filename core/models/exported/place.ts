// Where in the user's Python a node was made. May import graph (types).
import type { Node } from "./graph.ts";

const FRAME = /File "([^"]*)", line (\d+), in (\S+)\n\s*(.*)/g;

/** 'model.py, line 12: x = torch.cond(...)': the innermost line that is not PyTorch's own; "" where nothing is known. */
export function placeOf(node: Pick<Node, "trace" | "module">): string {
  const frames = [...node.trace.matchAll(FRAME)].map(([, file, line, , code]) => ({ file, line, code }));
  // Neither PyTorch's own files nor code that it made up.
  const own = frames.filter(({ file }) => !/^<|[/\\](torch|torchvision)[/\\]/.test(file)).at(-1) ??
    frames.at(-1);
  if (own) return `${own.file.split(/[/\\]/).at(-1)}, line ${own.line}: ${own.code.trim()}`;
  return node.module === "" ? "" : `in ${node.module}`;
}
