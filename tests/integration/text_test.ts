// Text from outside: packed, trained with, judged by perplexity, and written on from, with PyTorch's own tokens.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { madeTokenizer } from "../core/data/text/made_tokenizer.ts";
import { openTokenizer } from "../../core/data/text/open.ts";
import { python } from "../core/checkpoint/python.ts";
import { inProcess } from "../commands/helpers.ts";
import { useLibtorch } from "../libtorch.ts";
import { eventsOf, inTemp, ROOT, run, succeed } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

useLibtorch();

const WORDS = "it was a bright cold day in april and the clocks were striking thirteen".split(" ");
/** Sentences that repeat themselves, so that little training shows. */
const document = (i: number) =>
  Array.from({ length: 60 }, (_, k) => WORDS[(i + k * (1 + i % 3)) % WORDS.length]).join(" ") + `. ${i}\n`;

const RUN = [
  "--device=cpu",
  "--threads=1",
  "--model=gpt",
  "--layers=2",
  "--heads=2",
  "--embed=32",
  "--batch-size=16",
];
const TRAIN = [...RUN, "--lr=1e-2", "--max-steps=60", "--context=24"];

/** Greedy tokens, without a cache; a full context goes on after its later half. */
const GREEDY = `
import json, sys, torch
sys.path.insert(0, sys.argv[1] + "examples/python")
import zoo_models
path, prompts, most = sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
state = torch.load(path, weights_only=True)
vocabulary, embed = state["transformer.wte.weight"].shape
context = state["transformer.wpe.weight"].shape[0]
model = zoo_models.gpt(vocabulary=vocabulary, context=context, layers=2, heads=2, embed=embed)
model.load_state_dict(state)
model.eval()
answers = []
for tokens in prompts:
    begin, out = 0, list(tokens)
    with torch.no_grad():
        for _ in range(most):
            if len(out) - begin > context:
                begin = len(out) - context // 2
            out.append(int(model(torch.tensor([out[begin:]]))[0, -1].argmax()))
    answers.append(out[len(tokens):])
print(json.dumps(answers))`;

