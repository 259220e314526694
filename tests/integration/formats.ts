// A good file of each format, written by Python once for all tests of a file, to be damaged. Test helper.
import { join } from "paths";
import { askPeer } from "../peer.ts";
import { filesIn, inTemp } from "./program.ts";

/** Path -> content: "images/cat/00.jpg", "rows.npz", ... */
export type Files = ReadonlyMap<string, Uint8Array>;

let made: Promise<Files> | undefined;

/** Of tests/peers/data/formats.py, with these paths or folders in them. */
export async function goodFiles(...wanted: readonly string[]): Promise<Map<string, Uint8Array>> {
  made ??= write();
  return new Map(
    [...await made].filter(([path]) => wanted.some((one) => path === one || path.startsWith(`${one}/`))),
  );
}

export function lay(files: Files, folder: string): void {
  for (const [path, content] of files) {
    Deno.mkdirSync(join(folder, path, ".."), { recursive: true });
    Deno.writeFileSync(join(folder, path), content);
  }
}

async function write(): Promise<Files> {
  const files = new Map<string, Uint8Array>();
  await inTemp(async (folder) => {
    await askPeer("data/formats.py", folder);
    for (const path of filesIn(folder)) files.set(path, Deno.readFileSync(join(folder, path)));
  });
  return files;
}
