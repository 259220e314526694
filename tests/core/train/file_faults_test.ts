// Saves whose file calls fail, one after the other, with what a disk, a quota or a file server may answer.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import { buildFileFaults } from "../../native/file_faults.ts";
import { COMPILER } from "../../native/double.ts";
import { inFolder } from "../checkpoint/python.ts";
import type { Told } from "./file_faults_program.ts";

Deno.test({
  name:
    "whatever file call of a save fails, and however, the run goes on, its checkpoint is whole, and the next save succeeds",
  ignore: COMPILER === null && Deno.env.get("CI") !== "true",
  fn: inFolder(async (folder) => {
    const { stdout, stderr, success } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        "--quiet",
        fromFileUrl(new URL("./file_faults_program.ts", import.meta.url)),
      ],
      env: { ...buildFileFaults(folder).env, NO_COLOR: "1" },
    }).output();
    assert(success, new TextDecoder().decode(stderr));
    const told: Record<string, Told> = JSON.parse(new TextDecoder().decode(stdout));
    for (const [format, { faults, failed, saved, wrong }] of Object.entries(told)) {
      assertEquals(wrong, [], format);
      assert(
        failed > 200 && saved > 100,
        `${format}: ${failed} saves failed, ${saved} succeeded all the same`,
      );
      for (
        const call of [
          "open",
          "read",
          "write",
          "fsync",
          "close",
          "stat",
          "rename",
          "link",
          "readdir",
        ] as const
      ) {
        assert((faults[call] ?? 0) > 30, `${format}: ${call} was made to fail ${faults[call]} times`);
      }
    }
  }),
});
