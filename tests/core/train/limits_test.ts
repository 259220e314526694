// Runs of many ranks, which this version does not train, whoever asks for them.
import { assertEquals, assertThrows } from "@std/assert";
import { resolve } from "../../../core/config/resolve.ts";
import { UserError } from "../../../core/errors.ts";
import { refuseManyRanks } from "../../../core/train/limits.ts";
import { hydra, mpirun, sbatch, srun, torchrun, type Variables } from "../dist/environments.ts";

const check = (argv: string[], env: Variables) => refuseManyRanks(resolve({ argv, env }), env);

Deno.test("one process trains: alone, in an allocation, or as a launcher's only rank", () => {
  check([], {});
  check([], sbatch());
  check([], { RANK: "0", WORLD_SIZE: "1" });
  check(["--world-size=1"], srun(3));
});

Deno.test("many ranks are refused with who started them", () => {
  const launchers = { srun: srun(1), "Open MPI": mpirun(1), MPICH: hydra(0), environment: torchrun(0) };
  for (const [name, env] of Object.entries(launchers)) {
    const error = assertThrows(() => check([], env), UserError, name);
    assertEquals(
      error.message.match(/^\d processes were started/)?.[0],
      `${name === "srun" ? 8 : 2} processes were started`,
    );
    assertEquals(error.kind, "usage");
  }
});

Deno.test("many ranks or nodes in the settings are refused where they were asked for", () => {
  assertThrows(() => check(["--world-size=4", "--rank=0"], {}), UserError, "--world-size asks for 4 ranks");
  assertThrows(() => check(["--nodes=2"], {}), UserError, "--nodes asks for 2 nodes");
});
