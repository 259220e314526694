// Groups of parameters with settings of their own: what a pattern fits, what a group may set, and torch.optim beside it.
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { setThreads } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { optimizersThat } from "../../../core/train/optimizers.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { inFolder, python } from "../checkpoint/python.ts";
import { open } from "./rig.ts";
import { contents, started, trained } from "./started.ts";

open();
setThreads(1);

const GPT =
  "--model gpt --layers 2 --embed 16 --heads 2 --context 12 --dropout 0 --train-samples 40 --val-samples 8 " +
  "--batch-size 8 --scheduler constant --epochs 2 --lr 1e-2 --weight-decay 0.1";
const CNN =
  "--data-type synthetic --model cosmo-cnn --width 4 --set model.image_size=16 --train-samples 70 " +
  "--val-samples 20 --batch-size 8 --scheduler constant --epochs 2 --lr 1e-2";

/** Words between spaces, and a group's text as one. */
const flags = (text: string, ...groups: string[]) => [
  ...text.split(" ").filter(Boolean),
  ...groups.flatMap((group) => ["--param-group", group]),
];

/** Names by what the run's groups have of their own. */
const groupsOf = ({ trained: { grouping }, arena }: Trainer) =>
  (grouping?.groups ?? []).map((group, g) => ({
    ...group,
    names: arena.names.filter((_, i) => grouping!.of[i] === g),
  }));

Deno.test(
  "a gpt's and a vit's biases and norms don't decay, unless all shall, and a run's log counts them",
  inFolder(async (folder) => {
    await started(folder, flags(GPT), (run) => {
      const [decaying, rest] = groupsOf(run);
      assert(
        rest.names.every((name) => /bias$|ln_/.test(name)) && rest.names.length === 2 * 8 + 2,
        rest.names.join(),
      );
      assertEquals([decaying.optimizer, rest.optimizer], [{}, { weight_decay: 0 }]);
      const [line] = run.notes.filter((note) => note.startsWith("Weight decay: "));
      assert(
        /^Weight decay: 0\.1 for [\d,]+ numbers in 10 tensors, 0 for 448 numbers in 18 tensors /.test(line),
        line,
      );
      assertEquals(
        run.arena.names.slice(0, 18),
        rest.names,
        "a group lies in one piece, the small one first",
      );
    });
    for (const more of ["--no-decay none", "--weight-decay 0", "--optimizer muon", "--optimizer rprop"]) {
      await started(folder, flags(`${GPT} ${more}`), (run) => assertEquals(run.trained.grouping, null, more));
    }
    await started(folder, flags(CNN), (run) => assertEquals(run.trained.grouping, null));
    const vit =
      "--data-type synthetic --model vit --set model.image_size=16 --patch-size 8 --embed 16 --heads 2 " +
      "--train-samples 16 --val-samples 8 --batch-size 8 --epochs 1";
    await started(folder, flags(vit), (run) => {
      const rest = groupsOf(run).find(({ optimizer }) => optimizer.weight_decay === 0)!;
      assert(
        rest.names.includes("encoder.ln.weight") && !rest.names.includes("class_token"),
        rest.names.join(),
      );
    });
  }),
);

Deno.test(
  "patterns are names, kinds of layers, dimensions and blocks, and settings are the optimizer's",
  inFolder(async (folder) => {
    const cases: [string, RegExp, number][] = [
      ["norms: weight_decay=0", /ln_/, 10],
      ["biases: weight_decay=0", /bias$/, 13],
      ["embeddings: weight_decay=0", /w[tp]e/, 2],
      ["head: weight_decay=0", /wte/, 1],
      ["ndim>1: weight_decay=0", /weight$/, 10],
      ["blocks[1-2]: weight_decay=0", /\.h\./, 24],
      ["blocks[3], *.mlp: weight_decay=0", /wte|ln_f|mlp/, 11],
      ["transformer.h.[01].attn: weight_decay=0", /attn/, 8],
    ];
    for (const [group, names, count] of cases) {
      await started(folder, flags(`${GPT} --no-decay none`, group), (run) => {
        const [own] = groupsOf(run).filter(({ optimizer }) => optimizer.weight_decay === 0);
        assertEquals(own.names.filter((name) => names.test(name)).length, count, `${group}: ${own.names}`);
        assertEquals(own.names.length, count, group);
      });
    }
    const all = "*.attn: lr=1e-3, betas=(0.8, 0.95), eps=1e-6, clip_norm=2";
    await started(folder, flags(`${GPT} --no-decay none --layer-decay 0.5`, all), (run) => {
      const [own] = groupsOf(run).filter(({ names }) => names.some((name) => name.includes("h.1.attn")));
      const { factor, optimizer, clipNorm } = own;
      assertEquals(
        [factor, clipNorm],
        [0.05, 2],
        "a tenth of the rate, and half of that a block below the head",
      );
      assertEquals(optimizer, { beta1: 0.8, beta2: 0.95, eps: 1e-6 });
    });
  }),
);

