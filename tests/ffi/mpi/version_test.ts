// They stay open: not every MPI survives being closed.
import { assertEquals, assertMatch } from "@std/assert";
import { mpiVersion } from "../../../ffi/mpi/mpi.ts";
import { mpich, openMpi } from "../../mpi.ts";

Deno.test("MPI libraries say what they are without being started", { sanitizeResources: false }, () => {
  assertMatch(mpiVersion(openMpi().library)!, /^Open MPI \d+\.\d+/);
  assertMatch(mpiVersion(mpich().library)!, /^MPICH \d+\.\d+/);
});

Deno.test("what is no MPI library says nothing", () => {
  assertEquals(["libc.so.6", "/no/such/libmpi.so"].map(mpiVersion), [null, null]);
});
