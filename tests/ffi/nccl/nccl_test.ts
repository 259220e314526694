// NCCL's calls: its real library as far as it goes without a GPU, and the double beyond.
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "paths";
import { LibraryError } from "../../../ffi/errors.ts";
import { BACKENDS } from "../../../ffi/gpu/backends.ts";
import { findNccl } from "../../../ffi/nccl/find.ts";
import { inProgress, knownAgainst, notBlocking, openNccl, versionText } from "../../../ffi/nccl/nccl.ts";
import { finish, inTemp, ROOT } from "../../integration/program.ts";
import { buildDouble, COMPILER } from "../../native/double.ts";
import { assertSentence } from "../../sentences.ts";

/** The one that the Python of the tests has beside its torch. */
function real(): string | null {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) return null;
  const lib = join(python, "../../lib");
  const name = [...Deno.readDirSync(lib)].map(({ name }) => name).find((name) => name.startsWith("python3"));
  return findNccl(join(lib, name ?? "", "site-packages/torch/lib"), { PATH: "" }, BACKENDS.cuda, null).chosen
    ?.path ??
    null;
}

const REAL = real();

Deno.test({
  name: "the real NCCL says its version, makes ids that differ, and says why it can't begin without a GPU",
  ignore: REAL === null,
  async fn() {
    // In a process of its own: it starts threads.
    const program = `
      const { openNccl, inProgress } = await import(${JSON.stringify(join(ROOT, "ffi/nccl/nccl.ts"))});
      const nccl = openNccl(${JSON.stringify(REAL)});
      const ids = [nccl.newId(), nccl.newId()];
      let { comm, code } = nccl.begin(1, ids[0], 0);
      while (inProgress(code)) code = nccl.state(comm);
      console.log(JSON.stringify({ version: nccl.version, ids: ids.map(String), code, text: nccl.text(code, comm) }));
      Deno.exit(0);`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-check", "--quiet", program],
      env: { CUDA_VISIBLE_DEVICES: "" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const { code: exit, stdout, stderr } = await finish(child, 60);
    assertEquals(exit, 0, stderr);
    const { version, ids, code, text } = JSON.parse(stdout.trim().split("\n").at(-1)!);
    assertMatch(version, /^NCCL 2\.\d+\.\d+$/);
    assertNotEquals(ids[0], ids[1]);
    assertEquals(ids[0].split(",").length, 128);
    assert(code > 0 && !inProgress(code), `${code}`);
    assertMatch(text, /^unhandled cuda error.*: .*(driver|device)/i);
  },
});

Deno.test("versions are written as people do, and what is known against one is of its machines", () => {
  assertEquals([23007, 21400, 22903].map(versionText), ["2.30.7", "2.14.0", "2.29.3"]);
  assertEquals(knownAgainst(22809, "x86_64"), null);
  assertStringIncludes(knownAgainst(22809, "aarch64")!, "2.29.3");
  assertEquals(knownAgainst(22903, "aarch64"), null);
});

Deno.test("the settings of a communicator are laid out as ncclConfig_t is", () => {
  const view = new DataView(notBlocking().buffer);
  assertEquals(Number(view.getBigUint64(0, true)), 24);
  assertEquals(view.getUint32(8, true), 0xcafebeef);
  assertEquals([view.getUint32(12, true), view.getInt32(16, true), view.getInt32(20, true)], [
    21400,
    0,
    -2147483648,
  ]);
});

Deno.test({
  name: "the id and the settings arrive as structs, and a group is begun and ended",
  ignore: COMPILER === null,
  sanitizeResources: false, // a library stays open as long as its process
  fn: () =>
    inTemp((folder) => {
      Deno.env.set("NCCL_DOUBLE_FOLDER", folder);
      const nccl = openNccl(buildDouble(folder));
      const id = nccl.newId();
      assertStringIncludes(new TextDecoder().decode(id), folder); // all of it got there, by value, below
      const { comm, code } = nccl.begin(1, id, 0);
      assert(inProgress(code) && comm !== 0n);
      assertEquals(nccl.state(comm), 0);
      assertEquals(nccl.begin(2, nccl.newId(), 5).code, 4);
      assertEquals(nccl.text(4), "invalid argument: rank 5 of 2");
      let inside = 0;
      assertEquals(nccl.group(() => inside++), 0);
      assertEquals(inside, 1);
      assertEquals(nccl.finalize(comm), 0);
      assertEquals(nccl.destroy(comm), 0);
      Deno.env.delete("NCCL_DOUBLE_FOLDER");
    }),
});

Deno.test({
  name: "an NCCL that is too old is refused, with its version",
  ignore: COMPILER === null,
  sanitizeResources: false, // a library stays open as long as its process
  fn: () =>
    inTemp((folder) => {
      const path = buildDouble(folder);
      Deno.env.set("NCCL_DOUBLE_VERSION", "21304");
      const { message } = assertThrows(() => openNccl(path), LibraryError);
      Deno.env.delete("NCCL_DOUBLE_VERSION");
      assertSentence("ffi/nccl/nccl: version oldest use", message);
    }),
});