Deno.test(
  "groups are repeated flags, one text with semicolons, and a list in YAML",
  inFolder((folder) => {
    const wanted = ["norms: weight_decay=0", "fc: lr=1e-4, eps=1e-6"];
    const read = (argv: string[]) => resolveSettings({ argv, env: {} }).config.training.param_groups;
    assertEquals(read(flags("", ...wanted)), wanted);
    assertEquals(read(["--param-group", wanted.join("; ")]), wanted);
    const file = `${folder}/run.yaml`;
    Deno.writeTextFileSync(file, `training:\n  param_groups:\n    - ${wanted[0]}\n    - "${wanted[1]}"\n`);
    assertEquals(read(["--config", file]), wanted);
  }),
);

Deno.test(
  "what a group can't be is a sentence",
  inFolder(async (folder) => {
    const cases: [string, string[], RegExp][] = [
      ["", ["nroms: weight_decay=0"], /--param-group nroms fits no parameter\. Did you mean "norms"\?/],
      ["", ["blocks[2-9]: lr=1"], /this model has the blocks 0 to 3, embedding to head\.$/],
      [
        "--freeze transformer.h.0",
        ["blocks[1]: lr=1"],
        /lr=1' fits frozen parameters alone: leave it out, or let them learn/,
      ],
      ["", ["ndim>7: lr=1"], /--param-group ndim>7 fits no parameter of this model/],
      ["", ["norms"], /takes PATTERN: SETTING=VALUE, such as .*, but got "norms"\.$/],
      ["", ["norms:"], /takes PATTERN: SETTING=VALUE/],
      [
        "",
        ["norms: weight_deacy=0"],
        /sets weight_deacy, which is no setting of a group\. Did you mean "weight_decay"\?/,
      ],
      [
        "",
        ["norms: momentum=0.5"],
        /--optimizer adamw does not read it \(sgd, shampoo, rmsprop do\)\. With adamw a group has lr, /,
      ],
      ["", ["norms: lr=0"], /what should not be trained is frozen with --freeze\.$/],
      [
        "",
        ["norms: beta1=1.5"],
        /training\.optimizer\.beta1 must be a number from 0 and below 1, but got 1\.5/,
      ],
      ["", ["norms: betas=0.9"], /takes two numbers, such as betas=\(0\.9, 0\.95\)/],
      ["--lr 0", ["norms: lr=1e-3"], /needs a --lr above 0/],
      [
        "",
        ["norms: weight_decay=0", "*.ln_f: weight_decay=0.1"],
        /give transformer\.ln_f\.weight another weight_decay each, 0 and 0\.1/,
      ],
      ["--no-decay biases", ["*.attn: weight_decay=0.2"], /--no-decay biases .* another weight_decay each/],
      ["--lr-for *.attn=1e-3", ["*.attn: lr=1e-4"], /another lr each, 0\.0001 and 0\.001/],
      [
        "--optimizer lamb",
        ["norms: weight_decay=0"],
        /--optimizer lamb takes all weights together: --param-group and --no-decay/,
      ],
      ["--optimizer muon --no-decay norms", [], /--optimizer muon takes all weights together/],
      ["--optimizer rprop --no-decay norms", [], /has no weight decay, so leave it out\.$/],
      ["--no-decay biasses", [], /--no-decay biasses fits no parameter\. Did you mean "biases"\?/],
      ["", ["norms: amsgrad=true"], /settings that decide what an optimizer keeps/],
      ["--unfreeze *.attn:2", [], /does not go together with no --freeze/],
      ["--freeze *.mlp --unfreeze *.mlp", [], /--unfreeze takes PATTERN: EPOCH/],
      ["--freeze *.mlp --unfreeze *.attn:2", [], /--unfreeze \*\.attn fits no parameter/],
    ];
    for (const [more, groups, sentence] of cases) {
      const error = await assertRejects(
        () => started(folder, flags(`${GPT} ${more}`, ...groups), () => {}),
        UserError,
        undefined,
        `${more} ${groups}`,
      );
      assert(sentence.test(error.message), `${more} ${groups}: ${error.message}`);
    }
  }),
);

