// Which files of a run's folder are uploaded.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import type { Api } from "../../../../../core/outputs/wandb/sync/api.ts";
import type { Contents } from "../../../../../core/outputs/wandb/sync/contents.ts";
import { openRunFiles } from "../../../../../core/outputs/wandb/sync/files.ts";
import { sentenceNamed } from "../../../../sentences.ts";

Deno.test("a link out of the run's folder is not uploaded, alone, in a folder or as a folder; one inside of it is", async () => {
  const root = Deno.makeTempDirSync();
  try {
    const folder = join(root, "run", "files"), outside = join(root, "secret");
    Deno.mkdirSync(join(folder, "media"), { recursive: true });
    Deno.mkdirSync(outside);
    Deno.writeTextFileSync(join(outside, "key"), "secret");
    Deno.writeTextFileSync(join(folder, "own.txt"), "own");
    Deno.symlinkSync("own.txt", join(folder, "inside.txt"));
    Deno.symlinkSync(join(outside, "key"), join(folder, "link.txt"));
    Deno.symlinkSync(outside, join(folder, "media", "far"));
    const put = new Map<string, string>(), said: string[] = [];
    const api = {
      uploadUrls: (_: unknown, paths: readonly string[]) =>
        Promise.resolve({ urls: new Map(paths.map((path) => [path, path])), headers: {} }),
      put: (url: string, _: unknown, bytes: Uint8Array) =>
        Promise.resolve(void put.set(url, new TextDecoder().decode(bytes))),
    } as unknown as Api;
    const names = ["own.txt", "inside.txt", "link.txt", "media/far/key", "gone.txt"];
    const contents = {
      files: new Map(names.map((path) => [path, { path, policy: "end" }])),
      fullConfig: () => new Map(),
      metadata: () => null,
      printed: [],
      summary: new Map(),
    } as unknown as Contents;
    const place = {} as Parameters<Api["uploadUrls"]>[0];
    await openRunFiles(api, folder, (sentence) => said.push(sentence)).upload(contents, place, true);
    put.delete("config.yaml");
    assertEquals([...put], [["own.txt", "own"], ["inside.txt", "own"]]);
    assertEquals(said, [
      sentenceNamed("core/outputs/wandb/sync/run_files: file link txt"),
      sentenceNamed("core/outputs/wandb/sync/run_files: file media far"),
      sentenceNamed("core/outputs/wandb/sync/run_files: file gone txt"),
    ]);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});
