// A run that is meant for many nodes and finds itself on fewer.
import { assertEquals, assertThrows } from "@std/assert";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { placeFlags, rankContext } from "../../../../core/ranks/context.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { refuseLayout } from "../../../../core/train/checks.ts";
import { unitsTaken } from "../../../../core/train/setup/launch.ts";
import { fromArgv, withFile } from "../../settings/helpers.ts";
import { srun, type Variables } from "../../ranks/environments.ts";
import { assertRefusal, sentenceNamed } from "../../../sentences.ts";

function check(argv: string[], env: Variables): void {
  const resolved = resolveSettings({ argv, env });
  refuseLayout(resolved, rankContext(env, placeFlags(resolved.config.distributed), { hostname: "gpu001" }));
}

Deno.test("a number of nodes that is asked for must be there", () => {
  check([], {});
  check(["--nodes=1"], {});
  check(["--nodes=2"], srun(1));
  assertRefusal(
    "usage",
    "core/train/setup/limits: nodes asks nodes",
    assertThrows(() => check(["--nodes=2"], {}), UserError),
  );
  assertThrows(() => check(["--nodes=4"], srun(1)), UserError, "--nodes asks for 4 nodes");
});

Deno.test("a duration without a unit is told as what it is taken for, and one with a unit is not", () => {
  assertEquals(unitsTaken(fromArgv("--save-interval=50ep", "--warmup=0", "--timeout=20min")), []);
  assertEquals(unitsTaken(fromArgv("--preset=debug")), []);
  withFile("training:\n  save_interval: 50\n", (path) => {
    assertEquals(unitsTaken(fromArgv("--config", path)), [
      sentenceNamed("core/train/setup/limits: training save_interval unit", { path }),
    ]);
    assertEquals(unitsTaken(fromArgv("--config", path, "--save-interval", "2ep")), []);
  });
  assertEquals(unitsTaken(fromArgv("--timeout", "1")), [
    sentenceNamed("core/train/setup/limits: distributed timeout timeout"),
  ]);
});
