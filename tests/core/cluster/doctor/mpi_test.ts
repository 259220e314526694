import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { gatherMpi, judgeMpi, type MpiFacts } from "../../../../core/cluster/doctor/libraries.ts";
import { mpich, openMpi } from "../../../mpi.ts";
import { assertSentence } from "../../../sentences.ts";

const NONE: MpiFacts = {
  chosen: null,
  rejected: [],
  named: null,
  launcher: null,
  programs: [],
  needed: false,
};
const LIB = { path: "/opt/mpi/lib/libmpi.so.40", from: "LD_LIBRARY_PATH", version: "Open MPI 5.0.11" };

Deno.test("no MPI is good for one rank; several on CPUs are slower without it, and train", () => {
  assertEquals(judgeMpi(NONE)[0].state, "good");
  const [line] = judgeMpi({ ...NONE, needed: true });
  assertEquals(line.state, "warn");
  assertSentence("core/cluster/doctor/mpi: shared memory node", line.said);
  assertMatch(line.fix!, /module load openmpi.*libtorch install mpich/);
});

Deno.test("a library without a launcher is a warning, and srun is one", () => {
  assertEquals(judgeMpi({ ...NONE, chosen: LIB })[0].state, "warn");
  assertEquals(judgeMpi({ ...NONE, chosen: LIB, programs: ["/usr/bin/srun"] })[0].state, "good");
});

Deno.test("a library that was named and can't be used is bad where it is needed", () => {
  const named = "The MPI library given by HPCTRAIN_MPI can't be used.";
  assertEquals([true, false].map((needed) => judgeMpi({ ...NONE, named, needed })[0].state), ["bad", "warn"]);
});

for (const [name, mpi] of [["Open MPI", openMpi], ["MPICH", mpich]] as const) {
  // The library stays open: not every MPI survives being closed.
  const options = { sanitizeResources: false };
  Deno.test(
    `${name} is found with its version and its launcher, and no rank is started`,
    options,
    async () => {
      const { folder, library } = mpi();
      const env = { PATH: `${join(folder, "bin")}:/usr/bin:/bin`, HOME: "/nonexistent" };
      const facts = await gatherMpi(true, env);
      assertMatch(facts.chosen!.version!, new RegExp(`^${name} \\d`));
      assertEquals(Deno.realPathSync(facts.chosen!.path), Deno.realPathSync(library));
      assertEquals(judgeMpi(facts)[0].state, "good");
      assertMatch(judgeMpi(facts)[0].said, /ranks are started by .*\/(mpirun|mpiexec)/);
    },
  );
}
