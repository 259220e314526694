// The order of places, the refusal of a named one that can't be used, and the sentences.

import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { chooseLibtorch, findLibtorch, noLibtorchSentence } from "../../../ffi/libraries/find.ts";
import { fakeTorch, inTemp } from "./fake_libtorch.ts";

Deno.test("looks at the places in order, each usable one named by its place", () =>
  inTemp((folder) => {
    const at = (name: string) => fakeTorch(join(folder, name));
    const exeDir = join(folder, "beside");
    const env = {
      HOME: folder,
      XDG_CONFIG_HOME: join(folder, "config"),
      HPCTRAIN_CACHE: join(folder, "cache"),
      HPCTRAIN_LIBTORCH: at("variable"),
      VIRTUAL_ENV: join(folder, "venv"),
      CONDA_PREFIX: join(folder, "conda"),
      LD_LIBRARY_PATH: `/nowhere:${at("loader")}`,
      EBROOTPYTORCH: at("module"),
      PATH: `${fakePython(folder, at("python"))}:${Deno.env.get("PATH")}`,
    };
    chooseLibtorch(at("remembered"), env);
    at("beside");
    at("venv/lib/python3.11/site-packages");
    at("conda/lib/python3.11/site-packages");
    for (const version of ["2.9.0", "2.15.0", "2.100.0"]) {
      Deno.mkdirSync(join(folder, `cache/libtorch/${version}-cpu`), { recursive: true });
      Deno.renameSync(fakeTorch(join(folder, "x")), join(folder, `cache/libtorch/${version}-cpu/lib`));
      Deno.copyFileSync(
        join(folder, "x/torch/version.py"),
        join(folder, `cache/libtorch/${version}-cpu/version.py`),
      );
    }
    const found = findLibtorch({ explicit: at("explicit"), env, exeDir, all: true });
    assertEquals(found.usable.map((u) => u.from), [
      "--libtorch",
      "HPCTRAIN_LIBTORCH",
      "hpctrain libtorch use",
      "beside the executable",
      "VIRTUAL_ENV",
      "CONDA_PREFIX",
      "LD_LIBRARY_PATH",
      "EBROOTPYTORCH",
      "python3's torch",
      ...Array(3).fill("hpctrain libtorch install"),
    ]);
    assertMatch(found.usable[9].dir, /2\.100\.0-cpu/, "the newest installed comes first");
    assertEquals(found.chosen?.from, "--libtorch");
    assertEquals(findLibtorch({ env, exeDir }).usable.map((u) => u.from), ["HPCTRAIN_LIBTORCH"]);
  }));

/** A python3 that answers as importlib would; the real one has no torch to find on most machines. */
function fakePython(folder: string, lib: string): string {
  const bin = join(folder, "bin");
  Deno.mkdirSync(bin);
  Deno.writeTextFileSync(join(bin, "python3"), `#!/bin/sh\necho ${join(lib, "../__init__.py")}\n`, {
    mode: 0o755,
  });
  return bin;
}

const peer = Deno.env.get("HPCTRAIN_PYTHON");
const ownPeer = Deno.build.arch === "x86_64"; // its packages are pinned for x86-64
Deno.test(
  { name: "finds a real Python's torch without importing it", ignore: !peer || !ownPeer },
  () =>
    inTemp((folder) => {
      Deno.mkdirSync(join(folder, "bin"));
      Deno.writeTextFileSync(join(folder, "bin/python3"), `#!/bin/sh\nexec ${peer} "$@"\n`, { mode: 0o755 });
      const started = performance.now();
      const { chosen } = findLibtorch({
        env: { HOME: folder, PATH: `${folder}/bin:/usr/bin:/bin` },
        exeDir: folder,
      });
      assertEquals(chosen?.from, "python3's torch");
      assertMatch(chosen!.dir, /torch\/lib$/);
      if (performance.now() - started > 4000) throw new Error("it took over four seconds");
    }),
);

Deno.test("a folder called torch where the user stands is not taken for PyTorch", () =>
  inTemp((folder) => {
    Deno.mkdirSync(join(folder, "torch"));
    Deno.writeTextFileSync(join(folder, "torch/__init__.py"), "");
    const before = Deno.cwd();
    Deno.chdir(folder);
    try {
      const found = findLibtorch({ env: { HOME: folder, PATH: "/usr/bin:/bin" }, exeDir: folder, all: true });
      assertEquals([...found.usable, ...found.rejected].filter((f) => f.dir.startsWith(folder)), []);
    } finally {
      Deno.chdir(before);
    }
  }));

