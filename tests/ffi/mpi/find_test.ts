// Which MPI library is taken, on machines made of small files: each test has its own, with its own ldconfig.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { findMpi, noMpiSentence } from "../../../ffi/mpi/find.ts";
import type { Env } from "../../../ffi/libraries/find.ts";
import { fakeElf, inTemp } from "../libraries/fake_libtorch.ts";
import { assertSentence } from "../../sentences.ts";

const OPEN_MPI = "libmpi.so.40", MPICH = "libmpi.so.12", STANDARD = "libmpi_abi.so.1";

interface Machine {
  readonly root: string;
  readonly env: Env;
  /** Puts a library into a folder and gives its path. */
  library(folder: string, name: string, bytes?: Uint8Array): string;
}

const onMachine = (body: (machine: Machine) => void, known: string[] = []) =>
  inTemp((root) => {
    const bin = join(root, "bin");
    Deno.mkdirSync(bin);
    const lines = known.map((path) => `\\t${path.split("/").at(-1)} (libc6,x86-64) => ${root}/${path}`);
    Deno.writeTextFileSync(
      join(bin, "ldconfig"),
      `#!/bin/sh\nprintf '${["cache", ...lines].join("\\n")}\\n'\n`,
      { mode: 0o755 },
    );
    body({
      root,
      env: { PATH: bin, HPCTRAIN_CACHE: join(root, "cache") },
      library(folder, name, bytes = fakeElf()) {
        Deno.mkdirSync(join(root, folder), { recursive: true });
        Deno.writeFileSync(join(root, folder, name), bytes);
        return join(root, folder, name);
      },
    });
  });

Deno.test("places come in their order: the user's, the launcher's, paths, modules, the system's, our own", () =>
  onMachine(({ root, env, library }) => {
    const wanted: [variables: Env, path: string][] = [
      [{}, library("cache/mpi/mpich-5.0.2/lib", MPICH)],
      [{}, library("usr/lib", OPEN_MPI)],
      [{ EBROOTOPENMPI: join(root, "module") }, library("module/lib64", OPEN_MPI)],
      [{ PATH: `${env.PATH}:${root}/site/bin` }, library("site/lib", OPEN_MPI)],
      [{ LD_LIBRARY_PATH: `:${root}/ld` }, library("ld", OPEN_MPI)],
      [{ OMPI_LIBDIR_LOC: `${root}/launcher/lib` }, library("launcher/lib", OPEN_MPI)],
      [{ HPCTRAIN_MPI: `${root}/mine` }, library("mine/lib", MPICH)],
    ];
    Deno.mkdirSync(`${root}/site/bin`);
    Deno.writeTextFileSync(`${root}/site/bin/mpirun`, "");
    const soFar: Env = { ...env };
    for (const [variables, path] of wanted.slice(1)) {
      Object.assign(soFar, variables);
      assertEquals(findMpi(soFar).chosen?.path, path);
    }
    const { usable } = findMpi(soFar, true);
    assertEquals(usable.map((one) => one.path), wanted.map(([, path]) => path).toReversed());
  }, ["usr/lib/libmpi.so.40"]));

Deno.test("a launcher gets a library that it can talk to, and the others are told why not", () =>
  onMachine(({ env, root, library }) => {
    const open = library("ld", OPEN_MPI), mpich = library("cache/mpi/mpich-5.0.2/lib", MPICH);
    const here = { ...env, LD_LIBRARY_PATH: `${root}/ld` };
    assertEquals(findMpi(here).chosen?.path, open, "with no launcher, the first place");
    const other = library("other", MPICH);
    assertEquals(findMpi({ ...env, LD_LIBRARY_PATH: `${root}/other:${root}/ld` }).chosen?.path, other);
    const byHydra = findMpi({ ...here, PMI_SIZE: "2", PMI_RANK: "0" });
    assertEquals(byHydra.chosen?.path, mpich);
    assertEquals(byHydra.rejected[0].dir, open);
    assert(/^it is Open MPI, and the launcher of MPICH's family/.test(byHydra.rejected[0].reason));
    assertEquals(findMpi({ ...here, OMPI_COMM_WORLD_SIZE: "2" }).chosen?.path, open);
    const step = { ...here, SLURM_STEP_ID: "0", SLURM_PROCID: "0" };
    assertEquals(findMpi({ ...step, PMIX_RANK: "0" }).chosen?.path, open);
    assertEquals(findMpi({ ...step, PMI_RANK: "0", PMI_SIZE: "2" }).chosen?.path, mpich);
  }));

Deno.test("srun's PMI-2 takes Open MPI where there is nothing else", () =>
  onMachine(({ env, root, library }) => {
    const open = library("ld", OPEN_MPI);
    const step = { SLURM_STEP_ID: "0", SLURM_PROCID: "0", PMI_RANK: "0", PMI_SIZE: "2" };
    assertEquals(findMpi({ ...env, ...step, LD_LIBRARY_PATH: `${root}/ld` }).chosen?.path, open);
  }));

Deno.test("a folder's own MPICH comes before its standard interface, and Cray's names are known", () =>
  onMachine(({ env, root, library }) => {
    library("wheel", STANDARD);
    const mpich = library("wheel", MPICH), cray = library("cray", "libmpi_gnu_123.so.12");
    const hydra = { ...env, PMI_SIZE: "2" };
    assertEquals(findMpi({ ...hydra, LD_LIBRARY_PATH: `${root}/wheel` }).chosen?.path, mpich);
    assertEquals(findMpi({ ...hydra, LD_LIBRARY_PATH: `${root}/cray` }).chosen?.path, cray);
  }));

Deno.test("what can't be loaded here is rejected with the reason", () =>
  onMachine(({ env, root, library }) => {
    const other = library("ld", OPEN_MPI, fakeElf({ machine: 21 }));
    const { chosen, rejected } = findMpi({ ...env, LD_LIBRARY_PATH: `${root}/ld` });
    assertEquals(chosen, null);
    assertEquals(rejected.map(({ dir, from }) => [dir, from]), [[other, "LD_LIBRARY_PATH"]]);
    const sentence = noMpiSentence(rejected, {
      by: "distributed.backend mpi (run.yaml:2:3)",
      undo: "give auto",
    });
    assert(/^distributed\.backend mpi \(run\.yaml:2:3\): No .*: give auto\.$/s.test(sentence), sentence);
    assertSentence("ffi/mpi/find: ld_library_path libmpi built", sentence, { other });
    assert(/module load.*hpctrain libtorch install mpich.*HPCTRAIN_MPI=/s.test(sentence), sentence);
  }));

Deno.test("what the user named and can't be used is an error, and no other takes its place", () =>
  onMachine(({ env, root, library }) => {
    library("ld", OPEN_MPI);
    const text = library("mine", "libmpi.so", new TextEncoder().encode("INPUT(libmpi.so.12)\n"));
    const refuse = (HPCTRAIN_MPI: string) =>
      assertThrows(() => findMpi({ ...env, LD_LIBRARY_PATH: `${root}/ld`, HPCTRAIN_MPI }), UserError);
    const { message, exitCode } = refuse(text);
    assertEquals(exitCode, 7);
    assertSentence("ffi/mpi/find: libmpi shared library", message, { text });
    assert(refuse(`${root}/bin`).message.includes("there is no MPI library in it"));
    assert(refuse(`${root}/gone/libmpi.so.12`).message.includes("libmpi.so.12 is missing"));
  }));
