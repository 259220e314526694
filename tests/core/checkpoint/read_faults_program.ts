// Opens a checkpoint while each of its first file calls fails, with every errno; prints what went otherwise than promised.
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { UserError } from "../../../core/base/errors.ts";
import { ERRNOS, steerFaults } from "../../native/file_faults.ts";

using faults = steerFaults(Deno.env.get("FILE_FAULTS")!);
const [folder] = Deno.args, path = `${folder}/a.pt`, wrong: string[] = [];
writePt(path, new Map([["step", 1]]));
let failed = 0;
for (const call of ["open", "read", "lseek", "stat", "close"] as const) {
  for (const errno of ERRNOS) {
    for (const number of [1, 2, 3, 4]) {
      faults.begin({ call, errno, number, path: folder });
      try {
        using checkpoint = openCheckpoint(path);
        checkpoint.verify();
      } catch (error) {
        if (!(error instanceof UserError) || error.exitCode !== 8) {
          wrong.push(`${call} ${number} ${errno}: ${error}`);
        }
      }
      failed += faults.end().failed;
    }
  }
}
console.log(JSON.stringify({ failed, wrong }));
