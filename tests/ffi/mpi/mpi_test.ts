// MPI's calls by each of the three interfaces, whole and in pieces, with the real libraries.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { openMpi as open, shortVersion } from "../../../ffi/mpi/mpi.ts";
import { LibraryError } from "../../../ffi/errors.ts";
import { inTemp } from "../../integration/program.ts";
import { mpich, openMpi, runRanks, standardMpi } from "../../mpi.ts";

const numbers = (length: number, f: (i: number) => number) => Array.from({ length }, (_, i) => f(i));

for (const [abi, mpi] of [["openmpi", openMpi], ["mpich", mpich], ["standard", standardMpi]] as const) {
  // 3 elements a call: sizes beyond 2^31 go the same way.
  for (const most of [2 ** 31 - 1, 3]) {
    Deno.test(`3 ranks by ${abi}'s interface, ${most} elements a call, get the same`, () =>
      inTemp(async (folder) => {
        const file = `${folder}/gave.json`, { library } = mpi();
        const program = ["tests/ffi/mpi/mpi_program.ts", library, String(most), file];
        const { code, stdout, stderr } = await runRanks(mpi(), { ranks: 3, program });
        assertEquals(code, 0, stdout + stderr);
        const result = JSON.parse(Deno.readTextFileSync(file));
        assertEquals(result.abi, abi);
        assertMatch(result.version, abi === "openmpi" ? /^Open MPI \d+\.\d+\.\d+$/ : /^MPICH \d+\.\d+\.\d+$/);
        assertEquals(result.gave, [
          numbers(10, (i) => 3 * i + 3),
          numbers(10, (i) => 200 + i),
          numbers(30, (i) => 100 * Math.floor(i / 10) + i % 10),
          numbers(30, (i) => 6 * i),
        ]);
      }));
  }
}

Deno.test("what is no MPI library is refused with the loader's reason", () => {
  const { message } = assertThrows(() => open("/nowhere/libmpi.so.12"), LibraryError);
  assert(/^\/nowhere\/libmpi\.so\.12 can't be used as an MPI library: .*No such file/.test(message), message);
});

Deno.test("versions are told in few words", () => {
  const texts = [
    [
      "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
      "Open MPI 4.1.4",
    ],
    ["MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25\nMPICH ABI: 17:0:5\n\0", "MPICH 5.0.2"],
    ["Intel(R) MPI Library 2021.9 for Linux* OS\n", "Intel(R) MPI Library 2021.9"],
    ["MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\n", "CRAY MPICH 8.1.25.17"],
  ];
  for (const [text, short] of texts) assertEquals(shortVersion(text), short);
});
