// A checkpoint whose disk, file server or ticket fails while it is read.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import { COMPILER } from "../../native/double.ts";
import { buildFileFaults } from "../../native/file_faults.ts";
import { inFolder } from "./python.ts";

Deno.test({
  name: "whatever file call fails while a checkpoint is read, and however, it is a sentence with code 8",
  ignore: COMPILER === null && Deno.env.get("CI") !== "true",
  fn: inFolder(async (folder) => {
    Deno.mkdirSync(`${folder}/checkpoints`);
    const program = fromFileUrl(new URL("./read_faults_program.ts", import.meta.url));
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--quiet", program, `${folder}/checkpoints`],
      env: buildFileFaults(folder).env,
    }).output();
    const text = new TextDecoder().decode(stdout);
    assert(text !== "", new TextDecoder().decode(stderr));
    const { failed, wrong } = JSON.parse(text);
    assertEquals(wrong, []);
    assert(failed > 1000, `${failed} calls were made to fail`);
  }),
});