/** torch.optim goes on from the file, with the groups that a script writes, and has the run's own next weights. */
const GO_ON = `
import sys, torch
sys.path.insert(0, sys.argv[1])
import zoo_models
torch.set_num_threads(1)
early, late = (torch.load(path, weights_only=True) for path in sys.argv[2:4])
model = zoo_models.gpt(256, 12, 2, 2, 16)
model.load_state_dict(early["model_state_dict"])
named = list(model.named_parameters())
norms = [p for n, p in named if p.dim() < 2]
attention = [p for n, p in named if ".attn." in n and p.dim() >= 2]
rest = [p for n, p in named if p.dim() >= 2 and ".attn." not in n]
optimizer = torch.optim.AdamW([{"params": rest}, {"params": norms}, {"params": attention}], lr=1.0, fused=True)
saved = early["optimizer_state_dict"]
assert [p for g in saved["param_groups"] for p in g["params"]] == list(range(len(named)))
optimizer.load_state_dict(saved)
found = [(g["lr"], tuple(g["betas"]), g["weight_decay"], g["eps"]) for g in optimizer.param_groups]
assert found == [(1e-2, (0.9, 0.999), 0.1, 1e-8), (1e-2, (0.9, 0.999), 0.0, 1e-8), (1e-3, (0.8, 0.95), 0.1, 1e-6)], found
grads = torch.load(sys.argv[4], weights_only=True)
for n, p in named:
    p.grad = grads[n].reshape(p.shape)
optimizer.step()
for n, p in named:
    assert torch.equal(p, late["model_state_dict"][n]), n
print("equal")
`;

Deno.test(
  "torch.optim goes on from a checkpoint with each group's own options, and takes the run's next step to the last bit",
  inFolder(async (folder) => {
    const way = flags(
      `${GPT} --max-steps 4 --no-compile --set model.vocab_size=256`,
      "*.attn.*.weight: lr=1e-3, betas=(0.8, 0.95), eps=1e-6",
    );
    const early = await trained(`${folder}/early`, way.with(way.indexOf("4"), "3"));
    const zoo = new URL("../../../examples/python", import.meta.url).pathname;
    const late = await started(`${folder}/late`, way, async (run) => {
      const { step } = run.optimizer, kept: Record<string, number[]> = {};
      const optimizer = run.optimizer as { step: typeof step };
      optimizer.step = (...given) => {
        run.arena.gradients.forEach((g, i) => kept[run.arena.names[i]] = [...toNumbers(g)]);
        step(...given);
      };
      await trainLoop(run);
      python(
        "import sys, json, torch; torch.save({n: torch.tensor(g, dtype=torch.float32) for n, g in json.load(open(sys.argv[1])).items()}, sys.argv[2])",
        ...await (async () => {
          await Deno.writeTextFile(`${folder}/grads.json`, JSON.stringify(kept));
          return [`${folder}/grads.json`, `${folder}/grads.pt`];
        })(),
      );
      return latestPath(run.paths);
    }, early.path);
    assertEquals(python(GO_ON, zoo, early.path, late, `${folder}/grads.pt`).trim(), "equal");
  }),
);

const GROUPS = ["norms: weight_decay=0", "*.attn.*.weight: lr=3e-3, betas=(0.8, 0.95)"];

for (
  const [title, more] of [
    ["eager", "--no-compile"],
    ["clipped and accumulated", "--grad-accum 2 --clip-norm 0.5"],
    ["compiled", "--compile=fast"],
    ["checkpointed", "--gradient-checkpointing"],
  ]
) {
  Deno.test({
    name: `groups, ${title}: a run that is stopped and goes on has the bits of one that was not`,
    ignore: title === "compiled" && machineIsa() === null,
    fn: inFolder(async (folder) => {
      const run = (name: string, most: number, from?: string) =>
        trained(`${folder}/${name}`, flags(`${GPT} ${more} --max-steps ${most}`, ...GROUPS), from);
      const whole = await run("whole", 5),
        half = await run("half", 2),
        rest = await run("rest", 5, half.path);
      const state = (path: string) => [...contents(path)].filter(([place]) => /_state_dict/.test(place));
      assertEquals(state(rest.path), state(whole.path));
    }),
  });
}

