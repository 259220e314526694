// A resnet18 between this program and torchvision, trained in one and judged in the other: the same samples are right.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

// Images whose hue says their class, more or less; their training and judging as anyone would write it with torchvision.
// With no checkpoints to judge, it makes the images and trains.
const PEER = `
import json, os, sys, numpy, torch, torchvision
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision import transforms
at, *paths = sys.argv[1:]
torch.manual_seed(3); torch.set_num_threads(1)
if not paths:
    rng = numpy.random.default_rng(5)
    for half, count in (("train", 24), ("val", 20)):
        for c in range(4):
            os.makedirs(f"{at}/images/{half}/c{c}")
            for i in range(count):
                hue = numpy.array([[200, 90, 90], [90, 200, 90], [90, 90, 200], [160, 160, 90]][c])
                pixels = rng.normal(hue, 120, (32, 32, 3)) * 0.7 + rng.normal(0, 40, 3) + 40
                Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(f"{at}/images/{half}/c{c}/{i}.png")
see = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
def batches(half, **more):
    return torch.utils.data.DataLoader(torchvision.datasets.ImageFolder(f"{at}/images/{half}", see), batch_size=16, **more)
def judge(model):
    model.eval()
    with torch.no_grad():
        pairs = [(model(x), y) for x, y in batches("val")]
    output, y = torch.cat([o for o, _ in pairs]), torch.cat([y for _, y in pairs])
    return [(output.argmax(1) == y).sum().item(), len(y), torch.nn.functional.cross_entropy(output, y).item()]
model = torchvision.models.resnet18(num_classes=4)
if not paths:
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for _ in range(2):
        for x, y in batches("train", shuffle=True):
            optimizer.zero_grad(); torch.nn.functional.cross_entropy(model(x), y).backward(); optimizer.step()
    torch.save(model.state_dict(), f"{at}/theirs.pt")
    save_file(model.state_dict(), f"{at}/theirs.safetensors")
    wrapped = {f"module.{name}": t for name, t in model.state_dict().items()}
    torch.save({"epoch": 2, "arch": "resnet18", "state_dict": wrapped, "best_acc1": 0.5, "optimizer": optimizer.state_dict(),
        "config": {"model": "resnet18"}}, f"{at}/model_best.pth.tar")
    print(json.dumps([judge(model)]))
    sys.exit()
verdicts = []
for path in paths:
    if path.endswith(".pt"):
        checkpoint = torch.load(f"{at}/{path}", weights_only=True)
        model.load_state_dict(checkpoint["model_state_dict"], strict=True)
        torch.optim.SGD(model.parameters(), 1).load_state_dict(checkpoint["optimizer_state_dict"])
    else:
        weights = load_file(f"{at}/{path}")
        model.load_state_dict({n[6:]: t for n, t in weights.items() if n.startswith("model.")}, strict=True)
    verdicts.append(judge(model))
print(json.dumps(verdicts))
`;

type Verdict = [right: number, samples: number, loss: number];

const peer = (cwd: string, ...paths: string[]): Verdict[] => JSON.parse(python(PEER, cwd, ...paths));

const DATA = ["--model=resnet18", "--data-path=images", "--device=cpu", "--threads=1", "--num-workers=0"];

async function judged(cwd: string, path: string, flags: string[] = []): Promise<Verdict> {
  const { stdout } = await succeed(["eval", path, ...flags, "--json"], { cwd });
  const { metrics, samples, val_loss } = JSON.parse(stdout);
  return [Math.round(metrics.accuracy * samples), samples, val_loss];
}

function assertSame([right, samples, loss]: Verdict, other: Verdict): void {
  assertEquals([right, samples], [other[0], other[1]]);
  assert(right > samples / 4 && right < samples, `${right} of ${samples} would prove nothing`);
  assertAlmostEquals(loss, other[2], 1e-5);
}

Deno.test("a resnet18 gets as many samples right in torchvision as here, wherever it was trained, from .pt and safetensors", () =>
  inTemp(async (cwd) => {
    const [theirs] = peer(cwd);
    for (const name of ["theirs.pt", "theirs.safetensors"]) assertSame(await judged(cwd, name, DATA), theirs);
    // As the ImageNet script saves it.
    assertSame(await judged(cwd, "model_best.pth.tar", [...DATA, "--output-size=4"]), theirs);
    const { code, stderr } = await run(["eval", "theirs.pt", "--data-path=images"], { cwd });
    assertEquals(code, 2);
    assertSentence("integration/resnet_peer: written which model", stderr);

    const flags = [...DATA, "--batch-size=16", "--epochs=2", "--optimizer=sgd", "--lr=0.01", "--run-name=r"];
    await succeed(flags, { cwd });
    const [pt, safe] = ["checkpoints/r_latest.pt", "r.safetensors"];
    await succeed(["convert", pt, safe, "--whole"], { cwd });
    const ours = await judged(cwd, safe);
    const other = await run(["eval", safe, "--output-size=4"], { cwd });
    assertSentence("integration/resnet_peer: nothing looks leave", other.stderr);
    assertEquals(await judged(cwd, pt), ours);
    for (const verdict of peer(cwd, pt, safe)) assertSame(verdict, ours);
  }));
