// Damaged checkpoints of both formats: each is read or refused with a sentence; none crashes, hangs or eats memory.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describeCheckpoint, openCheckpoint } from "../../../core/checkpoint/open.ts";
import { readPt, writePt } from "../../../core/checkpoint/pt.ts";
import { writeSafetensors } from "../../../core/checkpoint/safetensors_writer.ts";
import {
  dict,
  memoryStorage,
  OrderedDict,
  tensorBytes,
  TensorData,
  type Value,
} from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder } from "./python.ts";
import { sentenceNamed } from "../../sentences.ts";

/** Numbers that look random and are the same each time. */
function* dice(seed: number): Generator<number, never> {
  for (;;) {
    seed = Math.imul(seed ^ seed >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    yield (seed >>> 0) / 2 ** 32;
  }
}

function makeFile(path: string): Uint8Array {
  const names = Array.from({ length: 12 }, (_, i) => `layer${i}.weight`);
  const tensors = new OrderedDict(
    names.map((
      name,
      i,
    ) => [name, new TensorData("f32", [8, i + 1], memoryStorage(new Uint8Array(32 * (i + 1)).fill(i)))]),
  );
  if (path.endsWith(".pt")) {
    writePt(path, dict({ epoch: 3, config: dict({ lr: 0.1 }), model_state_dict: tensors }));
  } else {writeSafetensors(path, tensors as Map<string, Value> as Map<string, TensorData>, {
      metadata: { format: "pt" },
    });}
  return Deno.readFileSync(path);
}

/** Everything a user of the file would do with it. "read" where it all worked; anything but a UserError fails the test. */
function tryAll(path: string): "read" | "refused" {
  try {
    using file = openCheckpoint(path);
    describeCheckpoint(file);
    const walk = (value: Value): void => {
      if (value instanceof TensorData) tensorBytes(value);
      else if (value instanceof Map) value.forEach((item) => walk(item));
    };
    walk(file.root);
    file.verify();
    return "read";
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    assertEquals(error.kind, "checkpoint");
    assert(error.message.startsWith(path), `the message does not name the file: ${error.message}`);
    return "refused";
  }
}

for (const ending of ["pt", "safetensors"]) {
  Deno.test(
    `a .${ending} file that was cut off anywhere is refused`,
    inFolder((folder) => {
      const path = `${folder}/cut.${ending}`;
      const whole = makeFile(path);
      assertEquals(tryAll(path), "read");
      for (let part = 0; part < 40; part++) {
        Deno.writeFileSync(path, whole.subarray(0, Math.floor(whole.length * part / 40)));
        assertEquals(tryAll(path), "refused", `cut at ${part}/40`);
      }
      Deno.writeFileSync(path, whole.subarray(0, whole.length - 1));
      assertEquals(tryAll(path), "refused");
    }),
  );

  Deno.test(
    `a .${ending} file with flipped bits is read or refused, within four times its memory`,
    inFolder((folder) => {
      const path = `${folder}/flip.${ending}`;
      const whole = makeFile(path);
      const random = dice(7);
      const before = Deno.memoryUsage().external;
      const outcomes = { read: 0, refused: 0 };
      for (let i = 0; i < 600; i++) {
        const bytes = whole.slice();
        // One to three flips, a third of them in the first and a third in the last quarter, where the structure is.
        for (let flips = 1 + i % 3; flips > 0; flips--) {
          const where = i % 3 === 0
            ? random.next().value
            : i % 3 === 1
            ? random.next().value * 0.25
            : 1 - random.next().value * 0.25;
          bytes[Math.min(bytes.length - 1, Math.floor(where * bytes.length))] ^= 1 <<
            Math.floor(random.next().value * 8);
        }
        Deno.writeFileSync(path, bytes);
        outcomes[tryAll(path)]++;
      }
      assert(outcomes.refused > 100 && outcomes.read > 0, JSON.stringify(outcomes));
      assert(Deno.memoryUsage().external - before < 64 << 20);
    }),
  );
}

Deno.test(
  "no file, an empty one, a folder, a pipe, text and a foreign zip each get their own sentence",
  inFolder((folder) => {
    const refused = (name: string, sentence: string) => {
      const error = assertThrows(() => readPt(`${folder}/${name}`), UserError, sentence);
      assertEquals(error.kind, "checkpoint");
    };
    refused("none.pt", "no such file");
    refused("", "is a folder");
    Deno.writeFileSync(`${folder}/empty.pt`, new Uint8Array());
    refused("empty.pt", "is empty");
    Deno.writeTextFileSync(`${folder}/text.pt`, "<html>404 not found</html>");
    refused("text.pt", "not a PyTorch checkpoint");
    Deno.writeTextFileSync(`${folder}/zip.pt`, "PK\x05\x06" + "\0".repeat(18));
    refused("zip.pt", "not a PyTorch checkpoint");
    assert(new Deno.Command("mkfifo", { args: [`${folder}/pipe.pt`] }).outputSync().success);
    refused("pipe.pt", "not a regular file");
  }),
);

Deno.test(
  "a file that this user may not read is refused with the command that shows why",
  inFolder((folder) => {
    const path = `${folder}/secret.pt`;
    makeFile(path);
    Deno.chmodSync(path, 0);
    // The superuser may read everything, so it asks as nobody, from a copy that nobody may read.
    const core = new URL("../../../core/base/", import.meta.url);
    Deno.mkdirSync(`${folder}/core/base`, { recursive: true });
    for (const name of ["errors.ts", "terminal.ts", "suggest.ts", "file_bytes.ts"]) {
      Deno.copyFileSync(new URL(name, core), `${folder}/core/base/${name}`);
    }
    // Names of paths come from a package, which a machine without its cache would fetch.
    Deno.mkdirSync(`${folder}/deps`);
    Deno.writeTextFileSync(`${folder}/deps/path.ts`, 'export { basename, dirname } from "node:path";\n');
    const program = `${folder}/open.ts`;
    Deno.writeTextFileSync(
      program,
      `import { FileBytes } from "./core/base/file_bytes.ts";
      try { new FileBytes(${
        JSON.stringify(path)
      }) } catch (error) { console.log(error.kind, error.message) }`,
    );
    Deno.mkdirSync(`${folder}/cache`);
    Deno.chmodSync(`${folder}/cache`, 0o777);
    Deno.chmodSync(folder, 0o755);
    const deno = `${folder}/deno`; // the cache it lies in may be closed to nobody
    Deno.copyFileSync(Deno.execPath(), deno);
    const { stdout, stderr } = new Deno.Command(deno, {
      args: ["run", "-A", "--no-config", "--no-check", program],
      env: { DENO_DIR: `${folder}/cache` },
      ...(Deno.uid() === 0 ? { uid: 65534 } : {}),
    }).outputSync();
    const expected = sentenceNamed("core/checkpoint/damage: checkpoint user may", { path });
    assertEquals(new TextDecoder().decode(stdout).trim(), expected, new TextDecoder().decode(stderr));
  }),
);
