// Training on several ranks with real MPI: the numbers of one rank, whatever the number of ranks.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { mpich, openMpi } from "../mpi.ts";
import { eventsOf, inTemp } from "./program.ts";
import { apart, numbers, tensors, train, trained, weightsApart } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

const CONVNET = [
  ...["--model=simple-convnet", "--data-type=synthetic", "--input-size=16", "--train-samples=75"],
  ...["--val-samples=30", "--global-batch-size=16", "--batch-size=4", "--epochs=2", "--optimizer=sgd"],
];
const GPT = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--hidden-size=32", "--heads=2", "--context=16"],
  ...["--train-samples=50", "--val-samples=10", "--global-batch-size=16", "--batch-size=3", "--epochs=2"],
];
const PLAIN = ["--dropout=0", "--clip-norm=0.5", "--ema=0.9", "--optimizer=sgd"];

const pairs = (a: Map<string, Float32Array>, b: Map<string, Float32Array>) => {
  assertEquals([...b.keys()], [...a.keys()]);
  return [...a].filter(([at, values]) => values.some((v, i) => v !== b.get(at)![i])).map(([at]) => at);
};

for (
  const [what, flags] of [["gpt", [...GPT, ...PLAIN]], ["simple-convnet", [
    ...CONVNET,
    "--dropout=0",
  ]]] as const
) {
  Deno.test(`${what} on 2 and 4 ranks, accumulating and with an uneven last batch, has the losses and weights of one rank`, () =>
    inTemp(async (cwd) => {
      const mpi = openMpi();
      await trained(cwd, "one", 1, flags, { mpi });
      for (const ranks of [2, 4]) {
        const name = `of-${ranks}`;
        await trained(cwd, name, ranks, flags, { mpi });
        const found = {
          losses: apart(numbers(cwd, "one"), numbers(cwd, name)),
          weights: weightsApart(tensors(cwd, "one"), tensors(cwd, name)),
        };
        assert(found.losses < 1e-6 && found.weights < 1e-6, JSON.stringify(found));
      }
    }));
}

for (const [what, flags] of [["gpt", GPT], ["simple-convnet", CONVNET]] as const) {
  Deno.test(`--deterministic=world: ${what} with dropout has the same bits on 1, 2 and 4 ranks, optimizer and losses too`, () =>
    inTemp(async (cwd) => {
      const mpi = openMpi(),
        world = [...flags, "--deterministic=world", "--optimizer=adamw", "--dropout=0.1"];
      await trained(cwd, "one", 1, world, { mpi });
      for (const ranks of [2, 4]) {
        const name = `of-${ranks}`;
        await trained(cwd, name, ranks, world, { mpi });
        assertEquals(numbers(cwd, name), numbers(cwd, "one"));
        assertEquals(pairs(tensors(cwd, "one"), tensors(cwd, name)), []);
      }
    }));
}

Deno.test("LBFGS evaluates on 2 ranks as on one: the first losses, and with --deterministic=world the same bits", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi(), own = (name: string) => `--set=training.optimizer.${name}`;
    const flags = [
      ...[...GPT, "--optimizer=lbfgs", "--lr=1", "--scheduler=constant", own("line_search_fn=strong_wolfe")],
      ...[own("max_iter=3"), own("history_size=5")],
    ];
    // In double precision, for a line search carries what f32 rounds away to another place.
    const plain = [...flags, "--dropout=0", "--max-steps=2", "--amp=fp64"];
    await trained(cwd, "one", 1, plain, { mpi });
    await trained(cwd, "two", 2, plain, { mpi });
    const losses = apart(numbers(cwd, "one", ["step"]), numbers(cwd, "two", ["step"]));
    assert(losses < 1e-9, String(losses));
    const world = [...flags, "--deterministic=world", "--dropout=0.1", "--epochs=1"];
    await trained(cwd, "world-one", 1, world, { mpi });
    await trained(cwd, "world-two", 2, world, { mpi });
    assertEquals(numbers(cwd, "world-two"), numbers(cwd, "world-one"));
    assertEquals(pairs(tensors(cwd, "world-one"), tensors(cwd, "world-two")), []);
  }));

