// Each way in which a folder is not a usable libtorch, and the real ones.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { checkLibtorch, isLibtorch, libraryFolder } from "../../../ffi/libraries/find.ts";
import { type FakeElf, fakeElf, fakeTorch, inTemp } from "./fake_libtorch.ts";

function reasonFor(dir: string): string {
  const result = checkLibtorch(dir, "a test", {});
  return isLibtorch(result) ? `usable: ${result.versionText}` : result.reason;
}

function refuses(
  name: string,
  spoil: (lib: string) => void,
  reason: RegExp,
  version?: string,
  cpu?: FakeElf,
) {
  Deno.test(`refuses ${name}`, () =>
    inTemp((folder) => {
      const lib = fakeTorch(folder, version, cpu);
      assertMatch(
        reasonFor(lib),
        /^usable|too old|built for|it needs/,
        "the tree is sound before it is spoilt",
      );
      spoil(lib);
      assertMatch(reasonFor(lib), reason);
    }));
}

const nothing = () => {};
refuses(
  "a folder without libtorch_cpu.so",
  (lib) => Deno.removeSync(join(lib, "libtorch_cpu.so")),
  /no libtorch_cpu/,
);
refuses("a folder that is not there", (lib) => Deno.removeSync(lib, { recursive: true }), /no such folder/);
refuses(
  "2.7, which calls no operator by name",
  nothing,
  /too old: version 2\.7\.1 can't call an op.*2\.10/,
  "2.7.1",
);
refuses(
  "2.8, which takes no lists",
  nothing,
  /too old: version 2\.8\.0 can't be given lists.*2\.10/,
  "2.8.0",
);
refuses(
  "2.9, which takes no lists",
  nothing,
  /too old: version 2\.9\.1\+cu128 can't be given lists/,
  "2.9.1+cu128",
);
refuses(
  "a 2.10 from before lists came",
  nothing,
  /too old: version 2\.10\.0a0\+nv25\.11 can't be/,
  "2.10.0a0+nv25.11",
  {
    symbols: ["aoti_torch_call_dispatcher"],
  },
);
refuses("another architecture", nothing, /libtorch_cpu\.so is built for ppc64, this machine is/, undefined, {
  machine: 21,
});
refuses("a library that is not ELF", (lib) => {
  Deno.writeTextFileSync(join(lib, "libtorch_cpu.so"), "version https://git-lfs\n".repeat(9));
}, /libtorch_cpu\.so is not a shared library/);
refuses(
  "an empty library",
  (lib) => Deno.writeFileSync(join(lib, "libc10.so"), new Uint8Array()),
  /libc10\.so is not/,
);
refuses("a missing libc10.so", (lib) => Deno.removeSync(join(lib, "libc10.so")), /libc10\.so is missing/);
refuses("a half-unpacked library", (lib) => {
  const size = Deno.statSync(join(lib, "libtorch_cpu.so")).size;
  Deno.truncateSync(join(lib, "libtorch_cpu.so"), size - 10);
}, /cut short: \d+ bytes of \d+/);
refuses(
  "a missing dependency, by its name and the folders it was looked for in",
  nothing,
  /needs libcudart\.so\.99.*nvidia\/lib/,
  undefined,
  {
    needed: ["libc10.so", "libcudart.so.99"],
    rpath: "$ORIGIN/../../nvidia/lib:$ORIGIN",
  },
);
refuses("a dynamic section that points outside the file", (lib) => {
  const bytes = fakeElf();
  new DataView(bytes.buffer).setBigUint64(64 + 56 + 8, 1n << 40n, true);
  Deno.writeFileSync(join(lib, "libtorch_cpu.so"), bytes);
}, /cut short|damaged/);

Deno.test("takes a 2.10 from before its release that has the lists", () =>
  inTemp((folder) => {
    const symbols = ["torch_call_dispatcher", "torch_new_list_reserve_size", "torch_new_string_handle"];
    assertEquals(reasonFor(fakeTorch(folder, "2.10.0a0+nv25.12", { symbols })), "usable: 2.10.0a0+nv25.12");
  }));

