// A training loop of one's own, on one rank or several: two moons told apart by a small network.
//   deno run --allow-all examples/own_loop.ts            or, on ranks: mpiexec -n 2 deno run --allow-all examples/own_loop.ts
import * as hpc from "../mod.ts";

const { nn, ops } = hpc;
const [EPOCHS, BATCH, SAMPLES, SEED] = [30, 64, 1024, 7];
const config = hpc.getDebugConfig(), env = Deno.env.toObject();
const where = hpc.rankContext(env);
const { device, libtorch } = hpc.openDevice(config, where.localRank);
const { team, control } = where.world > 1
  ? await hpc.joinRanks({ where, config, device, libtorch, env })
  : {};
hpc.manualSeed(BigInt(SEED)); // the same data and weights on every rank

const upper = ops.toDtype(ops.gt(ops.rand([SAMPLES]), ops.constant(0.5)), "i64");
const turn = ops.scale(ops.add(ops.rand([SAMPLES]), ops.toDtype(upper, "f32")), Math.PI);
const shift = ops.sub(ops.toDtype(upper, "f32"), ops.constant(0.5));
const moons = ops.stack([ops.add(ops.cos(turn), shift), ops.add(ops.sin(turn), ops.scale(shift, 0.5))], 1);
const input = ops.add(moons, ops.scale(ops.randn([SAMPLES, 2]), 0.1));
const about = { name: "moons", description: "two moons", task: "classification", outputs: 2 } as const;
const data = hpc.memorySource({ ...about, input, target: upper });

class Net extends nn.Module {
  readonly in = this.child("in", new nn.Linear(2, 32));
  readonly out = this.child("out", new nn.Linear(32, 2));
  forward = (x: hpc.Tensor): hpc.Tensor => this.out.forward(ops.relu(this.in.forward(x)));
}
const net = new Net();
const arena = hpc.packParameters(net.namedParameters(), device);
const optimizer = hpc.createOptimizer(config.training.optimizer, arena);
const steps = Math.ceil(SAMPLES / BATCH);
const shape = { type: "cosine", peak: 1e-2, min: 0, every: 0, gamma: 1 } as const;
const schedule: hpc.Schedule = { ...shape, warmup: 10, total: EPOCHS * steps };

for (let epoch = 0; epoch < EPOCHS; epoch++) {
  let right = 0;
  const samples = hpc.order(data.length, SEED, epoch, true);
  for (let step = 0; step < steps; step++) {
    hpc.scope(() => { // what is made here is freed at the end
      const ids = hpc.globalBatch(samples, step, BATCH, where.rank, where.world); // this rank's part
      const { input, target } = hpc.batchOf(data, hpc.plainPart(ids, epoch));
      const output = net.forward(input);
      ops.zero_(arena.gradient);
      hpc.backward(ops.scale(ops.crossEntropyLoss(output, target), ids.length / BATCH)); // into the arena
      team?.collectives.wait(team.collectives.allReduce(arena.gradient, "sum", "gradients"));
      optimizer.step(hpc.learningRate(schedule, epoch * steps + step));
      right += hpc.noGrad(() => ops.sum(ops.eq(ops.argmax(output, 1), target)).item());
    });
  }
  const [all] = team?.reduce([right], "sum", "the epoch's end") ?? [right];
  if (where.rank === 0) console.log(`epoch ${epoch + 1}: ${(100 * all / SAMPLES).toFixed(1)}% right`);
}
if (where.rank === 0) hpc.saveWeights("moons.pt", net);
await team?.collectives.close();
await control?.close();
