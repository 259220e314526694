// Code that only a checkpoint names: it is run where the one who runs it has it, and nowhere else.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { inTemp, run, succeed, TINY } from "./program.ts";
import { sentenceNamed } from "../sentences.ts";

const exists = (path: string): boolean => {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
};

/** A model that leaves a file behind whenever it is imported. */
const netThatLeaves = (mark: string) =>
  `Deno.writeTextFileSync(${JSON.stringify(mark)}, "run");
export default ({ nn, facts, outputs }) => {
  class Net extends nn.Module {
    last = this.child("0", new nn.Linear(facts.input.shape.reduce((a, b) => a * b, 1), outputs));
    forward(x) { return this.last.forward(x); }
  }
  return new Net();
};
`;

Deno.test("eval, predict and --resume import what a checkpoint names only where the user has it, unchanged", () =>
  inTemp(async (cwd) => {
    const [own, other] = ["own", "other"].map((name) => join(cwd, name));
    Deno.mkdirSync(own);
    Deno.mkdirSync(other);
    const mark = join(cwd, "mark"), net = join(own, "net.ts");
    Deno.writeTextFileSync(net, netThatLeaves(mark));
    const train = [...TINY, "--epochs=1", "--run-name=own"];
    await succeed([...train, `--model=${net}`], { cwd: own });
    const checkpoint = join(own, "checkpoints/own_latest.pt");
    const ways = [
      ["eval", checkpoint],
      ["predict", checkpoint, "--out=p.npz"],
      [...TINY.filter((word) => !word.startsWith("--model")), "--epochs=2", `--resume=${checkpoint}`],
    ];
    const tried = async (folder: string, says: string) => {
      for (const words of ways) {
        Deno.removeSync(mark);
        const { code, stderr } = await run(words, { cwd: folder });
        assertEquals(code, 2, stderr);
        assertStringIncludes(stderr, `The checkpoint names ${net}, which ${says}, so it is not run`);
        assertStringIncludes(stderr, `say so: --model ${net}`);
        assert(!exists(mark), `${words} imported it`);
        Deno.writeTextFileSync(mark, "");
      }
    };
    await tried(other, "lies outside the folder you are in");
    await succeed(["eval", checkpoint, `--model=${net}`], { cwd: other });
    assertEquals(Deno.readTextFileSync(mark), "run");
    Deno.writeTextFileSync(mark, "");
    await succeed(["eval", checkpoint], { cwd: own }); // the folder's own file, as it was
    assertEquals(Deno.readTextFileSync(mark), "run");
    Deno.writeTextFileSync(net, netThatLeaves(mark) + "// something else\n");
    await tried(own, sentenceNamed("integration/foreign_code: run made hash"));
    await succeed(["eval", checkpoint, `--model=${net}`], { cwd: own });
  }));
