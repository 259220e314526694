// Which files of a run's best evaluations stay.
import { assertEquals } from "@std/assert";
import { nameBest } from "../../../core/checkpoint/best_files.ts";
import { inFolder } from "./python.ts";

Deno.test(
  "evaluations that stay among the best keep their checkpoints when a run goes on in another format",
  inFolder((folder) => {
    const names = ["r_best.pt", "r_best_1.pt", "r_best_2.pt", "other_best_1.pt"];
    for (const name of names) Deno.writeTextFileSync(`${folder}/${name}`, "");
    const kept = [4, 3, 2].map((epoch) => ({ epoch, step: 10 * epoch, within: false }));
    const of = { folder, run: "r", ending: "safetensors", kept, step: 40, several: true };
    nameBest(of, (to) => Deno.writeTextFileSync(to, ""));
    assertEquals(
      [...Deno.readDirSync(folder)].map(({ name }) => name).sort(),
      ["other_best_1.pt", "r_best.pt", "r_best.safetensors", "r_best_2.pt"],
    );
  }),
);