Deno.test("SOAP and Shampoo have on 2 ranks the bits of one, their matrices too", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi(), own = (text: string) => `--set=training.optimizer.${text}`;
    const flags = [
      ...GPT,
      "--deterministic=world",
      "--max-steps=3",
      "--compile=off",
      own("precondition_frequency=2"),
    ];
    for (const more of [["soap"], ["shampoo", own("max_precond_dim=24"), "--momentum=0.5"]]) {
      const [type, ...rest] = more, run = [...flags, ...rest, `--optimizer=${type}`];
      await trained(cwd, `${type}-one`, 1, run, { mpi });
      await trained(cwd, `${type}-two`, 2, run, { mpi });
      assertEquals(numbers(cwd, `${type}-two`), numbers(cwd, `${type}-one`));
      const state = tensors(cwd, `${type}-one`);
      assert([...state.keys()].some((at) => /GG_1|inv_factor_matrices_1/.test(at)), [...state.keys()].join());
      assertEquals(pairs(state, tensors(cwd, `${type}-two`)), []);
    }
  }));

Deno.test("batch norm over all ranks: resnet18 on 2 ranks has the first gradient of one rank with the whole batch", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const flags = [
      ...[
        "--model=resnet18",
        "--data-type=synthetic",
        "--input-size=64",
        "--train-samples=16",
        "--val-samples=8",
      ],
      ...["--global-batch-size=16", "--sync-bn", "--max-steps=1", "--optimizer=sgd"],
    ];
    await trained(cwd, "one", 1, [...flags, "--batch-size=16"], { mpi });
    await trained(cwd, "two", 2, [...flags, "--batch-size=8"], { mpi });
    const found = { steps: apart(numbers(cwd, "one", ["step"]), numbers(cwd, "two", ["step"])) };
    console.log(JSON.stringify(found));
    assert(found.steps < 1e-5, JSON.stringify(found));
  }));

Deno.test("ranks without a sample of the last batch take part in it, with batch norm over all ranks too", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const flags = [
      ...[
        "--model=resnet18",
        "--data-type=synthetic",
        "--input-size=64",
        "--train-samples=18",
        "--val-samples=7",
      ],
      ...["--global-batch-size=16", "--sync-bn", "--epochs=1", "--optimizer=sgd", "--lr=1e-4"],
    ];
    await trained(cwd, "one", 1, [...flags, "--batch-size=16"], { mpi });
    await trained(cwd, "four", 4, [...flags, "--batch-size=4"], { mpi });
    const losses = (name: string) =>
      eventsOf(cwd, name).flatMap(({ kind, loss }) => kind === "step" ? [loss as number] : []);
    assertEquals(losses("four").length, 2);
    const found = apart(losses("one"), losses("four"));
    assert(found < 1e-4, String(found));
  }));

Deno.test("a run on 2 ranks that was stopped goes on on 4 ranks and on 1, with the bits of one that was not", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    // A schedule that does not look at the end, which moves here.
    const flags = [...GPT, "--deterministic=world", "--dropout=0.1", "--scheduler=constant"];
    await trained(cwd, "calm", 1, flags, { mpi });
    await trained(cwd, "moved", 2, [...flags, "--max-steps=3"], { mpi });
    await trained(cwd, "moved", 4, [...flags, "--max-steps=6", "--resume=auto"], { mpi });
    await trained(cwd, "moved", 1, [...flags, "--max-steps=0", "--resume=auto"], { mpi });
    assertEquals(pairs(tensors(cwd, "calm"), tensors(cwd, "moved")), []);
    assertEquals(numbers(cwd, "moved", ["step", "epoch"]), numbers(cwd, "calm", ["step", "epoch"]));
  }));

Deno.test("MPICH's ranks and Open MPI's train to the same numbers, and the first lines say who they are", () =>
  inTemp(async (cwd) => {
    const flags = [...CONVNET, "--dropout=0", "--epochs=1"];
    await trained(cwd, "open", 2, flags, { mpi: openMpi() });
    const { code, stdout } = await train(cwd, "mpich", 2, flags, { mpi: mpich() });
    assertEquals(code, 0);
    assertSentence("integration/ranks: starting distributed training", stdout);
    assertMatch(stdout, /Communication: MPICH/);
    assertEquals(stdout.match(/^\[Epoch 1\/1\] .*Val Loss/gm)?.length, 1);
    assert(apart(numbers(cwd, "open"), numbers(cwd, "mpich")) < 1e-6);
  }));

Deno.test("ranks that were given different settings are refused by rank and setting", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const script = 'HPCTRAIN_LR=0.00$((OMPI_COMM_WORLD_RANK + 1)) exec "$0" "$@"';
    const { code, stderr } = await train(cwd, "r", 2, CONVNET, { mpi, wrapped: ["sh", "-c", script] });
    assertEquals(code, 2);
    assertMatch(
      stderr,
      /Rank 1 on \S+ was started with other settings than Rank 0 .*: training\.optimizer\.learning_rate is 0\.002 there and 0\.001 here\./,
    );
  }));