Deno.test("a packed corpus trains, is judged in bits per byte, and is written on from as PyTorch would", () =>
  inTemp(async (cwd) => {
    Deno.mkdirSync(join(cwd, "corpus"));
    for (let i = 0; i < 40; i++) Deno.writeTextFileSync(join(cwd, `corpus/${i}.txt`), document(i));
    const files = Array.from({ length: 40 }, (_, i) => `corpus/${i}.txt`);
    Deno.writeTextFileSync(join(cwd, "own.json"), madeTokenizer(WORDS).json);
    Deno.writeTextFileSync(join(cwd, "other.json"), madeTokenizer(WORDS.slice(1)).json);
    const packed = await succeed(["pack", ...files, "tokens", "--tokenizer=own.json"], { cwd });
    assertMatch(
      packed.stdout,
      /^Packed 40 documents \(\S+ KiB\) into tokens: \S+ tokens to train with, \S+ to validate/m,
    );
    const about = JSON.parse(Deno.readTextFileSync(join(cwd, "tokens/tokens.json")));

    await succeed([...TRAIN, "--data-path=tokens", "--run-name=a"], { cwd });
    const judged = eventsOf(cwd, "a").findLast(({ kind }) => kind === "eval") as unknown as {
      val_loss: number;
      metrics: Record<string, number>;
    };
    const { val_loss, metrics: { perplexity, bits_per_byte } } = judged;
    assert(Math.abs(perplexity - Math.exp(val_loss)) < 1e-6 * perplexity);
    const bits = val_loss / Math.LN2 * about.val.tokens / about.val.bytes;
    assert(Math.abs(bits_per_byte - bits) < 1e-9, `${bits_per_byte} ${bits}`);
    assert(val_loss < 3.5, `${val_loss}`); // of 5.8: it has learned something

    const greedy = ["--device=cpu", "--threads=1", "--temperature=0", "--max-tokens=50", "--json"];
    const told = await succeed(
      ["generate", "checkpoints/a_latest.pt", ...greedy, "--prompt=the clocks were"],
      { cwd },
    );
    const { texts: [{ text, tokens, stopped }], prompt_tokens } = JSON.parse(told.stdout);
    assertEquals([tokens.length, stopped], [50, "length"]);
    assertMatch(text, /[a-z]+ [a-z]+/);
    await succeed(["export", "checkpoints/a_latest.pt", "a.pt"], { cwd });
    const tokenizer = JSON.parse(Deno.readTextFileSync(join(cwd, "tokens/tokenizer.json")));
    assertEquals(tokenizer, JSON.parse(madeTokenizer(WORDS).json));
    const prompt = [...openTokenizer(join(cwd, "tokens")).encode("the clocks were")];
    assertEquals(prompt.length, prompt_tokens);
    const [theirs] = JSON.parse(python(GREEDY, ROOT, join(cwd, "a.pt"), JSON.stringify([prompt]), "50"));
    assertEquals(tokens, theirs);

    // A seed draws the same texts again, alone and together, and each text is another.
    const drawn = [
      "generate",
      "checkpoints/a_latest.pt",
      "--device=cpu",
      "--json",
      "--prompt=it was",
      "--top-p=0.9",
    ];
    const [three, other, one] = await Promise.all(
      [["--count=3"], ["--count=3", "--seed=2"], ["--count=1"]].map(async (more) =>
        JSON.parse((await succeed([...drawn, "--max-tokens=20", ...more], { cwd })).stdout).texts
      ),
    );
    assertEquals(three[0], one[0]);
    assert(new Set([...three, ...other].map(({ text }: { text: string }) => text)).size === 6);

    const refused: [string[], string][] = [
      [["--prompt", "the clocks ".repeat(30)], "the model's context is 24: shorten the prompt"],
      [["--prompt=a", "--prompt-file=b"], "leave one of them out"],
      [["--prompt-file=none.txt"], "none.txt is not there"],
      [["--prompt=a", "--temperature=hot"], sentenceNamed("integration/text: temperature takes number")],
      [["--prompt=a", "--tokenizer=none.json"], "none.json: there is no such file"],
    ];
    for (const [more, says] of refused) {
      const { said } = await inProcess(["generate", "checkpoints/a_latest.pt", ...more], { cwd });
      assertStringIncludes(said, says);
    }
    Deno.removeSync(join(cwd, "tokens"), { recursive: true });
    await succeed(["pack", ...files, "tokens", "--tokenizer=other.json"], { cwd });
    const again = await run(["generate", "checkpoints/a_latest.pt", "--prompt=a"], { cwd });
    assertEquals(again.code, 2);
    assertSentence("integration/text: trained tokens another", again.stderr);
  }));

Deno.test("a text is read as its bytes and written on from; other models can't write", () =>
  inTemp(async (cwd) => {
    const text = Array.from({ length: 40 }, (_, i) => document(i)).join("");
    Deno.writeTextFileSync(join(cwd, "story.txt"), text);
    const { stdout } = await succeed([...TRAIN, "--data-path=story.txt", "--run-name=b"], { cwd });
    assertStringIncludes(stdout, "Tokens are the bytes of a text");
    const eval_ = await succeed(["eval", "checkpoints/b_best.pt", "--device=cpu"], { cwd });
    assertMatch(eval_.stdout, /Val Perplexity: \d+\.\d+ \| Val Bits per byte: \d\.\d+/);
    Deno.writeTextFileSync(join(cwd, "prompt.txt"), "it was");
    const written = await succeed([
      "generate",
      "checkpoints/b_best.pt",
      "--device=cpu",
      "--prompt-file=prompt.txt",
      "--max-tokens=40",
    ], {
      cwd,
    });
    assertMatch(written.stdout, /^it was[^]+\n$/);
    assertMatch(written.stderr, /^40 tokens in \S+ s \(\S+ tokens\/s\)\.$/m);

    await succeed([
      "--device=cpu",
      "--model=mlp",
      "--max-steps=2",
      "--run-name=c",
      "--batch-size=8",
      "--train-samples=32",
      "--val-samples=8",
    ], { cwd });
    const { code, stderr } = await run(["generate", "checkpoints/c_latest.pt", "--prompt=a"], { cwd });
    assertEquals(code, 2);
    assertSentence("integration/text: generate language models", stderr);
    Deno.writeFileSync(join(cwd, "latin1.txt"), new Uint8Array([0x61, 0xe9, 0x62]));
    const latin1 = await run(["generate", "checkpoints/b_best.pt", "--prompt-file=latin1.txt"], { cwd });
    assertStringIncludes(latin1.stderr, "latin1.txt is not UTF-8 (byte 1, counted from 0)");
  }));

