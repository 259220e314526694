// Tokens read a window at a time: what memory has, and what is refused when it is met.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { scope } from "../../../../../ffi/tensor.ts";
import { toNumbers } from "../../../../../ffi/make.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { type Changes, open, written } from "../../streamed.ts";
import { range } from "../../tables/help.ts";

useLibtorch();

const windows = (source: Source, ids: number[]): number[][] =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(ids));
    return [[...toNumbers(input)], [...toNumbers(target)]];
  });

const changes = (data: Changes["data"] = {}, vocab_size = 0): Changes => ({
  data: { validation_split: 0.1, ...data },
  training: { loss: "auto" },
  model: { context: 8, vocab_size },
});

const filesOpen = () => [...Deno.readDirSync("/proc/self/fd")].length;

Deno.test(
  "files of every kind, several in a folder and both widths together, give the windows that memory gives",
  inFolder(async (folder) => {
    written(
      folder,
      `
def llmc(name, toks, magic=20240520, version=1, dtype=np.uint16):
    header = np.zeros(256, np.int32); header[:3] = magic, version, len(toks)
    open(name, "wb").write(header.tobytes() + np.asarray(toks, dtype).tobytes())
a = r.integers(0, 65536, 3000); b = r.integers(0, 128256, 3000)
a.astype("u2").tofile("flat16.bin"); llmc("llmc.bin", a); b.astype("u4").tofile("flat32.bin"); llmc("llama.bin", b, 20240801, 7, np.uint32)
os.mkdir("many")
for i in range(40): llmc(f"many/web_train_{i:03d}.bin", r.integers(0, 60000, 50 + i))
llmc("many/web_val_0.bin", r.integers(0, 60000, 500)); llmc("many/wide_train.bin", b, 20240801, 7, np.uint32)`,
    );
    for (const name of ["flat16.bin", "llmc.bin", "flat32.bin", "llama.bin", "many"]) {
      const path = `${folder}/${name}`;
      const held = await open(path, "yes", changes()), read = await open(path, "no", changes());
      for (const which of ["train", "val"] as const) {
        const [a, b] = [held[which]!, read[which]!];
        assert(!a.threaded && b.threaded);
        assertEquals([b.length, b.facts, b.input, b.target], [a.length, a.facts, a.input, a.target], name);
        const ids = range(0, a.length).reverse(), before = filesOpen();
        assertEquals(windows(b, ids), windows(a, ids), `${name}, ${which}`);
        assert(filesOpen() - before <= 16, `${filesOpen() - before} files are left open`);
      }
      assert(read.notes.some((note) => note.includes("one by one: --in-memory no")), read.notes.join("\n"));
    }
  }),
);

Deno.test(
  "a token beyond the vocabulary is refused before training where it has to be counted, or when a window has it",
  inFolder(async (folder) => {
    written(
      folder,
      `a = np.arange(2000) % 50; a[1234] = 777; a.astype("u2").tofile("t.bin")`,
    );
    const path = `${folder}/t.bin`;
    assertEquals((await open(path, "no", changes())).train.facts.outputs, 778);
    const { train } = await open(path, "no", changes({ val_samples: 0 }, 50));
    const error = assertThrows(() => windows(train, range(0, train.length)), UserError);
    assert(
      /^Sample \d+ \(.*t\.bin\) has the token 777 in it, outside of the vocabulary of 50 \(model\.vocab_size\)\./
        .test(error.message),
      error.message,
    );
    const skipping = await open(path, "no", changes({ val_samples: 0, bad_samples: "skip" }, 50));
    assert(windows(skipping.train, range(0, train.length)).flat().every((token) => token < 50));
    Deno.truncateSync(path, 2000);
    const shorter = assertThrows(() => windows(train, range(0, train.length)), UserError);
    assert(shorter.message.includes("became shorter while it was being read"), shorter.message);
  }),
);
