// A network that knows many shapes learns three new ones from few images: fine-tuning against training anew. No weights are
// fetched: the first network is trained here, on shapes that the second task does not have.
import { succeed } from "../integration/program.ts";
import { type Case, python } from "./case.ts";

/** Images of known shapes, of each new shape to learn from, and to judge with; the model, epochs and the gain in accuracy. */
const SIZES = {
  small: {
    data: ["2400", "40", "300", "20"],
    model: ["cosmo-cnn", "--width", "8"],
    epochs: [8, 12],
    gain: 0.05,
    ways: ["anew", "head"],
  },
  full: {
    data: ["6000", "200", "900", "32"],
    model: ["resnet18"],
    epochs: [6, 10],
    gain: 0.15,
    ways: ["anew", "head", "adapters", "all"],
  },
};

/** Each shape has any place, size, angle and brightness, before noise. The last three are the new ones. */
const IMAGES = `
import sys, numpy as np
known, few, judged, side = map(int, sys.argv[1:])
r = np.random.default_rng(0)
grid = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, side)]))
inside = lambda x, y, w, h: (abs(x) < w) & (abs(y) < h)
SHAPES = [
    lambda x, y: np.hypot(x, y) < 0.8,
    lambda x, y: inside(x, y, 0.75, 0.75),
    lambda x, y: inside(x, y, 0.25, 1),
    lambda x, y: inside(x, y, 0.25, 0.9) | inside(x, y, 0.9, 0.25),
    lambda x, y: abs(np.hypot(x, y) - 0.65) < 0.2,
    lambda x, y: (y > -0.6) & (y < 1 - 1.7 * abs(x)),
    lambda x, y: inside(x, y - 0.6, 0.8, 0.2) | inside(x, y + 0.6, 0.8, 0.2),
    lambda x, y: (np.hypot(x, y) < 0.9) & (x > 0),
    lambda x, y: inside(x, y, 0.8, 0.8) & ~inside(x, y, 0.45, 0.45),
    lambda x, y: inside(x + 0.5, y, 0.25, 0.8) | inside(x, y - 0.6, 0.75, 0.25),
    lambda x, y: inside(x, y - 0.6, 0.8, 0.22) | inside(x, y, 0.22, 0.8),
    lambda x, y: inside(x - 0.55, y, 0.2, 0.8) | inside(x + 0.55, y, 0.2, 0.8) | inside(x, y - 0.6, 0.7, 0.2),
]
def images(n, first, last):
    kind = r.integers(0, last - first, n)
    made = np.empty((n, 3, side, side), "f4")
    for i, k in enumerate(kind):
        (cx, cy), size, angle = r.uniform(-0.35, 0.35, 2), r.uniform(0.4, 0.65), r.uniform(0, 2 * np.pi)
        x, y = (grid[0] - cx) / size, (grid[1] - cy) / size
        c, s = np.cos(angle), np.sin(angle)
        mask = SHAPES[first + k](c * x + s * y, c * y - s * x)
        ink, paper = r.normal(size=(3, 1, 1)), r.normal(size=(3, 1, 1))
        made[i] = np.where(mask, ink, paper) + 0.4 * r.normal(size=(3, side, side))
    return {"image": made, "shape": kind}
np.savez("known.npz", **images(known, 0, 9))
np.savez("new.npz", **images(3 * few, 9, 12))
np.savez("judged.npz", **images(judged, 9, 12))
`;

const CHECK = `
import json, sys, numpy as np
accuracy = lambda name: float((lambda f: (f["prediction"].argmax(1) == f["target"].reshape(-1)).mean())(np.load(name + ".npz")))
json.dump({name: accuracy(name) for name in sys.argv[1:]}, sys.stdout)
`;

const KNOWN = ["--init-from=checkpoints/known_latest.pt", "--new-head"];
const WAYS: Readonly<Record<string, string[]>> = {
  anew: ["--lr=1e-3"],
  head: [...KNOWN, "--freeze=*", "--lr=1e-2"],
  adapters: [...KNOWN, "--lora-rank=8", "--lr=3e-3"],
  all: [...KNOWN, "--layer-decay=0.8", "--lr=1e-3"],
};
const SAID: Readonly<Record<string, string>> = {
  head: "a new head alone",
  adapters: "a new head and adapters",
  all: "all of it, deeper blocks faster",
};

export const fineTuning: Case = {
  promise: "a network that knows nine shapes learns three others from few images, better than a new one",
  async run(cwd, size) {
    const { data, model, epochs: [first, then], gain, ways } = SIZES[size];
    await python(["-c", IMAGES, ...data], cwd);
    const train = (name: string, file: string, more: readonly string[]) =>
      succeed([
        ...["--model", ...model, "--data-path", file, "--targets", "shape", "--run-name", name],
        ...["--batch-size", "32", "--scheduler", "onecycle", "--no-wandb", "--quiet", ...more],
      ], { cwd, timeout: 3600 });
    const judge = (name: string) =>
      succeed([
        "predict",
        `checkpoints/${name}_latest.pt`,
        "--data-path=judged.npz",
        "--all",
        `--out=${name}.npz`,
      ], { cwd });
    await train("known", "known.npz", ["--epochs", `${first}`, "--lr", "1e-3"]);
    for (const name of ways) {
      await train(name, "new.npz", ["--epochs", `${then}`, ...WAYS[name]]);
      await judge(name);
    }
    const found: Record<string, number> = JSON.parse(await python(["-c", CHECK, ...ways], cwd));
    const [, ...further] = ways;
    return [
      { what: "accuracy of a new network", value: found.anew, atLeast: 0.25 },
      ...further.map((name) => ({
        what: `${SAID[name]}, better by`,
        value: found[name] - found.anew,
        atLeast: gain,
      })),
    ];
  },
};
