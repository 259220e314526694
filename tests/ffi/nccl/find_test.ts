// Which NCCL is taken, and what is said when there is none.
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { BACKENDS } from "../../../ffi/gpu/backends.ts";
import { findNccl as find, noNcclSentence } from "../../../ffi/nccl/find.ts";
import { inTemp } from "../../integration/program.ts";
import { assertSentence } from "../../sentences.ts";

/** Any library of this machine's will do: nothing is loaded. */
const LIBRARY = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"]
  .find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  })!;

function put(path: string, from = LIBRARY): string {
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.copyFileSync(from, path);
  return path;
}

/** In a process that has none yet: other tests may have loaded one. */
const findNccl = (torch: string, env: Record<string, string>, loaded: string | null = null) =>
  find(torch, env, BACKENDS.cuda, loaded);

/** A machine whose loader knows nothing. */
function bare(folder: string): Record<string, string> {
  Deno.writeTextFileSync(`${folder}/ldconfig`, "#!/bin/sh\necho nothing\n", { mode: 0o755 });
  return { PATH: folder };
}

Deno.test("NCCL is found where PyTorch's wheels put it, and before what LD_LIBRARY_PATH names", () =>
  inTemp((folder) => {
    const torch = `${folder}/site-packages/torch/lib`;
    const path = put(`${folder}/site-packages/nvidia/nccl/lib/libnccl.so.2`);
    put(`${folder}/other/libnccl.so.2`);
    const env = { ...bare(folder), LD_LIBRARY_PATH: `${folder}/other` };
    assertEquals(findNccl(torch, env).chosen, { path, from: "beside libtorch" });
    Deno.removeSync(path);
    assertEquals(findNccl(torch, env).chosen?.from, "LD_LIBRARY_PATH");
  }));

Deno.test("the NCCL that libtorch has loaded comes before any other, but for the user's own", () =>
  inTemp((folder) => {
    const mine = put(`${folder}/mine/libnccl.so.2`);
    put(`${folder}/torch/libnccl.so.2`);
    const loaded = "/opt/torch/libnccl.so.2";
    assertEquals(findNccl(`${folder}/torch`, bare(folder), loaded).chosen?.path, loaded);
    const env = { ...bare(folder), HPCTRAIN_NCCL: mine };
    assertEquals(findNccl(`${folder}/torch`, env, loaded).chosen?.path, mine);
  }));

Deno.test("NCCL is found in conda's lib, and by a site's module", () =>
  inTemp((folder) => {
    const torch = `${folder}/conda/lib/python3.12/site-packages/torch/lib`;
    put(`${folder}/conda/lib/libnccl.so.2`);
    put(`${folder}/module/lib64/libnccl.so.2`);
    assertEquals(findNccl(torch, bare(folder)).chosen?.from, "beside libtorch");
    Deno.removeSync(`${folder}/conda`, { recursive: true });
    assertEquals(
      findNccl(torch, { ...bare(folder), EBROOTNCCL: `${folder}/module` }).chosen?.from,
      "EBROOTNCCL",
    );
  }));

Deno.test("HPCTRAIN_NCCL decides, as a file or a folder, and a wrong one is refused", () =>
  inTemp((folder) => {
    const path = put(`${folder}/mine/lib/libnccl.so.2`);
    put(`${folder}/torch/libnccl.so.2`);
    for (const HPCTRAIN_NCCL of [path, `${folder}/mine`]) {
      const { chosen } = findNccl(`${folder}/torch`, { ...bare(folder), HPCTRAIN_NCCL });
      assertEquals(chosen, { path, from: "HPCTRAIN_NCCL" });
    }
    const wrong = () => findNccl(`${folder}/torch`, { ...bare(folder), HPCTRAIN_NCCL: `${folder}/nowhere` });
    const { message } = assertThrows(wrong, UserError);
    assertSentence("ffi/nccl/find: nccl library given", message);
    assertStringIncludes(message, "libnccl.so.2 is missing");
  }));

Deno.test("a damaged library is passed over, and named when there is no other", () =>
  inTemp((folder) => {
    Deno.mkdirSync(`${folder}/torch`);
    Deno.writeTextFileSync(`${folder}/torch/libnccl.so.2`, "not a library");
    const { chosen, rejected } = findNccl(`${folder}/torch`, bare(folder));
    assertEquals(chosen, null);
    const sentence = noNcclSentence(rejected);
    assertSentence("ffi/nccl/find: torch libnccl beside", sentence, { folder });
    assertStringIncludes(sentence, "HPCTRAIN_NCCL=/path/to/libnccl.so.2");
    assertSentence("ffi/nccl/find: nccl ranks gpus", noNcclSentence([]));
  }));
