// Training with a list of transforms from outside: the same pictures on one rank and two, with one loader thread and three,
// and after a stop.
import { assertEquals, assertNotEquals } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { python } from "../core/checkpoint/python.ts";
import { inTemp } from "./program.ts";
import { numbers, tensors, trained, weightsApart } from "./ranks.ts";

/** Photographs of many sizes in class folders, and scenes with label images. */
const DATA = `
import os, sys, numpy as np
from PIL import Image
os.chdir(sys.argv[1])
r = np.random.default_rng(4)
for c in range(3):
    os.makedirs(f"photos/{c}")
    for i in range(10):
        h, w = r.integers(40, 70, 2)
        rough = (r.random((6, 8, 3)) * 200 + [55 * (k == c) for k in range(3)]).astype("u1")
        Image.fromarray(rough).resize((int(w), int(h))).save(f"photos/{c}/{i}.jpg")
for part in ("images", "labels"):
    os.makedirs(f"scenes/{part}")
open("t.txt", "w").write((" ".join("".join(r.choice(list("abcde"), r.integers(1, 7))) for _ in range(300)))[:1000])
for i in range(12):
    labels = np.kron(r.integers(0, 3, (5, 6)), np.ones((8, 8))).astype("u1")
    Image.fromarray(labels).save(f"scenes/labels/{i}.png")
    Image.fromarray(np.stack([labels * 80 + 20] * 3, 2).astype("u1")).save(f"scenes/images/{i}.png")
print("null")
`;

const LIST =
  "random_resized_crop(24, scale=(0.3, 1)), horizontal_flip, rand_augment, colour_jitter(0.2, 0.2, 0.2, 0.1), " +
  "random_apply([rotation(40, interpolation=bilinear), elastic(20, 3)], 0.5), gaussian_noise, random_erasing(0.5, value=random), mixup(0.3)";

const RUN = [
  ...[
    "--threads=1",
    "--no-wandb",
    "--epochs=2",
    "--scheduler=constant",
    "--lr=1e-2",
    "--validation-split=0.2",
  ],
  ...["--deterministic=world", "--set=training.virtual_shards=4", "--global-batch-size=8", "--batch-size=2"],
];
const PHOTOS = ["--data-path=photos", "--model=simple-convnet", `--augment=${LIST}`, ...RUN];
const SCENES = [
  ...[
    "--data-path=scenes",
    "--model=unet",
    "--width=4",
    "--depth=1",
    "--set=training.ignore_index=255",
    ...RUN,
  ],
  "--augment=random_crop((32, 40), padding=4), horizontal_flip, affine(30, (0.1, 0.1), (0.8, 1.2), 5), trivial_augment",
];

const TEXT = [
  ...[
    "--data-path=t.txt",
    "--in-memory=no",
    "--model=gpt",
    "--layers=1",
    "--embed=16",
    "--heads=2",
    "--context=32",
  ],
  ...["--augment=masked_language(0.3, whole_word_mask=true)", ...RUN],
];

for (
  const [what, flags] of Object.entries({
    photographs: PHOTOS,
    "scenes with label images": SCENES,
    "hidden words of a text": TEXT,
  })
) {
  Deno.test(`the same ${what} on 1 and 2 ranks, with 1 and 3 loader threads and after a stop`, () =>
    inTemp(async (cwd) => {
      python(DATA, cwd);
      const mpi = openMpi();
      await trained(cwd, "r", 1, [...flags, "--num-workers=1"], { mpi });
      await trained(cwd, "two", 2, [...flags, "--num-workers=3"], { mpi });
      assertEquals(numbers(cwd, "two"), numbers(cwd, "r"));
      assertEquals(weightsApart(tensors(cwd, "r"), tensors(cwd, "two")), 0);
      await trained(cwd, "stopped", 1, [...flags, "--num-workers=3", "--max-steps=2"], { mpi });
      await trained(
        cwd,
        "stopped",
        1,
        [...flags, "--max-steps=6", "--resume=checkpoints/stopped_latest.pt"],
        { mpi },
      );
      assertEquals(weightsApart(tensors(cwd, "r"), tensors(cwd, "stopped")), 0);
      const other = flags.map((flag) =>
        flag.replace("horizontal_flip", "vertical_flip").replace("language(0.3", "language(0.4")
      );
      await trained(cwd, "other", 1, other, { mpi });
      assertNotEquals(weightsApart(tensors(cwd, "r"), tensors(cwd, "other")), 0);
    }));
}