const weightsOf = (path: string) =>
  [...contents(path)].filter(([place]) => place.startsWith("/model_state_dict"));

Deno.test(
  "a checkpoint of an older version goes on with decay of all, and --no-decay none is what it had",
  inFolder(async (folder) => {
    const { config } = resolveSettings({ argv: flags(GPT), env: {} });
    const { no_decay: _, ...training } = config.training;
    const older = resolveSettings({ argv: [], env: {}, checkpoint: { ...config, training } });
    assertEquals(older.config.training.no_decay, ["none"]);
    const newer = resolveSettings({ argv: [], env: {}, checkpoint: config });
    assertEquals(newer.config.training.no_decay, []);
    const [all, own] = [
      await trained(`${folder}/a`, flags(`${GPT} --no-decay none --max-steps 3`)),
      await trained(`${folder}/b`, flags(`${GPT} --max-steps 3`)),
    ];
    assert(JSON.stringify(weightsOf(all.path)) !== JSON.stringify(weightsOf(own.path)));
  }),
);

Deno.test({
  name: "a compiled update has a piece for each group, and takes the steps of the ordinary one",
  ignore: machineIsa() === null,
  fn: inFolder(async (folder) => {
    for (const optimizer of optimizersThat(({ compiled }) => compiled !== null)) {
      const own = optimizer === "sgd" ? "*.attn: lr=3e-3, momentum=0.5" : GROUPS[1];
      const ends: number[][] = [];
      for (const way of ["--no-compile", "--compile=fast"]) {
        await started(
          `${folder}/${optimizer}`,
          flags(`${GPT} --optimizer ${optimizer} ${way} --max-steps 6`, own, GROUPS[0]),
          async (run) => {
            assertEquals(run.compiling, [], "nothing of the update runs op by op");
            await trainLoop(run);
            ends.push(run.model.root.namedParameters().flatMap(([, t]) => [...toNumbers(t)]));
          },
        );
      }
      const far = Math.max(...ends[0].map((value, i) => Math.abs(value - ends[1][i])));
      assert(far > 0 && far < 2e-3, `${optimizer}: ${far}`);
    }
  }),
});

Deno.test(
  "stages of frozen layers begin with epochs of their own",
  inFolder(async (folder) => {
    const way = `${CNN} --epochs 3 --freeze features --unfreeze features.[23]*:1,features.1:2 --clip-norm 1`;
    await started(folder, flags(way), async (run) => {
      assertStringIncludes(run.notes.join("\n"), "Frozen for good, for 1 epoch, for 2 epochs: ");
      assert(!run.arena.names.some((name) => name.startsWith("features.0")));
      const begins = new Map(
        groupsOf(run).flatMap(({ begins, names }) => names.map((name) => [name, begins])),
      );
      const first = new Map(
        run.model.root.namedParameters().map(([name, t]) => [name, [...toNumbers(t)].join()]),
      );
      const moved = () =>
        run.model.root.namedParameters().filter(([name, t]) => [...toNumbers(t)].join() !== first.get(name))
          .map(([name]) => name);
      const lines: string[] = [];
      Object.assign(run, { console: { ...run.console, line: (text: string) => void lines.push(text) } });
      const seen: string[][] = [];
      const thaw = run.thaw!;
      (run as { thaw: typeof thaw }).thaw = (epoch) => {
        seen.push(moved());
        return thaw(epoch);
      };
      await trainLoop(run);
      const until = (epoch: number) =>
        [...begins].filter(([, begin]) => begin < epoch).map(([name]) => name).sort();
      assertEquals(seen.map((names) => names.sort()), [[], until(1), until(2)]);
      assertEquals(moved().sort(), until(3));
      const thawed = lines.filter((line) => line.includes("--freeze"));
      assertEquals(thawed.map((line) => /^More of what .*\(--unfreeze\)\.$/.test(line)), [true, true]);
      assertEquals(begins.get("features.3.0.weight"), 1);
    });
  }),
);
