// `hpctrain train`: settings -> a run -> its end, told to the user. May import core.
import { asUserError, openDevice } from "../core/train/device.ts";
import { resolve } from "../core/config/resolve.ts";
import { checkLayout, loadPreset, type World } from "../core/config/presets.ts";
import { generateMissing } from "../core/data/generated/missing.ts";
import { loadReader } from "../core/data/open.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { loaderThreads } from "../core/train/loader_threads.ts";
import { trainLoop } from "../core/train/loop.ts";
import { outOfMemory } from "../core/train/out_of_memory.ts";
import { refuseManyRanks, withoutEffect } from "../core/train/limits.ts";
import { prepare, type Prepared } from "../core/train/prepare.ts";
import { resumeFrom, savedConfig } from "../core/train/resume.ts";
import { announce, conclude } from "../core/train/story.ts";

export async function train(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const first = resolve({ argv, env });
  const resume = resumeFrom(first.config, first.preset);
  // Going on without other settings means going on with the run's own.
  const resolved = resume ? resolve({ argv, env, checkpoint: savedConfig(resume.path) }) : first;
  const { config, preset } = resolved;
  refuseManyRanks(resolved, env);
  try {
    const { any_layout } = config.distributed;
    const fits = (world: World) => preset && !any_layout && checkLayout(loadPreset(preset), world);
    // A preset for many ranks does not fit, whatever there is of libtorch and GPUs.
    const asked = config.training.device;
    if (asked !== "auto") fits({ nodes: 1, ranks: 1, device: asked });
    const { device, libtorch } = openDevice(config);
    const world: World = { nodes: 1, ranks: 1, device: device === "cpu" ? "cpu" : "cuda" };
    fits(world);
    const ready = await generateMissing(config, libtorch);
    await loadReader(ready.config.data);
    const { loaders, notes } = loaderThreads(resolved, device);
    const said = [...withoutEffect(resolved), ...ready.notes, ...notes];
    const prepared = prepare({
      config: ready.config,
      preset,
      device,
      libtorch,
      resume,
      loaders,
      notes: said,
    });
    return await run(prepared, { argv, libtorch, world });
  } catch (error) {
    throw asUserError(error);
  }
}

async function run(
  prepared: Prepared,
  context: Parameters<typeof announce>[1],
): Promise<number> {
  const { run } = prepared;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  announce(prepared, context);
  try {
    const ending = await trainLoop(run);
    conclude(prepared, ending, seconds(), context.argv);
    return ending.stopped ? EXIT.stopped : EXIT.done;
  } catch (cause) {
    await run.saver.close(); // what is being written is told before the end is
    const error = asUserError(outOfMemory(cause, prepared));
    const code = error instanceof UserError ? error.exitCode : EXIT.internal;
    const message = error instanceof Error ? error.message : String(error);
    const { step, epoch } = run.cursor;
    run.events.emit({ kind: "exit", code, message, step, epoch, seconds: seconds() });
    throw error;
  } finally {
    await run.saver.close();
    run.feed.close();
    run.console.close();
    run.requests.close();
    run.events.close();
  }
}
