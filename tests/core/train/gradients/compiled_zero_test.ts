// --zero 1 with compiled updates: one loop for each part of a bucket that this rank owns.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { aloneCollectives, type Collectives } from "../../../../core/ranks/collectives.ts";
import { openTeam } from "../../../../core/ranks/team.ts";
import { openAccount } from "../../../../core/run/account.ts";
import { machineIsa } from "../../../../ffi/machine.ts";
import { printCode } from "../../../../core/compile/x86/print.ts";
import { compiler } from "../../../../core/train/compiled_part.ts";
import { openReducer, overlappedGradients } from "../../../../core/train/gradients/overlapped.ts";
import { openZero, partitionedGradients } from "../../../../core/train/gradients/zero.ts";
import { packParameters } from "../../../../core/train/arena.ts";
import { createLoss } from "../../../../core/models/losses.ts";
import { loadCode } from "../../../../ffi/machine_code.ts";
import { toNumbers, zero_ } from "../../../../ffi/make.ts";
import { timeOps } from "../../../../ffi/profile.ts";
import { copy_, narrow, randn, view } from "../../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { residual } from "../blocks_model.ts";
import { open, rows, run, settings } from "../rig.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

/** The first of two ranks, of which the other one sends nothing. */
function firstOfTwo(): Collectives {
  const alone = aloneCollectives();
  const first = (whole: Tensor, count: number) => narrow(view(whole, [-1]), 0, 0, count);
  return {
    ...alone,
    world: 2,
    reduceScatter(into, from) {
      scope(() => copy_(into, first(from, into.numel)));
      return 1;
    },
    allGather(all, own, phase) {
      if (phase === "optimizer's state") zero_(all);
      scope(() => copy_(first(all, own.numel), own));
      return 1;
    },
  };
}

function trained(flags: readonly string[], compiles: boolean) {
  manualSeed(7n);
  const config = settings(...flags, "--zero=1"), { training } = config;
  config.distributed.bucket_mb = 4_000 / 2 ** 20;
  const model = residual(3, 24), arena = packParameters(model.root.namedParameters(), "cpu", false, 2);
  const team = openTeam(firstOfTwo(), "cpu");
  const zero = openZero(config, arena, model, team, compiles ? compiler : null);
  const pass = { model, loss: createLoss(training, rows), cast: null, onGpu: false, seeds: null };
  const options = { pass, arena, scaler: null, checkpointing: false };
  const reducer = openReducer(arena, model, team.collectives, 0, { owned: zero.owned });
  const gradients = partitionedGradients(overlappedGradients(options, reducer, null, openAccount()), zero);
  const step = { ...options, optimizer: zero.optimizer, clipNorm: 0.5, observe: null, gradients };
  const ops = new Set<string>(), stop = timeOps((name) => ops.add(name));
  for (let number = 0; number < 6; number++) {
    const batch = { input: randn([8, 7]), target: randn([8, 1]) };
    run({ model, arena, step }, [batch], { number, lr: 1e-2 });
    batch.input.free();
    batch.target.free();
  }
  stop();
  zero.gather();
  const state = [...zero.optimizer.slots.values()].flat().map((t) => toNumbers(t));
  return { weights: toNumbers(arena.flat), state, ops: [...ops].join(" "), buckets: reducer.buckets };
}

function apart(a: ArrayLike<number>, b: ArrayLike<number>): number {
  assertEquals(a.length, b.length);
  return Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
}

for (
  const flags of [
    ["--optimizer=adamw"],
    ["--optimizer=adam", "--weight-decay=0.1"],
    ["--optimizer=sgd", "--set", "training.optimizer.momentum=0.9", "--nesterov"],
    ["--optimizer=sgd", "--set", "training.optimizer.momentum=0"],
  ]
) {
  Deno.test({
    name: `--zero 1 with compiled updates: ${flags.join(" ")}`,
    ignore: isa === null,
    fn() {
      const plain = trained(flags, false), compiled = trained(flags, true);
      assertMatch(plain.ops, /fused_(adam|sgd)/);
      assertEquals(/fused_(adam|sgd)/.test(compiled.ops), false);
      assert(compiled.buckets > 3, `${compiled.buckets} buckets`);
      assert(apart(compiled.weights, plain.weights) < 1e-5);
      compiled.state.forEach((part, i) => assert(apart(part, plain.state[i]) < 1e-5, `state ${i}`));
    },
  });
}