for (const given of ["--libtorch", "HPCTRAIN_LIBTORCH"]) {
  Deno.test(`an unusable ${given} is refused although another libtorch is there`, () =>
    inTemp((folder) => {
      fakeTorch(join(folder, "venv/lib/python3.11/site-packages"));
      const bad = fakeTorch(join(folder, "old"), "2.9.1");
      const env: Record<string, string> = { HOME: folder, VIRTUAL_ENV: join(folder, "venv") };
      if (given === "HPCTRAIN_LIBTORCH") env[given] = bad;
      const options = { env, exeDir: folder, explicit: given === "--libtorch" ? bad : undefined };
      const error = assertThrows(() => findLibtorch(options), UserError);
      assertEquals(error.exitCode, 7);
      assertStringIncludes(error.message, given);
      assertMatch(error.message, /too old: version 2\.9\.1/);
      const listed = findLibtorch({ ...options, all: true });
      assertEquals([listed.chosen, listed.usable.length, listed.rejected.length], [null, 1, 1]);
    }));
}

Deno.test("an unusable one that was not named is passed over, and the sentence says why", () =>
  inTemp((folder) => {
    Deno.mkdirSync(join(folder, "venv"));
    const env = {
      HOME: folder,
      VIRTUAL_ENV: join(folder, "venv"),
      LD_LIBRARY_PATH: fakeTorch(folder, "2.4.0"),
    };
    const { chosen, rejected } = findLibtorch({ env, exeDir: join(folder, "bin") });
    assertEquals(chosen, null);
    const sentence = noLibtorchSentence(rejected);
    assertStringIncludes(
      sentence,
      `${join(folder, "venv")} (VIRTUAL_ENV): there is no libtorch_cpu.so in it`,
    );
    assertStringIncludes(sentence, "(LD_LIBRARY_PATH): it is too old: version 2.4.0");
    assertStringIncludes(sentence, "hpctrain libtorch install");
  }));

Deno.test("`use` refuses a folder without libtorch and remembers nothing", () =>
  inTemp((folder) => {
    const env = { HOME: folder };
    assertThrows(() => chooseLibtorch(folder, env), UserError, "there is no libtorch_cpu.so in it");
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

// The superuser may read everything, so there the finder runs without that power.
const asRoot = Deno.uid() === 0;
Deno.test("a folder that may not be read is rejected as such", () =>
  inTemp(async (folder) => {
    const lib = fakeTorch(folder);
    Deno.chmodSync(join(lib, ".."), 0o000);
    const find = new URL("../../../ffi/libraries/find.ts", import.meta.url);
    const code = `import { findLibtorch } from "${find}"; findLibtorch({ explicit: "${folder}", env: {} });`;
    Deno.writeTextFileSync(join(folder, "try.ts"), code);
    const run = [Deno.execPath(), "run", "-A", "--no-check", "-c", "deno.json", join(folder, "try.ts")];
    const drop = asRoot ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] : [];
    const [program, ...args] = [...drop, ...run];
    const { stderr } = await new Deno.Command(program, { args }).output();
    Deno.chmodSync(join(lib, ".."), 0o755);
    assertStringIncludes(new TextDecoder().decode(stderr), "it can't be read: permission denied");
  }));

Deno.test("whatever stands where the choice is remembered, the search goes on", () =>
  inTemp(async (folder) => {
    const lib = fakeTorch(folder);
    const env = { XDG_CONFIG_HOME: folder, HPCTRAIN_CACHE: folder, LIBTORCH: lib };
    const choice = join(folder, "hpctrain/libtorch");
    Deno.mkdirSync(join(folder, "hpctrain"));
    const chosen = () => findLibtorch({ env, exeDir: folder }).chosen?.dir;
    Deno.writeFileSync(choice, crypto.getRandomValues(new Uint8Array(5000)));
    assertEquals(chosen(), lib);
    Deno.removeSync(choice);
    await new Deno.Command("mkfifo", { args: [choice] }).output();
    assertEquals(chosen(), lib);
    Deno.removeSync(choice);
    Deno.mkdirSync(choice);
    assertEquals(chosen(), lib);
  }));
