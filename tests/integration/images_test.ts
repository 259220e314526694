// Images in class folders from outside: JPEG, PNG and WebP together, read by threads of the program, whole or packed.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Three classes of smooth colour, each in three formats and two sizes; one of them is not in the validation set. */
const PHOTOS = `
import numpy, os, sys
from PIL import Image
r = numpy.random.default_rng(0)
for half, count in [("train", 18), ("val", 6)]:
    for c, name in enumerate(["blue", "green", "red"]):
        folder = os.path.join(sys.argv[1], half, name)
        os.makedirs(folder)
        for i in range(count):
            pixels = r.integers(0, 90, (6, 8, 3), dtype=numpy.uint8)
            pixels[:, :, 2 - c] += 120
            size = (40, 30) if i % 2 else (32, 48)
            ending = ["jpg", "png", "webp"][i % 3]
            Image.fromarray(pixels).resize(size).save(os.path.join(folder, f"{i:02}.{ending}"))`;

const TRAIN = [
  ..."--model=simple-convnet --device=cpu --threads=1 --epochs=3 --batch-size=9 --log-interval=1".split(" "),
  ..."--random-crop=16 --flip=horizontal --lr=3e-3".split(" "),
];
const RESIZE = "--resize=20";

Deno.test("a folder of JPEG, PNG and WebP trains by 2 threads as by none, with and without libturbojpeg, packed or not", () =>
  inTemp(async (cwd) => {
    python(PHOTOS, join(cwd, "photos"));
    const told = async (name: string, args: string[], env: Record<string, string> = {}) => {
      await succeed([...TRAIN, `--run-name=${name}`, ...args], { cwd, env });
      return eventsOf(cwd, name).flatMap(({ kind, loss, val_loss, metrics }) =>
        kind === "step" ? [loss] : kind === "eval" ? [val_loss, metrics] : []
      );
    };
    const photos = ["--data-path=photos", RESIZE];
    const wanted = await told("none", [...photos, "--num-workers=0"]);
    assertEquals(wanted.length, 3 * (6 + 2), "steps, and what each epoch was judged with");
    const { accuracy } = wanted.at(-1) as { accuracy: number };
    assertEquals(accuracy > 0.9, true, `colours are told apart: ${accuracy}`);
    assertEquals(await told("two", [...photos, "--num-workers=2"]), wanted);
    const none = { HPCTRAIN_TURBOJPEG: "none" };
    assertEquals(await told("own", [...photos, "--num-workers=2"], none), wanted);

    await succeed(["pack", "photos", "packed", "--keep-encoded", "--samples-per-shard=20"], { cwd });
    assertEquals(await told("packed", ["--data-path=packed", RESIZE, "--num-workers=2"]), wanted);
    const index = JSON.parse(Deno.readTextFileSync(join(cwd, "packed", "index.json")));
    assertEquals(index.names, ["blue", "green", "red"]);
  }));

Deno.test("encoded shards are inspected and verified, cropped as they are read, and packed again as pixels", () =>
  inTemp(async (cwd) => {
    python(PHOTOS, join(cwd, "photos"));
    await succeed(["pack", "photos", "files", "--keep-encoded", "--samples-per-shard=20"], { cwd });
    const { stdout } = await succeed(["inspect", "files", "--verify", "--png=sheet.png"], { cwd });
    assertMatch(stdout, /classification, 3 outputs: blue, green, red/);
    assertMatch(stdout, /images of samples 0 \(blue\)/);
    assertMatch(stdout, /^verified: every checksum is right \(4 shards, .*\)$/m);
    assertEquals(Deno.statSync(join(cwd, "sheet.png")).size > 1000, true);
    const crop = ["--resize=20", "--centre-crop=16"];
    await succeed(["pack", "files", "pixels", ...crop, "--quiet"], { cwd });
    await succeed(["pack", "photos", "direct", ...crop, "--quiet"], { cwd });
    const [pixels, direct] = ["pixels", "direct"].map((folder) => [
      Deno.readFileSync(join(cwd, folder, "shard-00000.bin")).toHex(),
      JSON.parse(Deno.readTextFileSync(join(cwd, folder, "index.json"))).names,
    ]);
    assertEquals(pixels, direct);
    const shard = join(cwd, "files", "shard-00002.bin"), bytes = Deno.readFileSync(shard);
    bytes[bytes.length - 3] ^= 64; // in the table at the end: no image is touched
    Deno.writeFileSync(shard, bytes);
    const { code, stderr } = await run(["inspect", "files", "--verify"], { cwd });
    assertSentence("integration/images: hpctrain files damaged", stderr);
    assertEquals(code, 3);
    const trained = await run([...TRAIN, "--data-path=files", RESIZE], { cwd });
    assertMatch(trained.stderr, /^hpctrain: .*shard-00002\.bin.* is damaged/m);
    assertEquals(trained.code, 3);
  }));