Deno.test("finds a dependency through $ORIGIN in the search path and through LD_LIBRARY_PATH", () =>
  inTemp((folder) => {
    const lib = fakeTorch(folder, "2.15.0+cu132", {
      needed: ["libc10.so", "libcudart.so.99", "libcupti.so.99"],
      rpath: "$ORIGIN/../../nvidia/lib",
    });
    Deno.mkdirSync(join(folder, "nvidia/lib"), { recursive: true });
    Deno.mkdirSync(join(folder, "site"));
    Deno.writeTextFileSync(join(folder, "nvidia/lib/libcudart.so.99"), "");
    Deno.writeTextFileSync(join(folder, "site/libcupti.so.99"), "");
    assertMatch(reasonFor(lib), /needs libcupti\.so\.99, which/);
    const result = checkLibtorch(lib, "a test", { LD_LIBRARY_PATH: join(folder, "site") });
    assertEquals(isLibtorch(result) && result.version, [2, 15, 0]);
  }));

Deno.test("says CUDA only where libtorch_cuda.so finds what it needs", () =>
  inTemp((folder) => {
    const lib = fakeTorch(folder);
    const gpu = () => (checkLibtorch(lib, "a test", {}) as { gpu: string | null }).gpu;
    assertEquals(gpu(), null);
    Deno.writeFileSync(join(lib, "libtorch_cuda.so"), fakeElf({ needed: ["libcudnn.so.99"] }));
    assertEquals(gpu(), null);
    Deno.writeFileSync(join(lib, "libcudnn.so.99"), fakeElf());
    assertEquals(gpu(), "cuda");
  }));

Deno.test("tells the version from build-version, the cmake file, or the symbols where there is no version.py", () =>
  inTemp((folder) => {
    const lib = fakeTorch(folder);
    const root = join(folder, "torch");
    Deno.removeSync(join(root, "version.py"));
    assertMatch(reasonFor(lib), /version can't be told/);
    Deno.writeFileSync(join(lib, "libtorch_cpu.so"), fakeElf({ symbols: ["torch_call_dispatcher"] }));
    assertEquals(reasonFor(lib), "usable: 2.10 or newer");
    Deno.mkdirSync(join(root, "share/cmake/Torch"), { recursive: true });
    Deno.writeTextFileSync(
      join(root, "share/cmake/Torch/TorchConfigVersion.cmake"),
      `set(PACKAGE_VERSION "2.11.0")`,
    );
    assertEquals(reasonFor(lib), "usable: 2.11.0");
    Deno.writeTextFileSync(join(root, "build-version"), "2.14.0+cpu\n");
    assertEquals(reasonFor(lib), "usable: 2.14.0+cpu");
  }));

Deno.test("a pipe in place of the library, and a string table of any size, are reasons and not a wait or a crash", () =>
  inTemp(async (folder) => {
    const lib = fakeTorch(folder);
    Deno.removeSync(join(folder, "torch/version.py"));
    const elf = fakeElf();
    // The size of the strings is the first entry of the dynamic section: its value follows the tag.
    new DataView(elf.buffer).setBigUint64(64 + 2 * 56 + 8, 2n ** 50n, true);
    Deno.writeFileSync(join(lib, "libtorch_cpu.so"), elf);
    assertMatch(reasonFor(lib), /its tables point outside the file/);
    Deno.removeSync(join(lib, "libtorch_cpu.so"));
    await new Deno.Command("mkfifo", { args: [join(lib, "libtorch_cpu.so")] }).output();
    assertMatch(reasonFor(lib), /libtorch_cpu\.so is not a file/);
  }));

Deno.test("a library folder, torch package, site-packages, environment or the library itself mean the same folder", () =>
  inTemp((folder) => {
    const site = join(folder, "lib/python3.12/site-packages");
    const lib = fakeTorch(site);
    for (const path of [lib, join(site, "torch"), site, folder, join(lib, "libtorch_cpu.so")]) {
      assertEquals(libraryFolder(path), lib, path);
    }
    assertEquals(libraryFolder(join(site, "torch/share/cmake/Torch")), lib);
    assertEquals(libraryFolder(join(folder, "elsewhere")), null);
  }));

for (const name of ["HPCTRAIN_LIBTORCH", "HPCTRAIN_LIBTORCH_OLDEST"]) {
  const path = Deno.env.get(name);
  Deno.test({ name: `takes the real libtorch that ${name} names`, ignore: !path }, () => {
    const dir = libraryFolder(path!)!;
    const result = checkLibtorch(dir, name);
    if (!isLibtorch(result)) throw new Error(result.reason);
    assertStringIncludes(Deno.readTextFileSync(join(dir, "version.py")), `'${result.versionText}'`);
  });
}
