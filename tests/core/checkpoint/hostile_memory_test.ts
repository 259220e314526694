// Files made to eat memory: each is read or refused, and takes at most four times its own size.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { memoryStorage } from "../../../core/checkpoint/value.ts";
import { zipWriter } from "../../../core/checkpoint/zip_writer.ts";
import { inFolder } from "./python.ts";

const MIB = 1 << 20;
const SIZE = 16 * MIB;

const latin1 = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0));

/** `unit` over and over, between a beginning and an end. */
function filled(begin: string, unit: string, end: string, size = SIZE): Uint8Array {
  const count = Math.floor((size - begin.length - end.length) / unit.length);
  const bytes = new Uint8Array(begin.length + count * unit.length + end.length);
  const one = latin1(unit);
  bytes.set(latin1(begin));
  for (let i = 0, at = begin.length; i < count; i++, at += one.length) bytes.set(one, at);
  bytes.set(latin1(end), bytes.length - end.length);
  return bytes;
}

function writeZip(path: string, entries: Iterable<[string, Uint8Array]>): void {
  using file = Deno.openSync(path, { read: true, write: true, create: true });
  const zip = zipWriter(file);
  for (const [name, bytes] of entries) zip.add(name, memoryStorage(bytes));
  zip.finish();
}

const pickle = (unit: string) => (path: string) =>
  writeZip(path, [["archive/data.pkl", filled("\x80\x02]q\x00(", unit, "e.")]]);

/** A list of 64 sizes at memo 1, the function at 2, its arguments at 3: a tensor or dict for each five bytes. */
const again = (made: string) => (path: string) => {
  const begin = `\x80\x02(${"K\x01".repeat(2000)}lq\x01${made}(`;
  writeZip(path, [["archive/data.pkl", filled(begin, "h\x02h\x03R", "l.")]]);
};

function header(begin: string, unit: string, end: string) {
  return (path: string) => {
    const json = filled(begin, unit, end);
    const file = new Uint8Array(8 + json.length);
    new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
    file.set(json, 8);
    Deno.writeFileSync(path, file);
  };
}

/** The pickle of a megabyte of dicts, compressed a hundredfold. */
async function compressed(path: string): Promise<void> {
  const plain = filled("\x80\x02](", "}", "e.", 100 * MIB);
  const stream = new Blob([plain as BlobPart]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  writeZip(path, [["archive/data.pkl", packed]]);
  // The writer knows no compression: its fields are set by hand, in the local header and in the directory.
  const file = Deno.readFileSync(path);
  const view = new DataView(file.buffer);
  const directory = file.length - 22 - 46 - "archive/data.pkl".length;
  for (const [at, method] of [[0, 8], [directory, 10]]) {
    view.setUint16(at + method, 8, true);
    view.setUint32(at + method + 14, plain.length, true);
  }
  Deno.writeFileSync(path, file);
}

const FILES: Record<string, (path: string) => void | Promise<void>> = {
  "dicts.pt": pickle("}"),
  "lists.pt": pickle("]"),
  "tuples.pt": pickle(")"),
  "sets.pt": pickle("\x8f"),
  "tuples-of-one.pt": pickle("N\x85"),
  "dicts-dropped-again.pt": pickle("}0"),
  "marks.pt": pickle("("),
  "memo.pt": pickle("N\x94"),
  "no-bytes.pt": pickle("C\x00"),
  "no-text.pt": pickle("\x8c\x00"),
  "text.pt": pickle("\x8c\x04\xc3\xa9\xc4\x80"),
  "integers.pt": pickle("K\x01"),
  "floats.pt": pickle("G\x3f\xf0\x00\x00\x00\x00\x00\x01"),
  "long-integers.pt": pickle("\x8a\x08\x01\x02\x03\x04\x05\x06\x07\x08"),
  "longer-integers.pt": pickle(`\x8b\xff\x00\x00\x00${"\x07".repeat(255)}`),
  "lists-of-one.pt": pickle("]K\x01a"),
  "dicts-of-one.pt": pickle("}K\x01Ns"),
  "names.pt": pickle("ctorch\nfloat32\n"),
  "ordered-dicts.pt": pickle("ccollections\nOrderedDict\n)R"),
  "one-value-again.pt": pickle("h\x00"),
  "sets-of-a-list.pt": again("cbuiltins\nset\nq\x02h\x01\x85q\x03"),
  "devices-of-a-list.pt": again("ctorch\ndevice\nq\x02h\x01\x85q\x03"),
  "compressed.pt": compressed,
  "objects.safetensors": header('{"a":[{}', ",{}", "]}"),
  "arrays.safetensors": header('{"a":[[]', ",[]", "]}"),
  "numbers.safetensors": header('{"a":[0', ",1.5", "]}"),
  "text.safetensors": header('{"__metadata__":{"a":"', "\xc3\xa9", '"}}'),
};

Deno.test(
  "files made to eat memory take at most four times their size, and end within two seconds",
  inFolder(async (folder) => {
    const program = new URL("peak_memory.ts", import.meta.url).pathname;
    const measure = async (name: string) => {
      const path = `${folder}/${name}`;
      const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", program, path],
      }).output();
      const size = Deno.statSync(path).size;
      Deno.removeSync(path);
      const text = new TextDecoder().decode(stdout);
      assertMatch(text, /^{/, new TextDecoder().decode(stderr));
      return { size, ...JSON.parse(text) as { bytes: number; ms: number; said: string } };
    };
    // A file that is nothing but small: what reading takes by itself.
    writeZip(`${folder}/small.pt`, [["archive/data.pkl", latin1("\x80\x02].")]]);
    const small = await measure("small.pt");
    assertEquals(small.said, "read");
    for (const [name, make] of Object.entries(FILES)) {
      await make(`${folder}/${name}`);
      const { bytes, ms, said, size } = await measure(name);
      assertMatch(said, /^(read$|checkpoint: )/, name);
      const times = Math.max(0, bytes - small.bytes) / Math.max(size, SIZE);
      assert(times <= 4, `${name}: ${times.toFixed(1)} times the file`);
      assert(ms < 2000, `${name}: ${Math.round(ms)} ms`);
    }
  }),
);
