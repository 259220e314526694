// A run that is meant for many nodes and finds itself on fewer.
import { assertThrows } from "@std/assert";
import { resolve } from "../../../core/config/resolve.ts";
import { placeFlags, whereAmI } from "../../../core/dist/where.ts";
import { UserError } from "../../../core/errors.ts";
import { refuseLayout } from "../../../core/train/limits.ts";
import { srun, type Variables } from "../dist/environments.ts";

function check(argv: string[], env: Variables): void {
  const resolved = resolve({ argv, env });
  refuseLayout(resolved, whereAmI(env, placeFlags(resolved.config.distributed), { hostname: "gpu001" }));
}

Deno.test("a number of nodes that is asked for must be there", () => {
  check([], {});
  check(["--nodes=1"], {});
  check(["--nodes=2"], srun(1));
  assertThrows(
    () => check(["--nodes=2"], {}),
    UserError,
    "--nodes asks for 2 nodes, and this is 1 rank on 1 node.",
  );
  assertThrows(() => check(["--nodes=4"], srun(1)), UserError, "--nodes asks for 4 nodes");
});
