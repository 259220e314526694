// --targets input: the target is the input as the model sees it.
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { numbers, open as openIn, written } from "../streamed.ts";

useLibtorch();

const WRITE = `
import pandas as pd
pd.DataFrame({"a": r.normal(3, 2, 40), "b": r.normal(-1, 5, 40), "c": r.choice(["x", "y"], 40)}).to_csv("table.csv", index=False)
pd.DataFrame({"input": r.normal(size=40), "b": r.normal(size=40)}).to_csv("named.csv", index=False)
np.savez("maps.npz", x=r.normal(size=(20, 2, 4, 4)).astype("f4"), words=r.integers(0, 9, (20, 6)))
print(json.dumps([]))
`;

Deno.test(
  "a table's and a map's target is the input, normalised as the model sees it, and needs no labels",
  inFolder(async (folder) => {
    written(folder, WRITE);
    const open = (path: string, data: Partial<Config["data"]>) =>
      openIn(`${folder}/${path}`, "yes", {
        data: { targets: ["input"], ...data },
        training: { loss: "auto" },
      });
    const { train, val, notes } = await open("table.csv", { features: ["a", "b"], normalise: "measured" });
    const { task, outputs, targetless } = train.facts;
    assertEquals([task, outputs, targetless, train.target.shape, train.names], [
      ...["regression", 2, undefined, [2], ["a", "b"]],
    ]);
    for (const source of [train, val!]) {
      const [inputs, targets] = numbers(source);
      assertEquals(targets, inputs);
      assert(inputs.every((one) => Math.abs(one) < 5), "they are normalised");
    }
    assertStringIncludes(notes.join("\n"), "--targets input");
    const maps = await open("maps.npz", { features: ["x"] });
    assertEquals([maps.train.target.shape, maps.train.facts.outputs], [[2, 4, 4], 2]);

    const refused = async (path: string, data: Partial<Config["data"]>) =>
      (await assertRejects(() => open(path, data), UserError)).message;
    assertStringIncludes(await refused("named.csv", { features: ["input"] }), "rename it");
    assertStringIncludes(
      await refused("table.csv", { features: ["a"], normalise_targets: "on" }),
      "--normalise-targets",
    );
  }),
);
