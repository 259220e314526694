// What launchers and flags say and can't be so: refused in a sentence that names the variables.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import type { Env } from "../../../core/ranks/launchers.ts";
import { type PlaceFlags, rankContext } from "../../../core/ranks/context.ts";
import { UserError } from "../../../core/base/errors.ts";
import { mpirun, srun, torchrun } from "./environments.ts";

const wrong: [name: string, env: Env, flags: PlaceFlags, says: RegExp][] = [
  ["RANK without WORLD_SIZE", { RANK: "1" }, {}, /RANK is 1, but WORLD_SIZE is not set.*Unset RANK to train/],
  [
    "WORLD_SIZE without RANK",
    { WORLD_SIZE: "4" },
    {},
    /WORLD_SIZE is 4, but RANK is not set.*--ntasks-per-node/,
  ],
  ["PALS without a size", { PALS_RANKID: "1" }, {}, /PALS_RANKID is 1, but PALS_SIZE or PMI_SIZE is not set/],
  [
    "a rank outside its world",
    { RANK: "4", WORLD_SIZE: "4" },
    {},
    /RANK is 4 and WORLD_SIZE is 4: ranks go from 0 to 3/,
  ],
  ["no world at all", { RANK: "0", WORLD_SIZE: "0" }, {}, /WORLD_SIZE is 0: a world has one rank at least/],
  ["a rank that is no number", { RANK: "one", WORLD_SIZE: "4" }, {}, /RANK is "one": a whole number/],
  ["a rank below zero", { RANK: "-1", WORLD_SIZE: "4" }, {}, /RANK is "-1": a whole number/],
  [
    "a port that is none",
    torchrun(0, { MASTER_PORT: "70000" }),
    {},
    /MASTER_PORT is 70000: ports end at 65535/,
  ],
  [
    "a local rank outside its node",
    torchrun(0, { LOCAL_RANK: "2" }),
    {},
    /the local rank is 2, but this node has 2/,
  ],
  ["a node outside the job", srun(0, { SLURM_NODEID: "2" }), {}, /node 2, but there are 2, from 0 to 1/],
  [
    "one RANK exported for all tasks of srun",
    { ...srun(6), RANK: "0", WORLD_SIZE: "8" },
    {},
    /Two launchers disagree: RANK is 0 and WORLD_SIZE is 8, but SLURM_PROCID is 6 and SLURM_STEP_NUM_TASKS is 8\. Unset RANK and WORLD_SIZE and let srun.*#SBATCH --ntasks-per-node/,
  ],
  [
    "WORLD_SIZE of another job",
    { ...srun(6), WORLD_SIZE: "16" },
    {},
    /RANK is not set and WORLD_SIZE is 16.*Unset WORLD_SIZE and let srun/,
  ],
  [
    "a world of one under mpirun",
    { ...mpirun(1), WORLD_SIZE: "1" },
    {},
    /WORLD_SIZE is 1.*let Open MPI number/,
  ],
  [
    "a PMI library that sees one rank under srun",
    { ...srun(6), PMI_RANK: "0", PMI_SIZE: "1" },
    {},
    /PMI_RANK is 0 and PMI_SIZE is 1, but SLURM_PROCID is 6.*Use one of the two/,
  ],
  ["--rank alone", {}, { rank: 1 }, /--rank is 1, and nothing says of how many.*both to each process/],
  ["--world-size alone", {}, { world: 4 }, /--world-size is 4, and nothing says which rank this is/],
  [
    "--world-size against srun",
    srun(6),
    { world: 4 },
    /--world-size is 4, but this is rank 6 of 8.*SLURM_PROCID is 6/,
  ],
  ["--rank beyond --world-size", {}, { rank: 4, world: 4 }, /--rank is 4 and --world-size is 4/],
];
for (const [name, env, flags, says] of wrong) {
  Deno.test(`${name} is refused with the variables and what to do`, () => {
    const error = assertThrows(() => rankContext(env, flags, { hostname: "node2" }), UserError);
    assertMatch(error.message, says);
    assertMatch(error.message, /[.]$/);
    assertEquals(error.kind, "usage");
  });
}