/** Exports gpt with weights that were trained here, for windows of any length or of one. */
const EXPORT = `
import sys, torch
sys.path.insert(0, sys.argv[1] + "examples/python")
import zoo_models
state = torch.load(sys.argv[2], weights_only=True)
vocabulary, embed = state["transformer.wte.weight"].shape
context = state["transformer.wpe.weight"].shape[0]
model = zoo_models.gpt(vocabulary=vocabulary, context=context, layers=2, heads=2, embed=embed)
model.load_state_dict(state)
rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns", max=context)
tokens = torch.zeros(2, context, dtype=torch.long)
for name, shapes in ("any", {0: rows, 1: columns}), ("whole", {0: rows}), ("fixed", {}):
    torch.export.save(torch.export.export(model.eval(), (tokens,), dynamic_shapes=(shapes,)), f"{sys.argv[3]}/{name}.pt2")
print("done")`;

/** A model of the user's own: the next letter by the last three. */
const THREE = `
import type { Library } from "./hpctrain.d.ts";
export default function ({ nn, ops, block, model, facts }: Library) {
  const width = 24, root = new nn.Group();
  const letters = root.add("letters", new nn.Embedding(facts.outputs, width));
  const mix = root.add("mix", new nn.Conv1d(width, 64, 3, { padding: 2 })), head = root.add("head", new nn.Linear(64, facts.outputs));
  return model("three", root, [block("three", root, (x) => {
    const mixed = mix.forward(ops.transpose(letters.forward(x), 1, 2));
    return head.forward(ops.relu(ops.transpose(ops.narrow(mixed, 2, 0, x.shape[1]), 1, 2)));
  })], { layers: "three letters" });
}
`;

Deno.test("exported programs and models of one's own write on, too, with the tokens of the same gpt", () =>
  inTemp(async (cwd) => {
    const text = Array.from({ length: 40 }, (_, i) => document(i)).join("");
    Deno.writeTextFileSync(join(cwd, "story.txt"), text);
    await succeed([...TRAIN, "--data-path=story.txt", "--run-name=gpt"], { cwd });
    await succeed(["export", "checkpoints/gpt_latest.pt", "gpt.pt"], { cwd });
    python(EXPORT, ROOT, join(cwd, "gpt.pt"), cwd);
    const greedy = [
      "--device=cpu",
      "--threads=1",
      "--temperature=0",
      "--max-tokens=40",
      "--json",
      "--prompt=the clocks",
    ];
    const tokensOf = async (name: string, more: string[] = []) => {
      const { stdout } = await succeed(["generate", `checkpoints/${name}_latest.pt`, ...greedy, ...more], {
        cwd,
      });
      return JSON.parse(stdout).texts.map(({ tokens }: { tokens: number[] }) => tokens);
    };
    const [wanted] = await tokensOf("gpt");
    const data = ["--device=cpu", "--threads=1", "--data-path=story.txt", "--context=24", "--no-wandb"];
    for (const name of ["any", "whole", "fixed"]) {
      const still = [
        "--max-steps=1",
        "--lr=0",
        "--weight-decay=0",
        `--batch-size=${name === "fixed" ? 2 : 8}`,
      ];
      await succeed([
        ...data,
        ...still,
        `--model=${name}.pt2`,
        "--train-samples=32",
        "--val-samples=4",
        `--run-name=${name}`,
      ], {
        cwd,
      });
      assertEquals(await tokensOf(name, ["--count=3"]), [wanted, wanted, wanted], name);
    }
    Deno.writeTextFileSync(join(cwd, "three.ts"), THREE);
    await succeed([
      ...data,
      "--model=three.ts",
      "--lr=1e-2",
      "--max-steps=120",
      "--batch-size=32",
      "--run-name=three",
    ], { cwd });
    const [three] = await tokensOf("three");
    const words = new TextDecoder().decode(Uint8Array.from(three)).split(/\W+/).slice(1, -1);
    assert(words.length > 3 && words.every((word) => WORDS.includes(word)), words.join(" "));
  }));
