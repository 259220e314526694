// Damaged and forged checkpoint files, 1,200 of them or as many as HPCTRAIN_STORM says: each is read, with its tensors as they were, or refused with one
// sentence. None crashes, hangs, eats memory or runs anything.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { createHash } from "node:crypto";
import { describeCheckpoint, openCheckpoint, toJson } from "../../../core/checkpoint/open.ts";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { writeWhole } from "../../../core/checkpoint/safetensors_writer.ts";
import { flattenTree } from "../../../core/checkpoint/safetensors.ts";
import { writeAllShards } from "../../../core/checkpoint/sharded_writer.ts";
import { INDEX_FILE } from "../../../core/checkpoint/sharded_reader.ts";
import {
  dict,
  memoryStorage,
  OrderedDict,
  tensorBytes,
  TensorData,
  Tuple,
  type Value,
} from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { run } from "../../integration/program.ts";
import { below, DAMAGE, dice, forgedPt, forgedSafetensors, joined, type Mutation } from "./mutations.ts";
import { inFolder, python } from "./python.ts";
import { threadSeconds } from "../../cpu_time.ts";

/** `./scripts/storm files` takes ten thousand and more. */
const FILES = Number(Deno.env.get("HPCTRAIN_STORM") ?? 1200);
/** Another seed draws other damages. */
const FIRST = 1e6 * Number(Deno.env.get("HPCTRAIN_STORM_SEED") ?? 0);
/** Of each of the four kinds of files, this many are damaged, and the others forged. */
const EACH = Math.ceil(FILES / 4), DAMAGED = Math.round(0.68 * EACH);
/** Beyond four times the file: what V8 takes between two collections, whatever is read. */
const BASE = 16 << 20;

function checkpoint(): Value {
  const tensors = new OrderedDict(
    Array.from({ length: 10 }, (_, i) => {
      const bytes = Uint8Array.from({ length: 32 * (i + 1) }, (_, at) => at * 7 + i);
      return [`layer${i}.weight`, new TensorData("f32", [8, i + 1], memoryStorage(bytes))];
    }),
  );
  const state = new Map([...tensors].map(([, tensor], i) => [i, dict({ exp_avg: tensor })]));
  return dict({
    epoch: 3,
    model_state_dict: tensors,
    optimizer_state_dict: dict({
      state: state as Value,
      param_groups: [dict({ lr: 0.1, betas: new Tuple([0.9, 0.99]) })],
    }),
    config: dict({ data: dict({ features: ["a", "b"] }) }),
  });
}

/** As PyTorch and the reference safetensors write them. */
const THEIRS = `
import sys, torch
from safetensors.torch import save_file
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
o = torch.optim.AdamW(m.parameters()); m(torch.randn(3, 5)).sum().backward(); o.step()
torch.save({"model_state_dict": m.state_dict(), "optimizer_state_dict": o.state_dict(), "epoch": 3}, sys.argv[1])
save_file(m.state_dict(), sys.argv[2])`;

/** Everything a user of the file would do with it. The sum of its tensors where it all worked. */
function use(path: string): string | UserError {
  try {
    using file = openCheckpoint(path);
    describeCheckpoint(file);
    file.verify();
    const hash = createHash("sha256");
    const seen = new Set<Value>();
    const walk = (value: Value): void => {
      if (value instanceof TensorData) {
        hash.update(`${value.dtype} ${value.shape}`).update(tensorBytes(value));
      }
      if (!(value instanceof Map) || seen.has(value)) return;
      seen.add(value);
      for (const [key, item] of value) {
        hash.update(String(key));
        walk(item);
      }
    };
    walk(file.root);
    toJson(file.root);
    return hash.digest("hex");
  } catch (error) {
    if (error instanceof UserError) return error;
    throw error;
  }
}

/** What `body` gives, and how much memory it took at its peak beyond what was there before. */
function measured<T>(body: () => T): [result: T, bytes: number] {
  const peak = () => 1024 * Number(/VmHWM:\s+(\d+) kB/.exec(Deno.readTextFileSync("/proc/self/status"))![1]);
  Deno.writeTextFileSync("/proc/self/clear_refs", "5"); // the peak begins anew
  const before = peak();
  const result = body();
  return [result, peak() - before];
}

interface Kind {
  readonly path: string;
  readonly forge: (path: string) => Mutation;
  /** Whether its checksums tell every change of a tensor. */
  readonly guarded: boolean;
}

Deno.test(
  `${FILES} mutated .pt and .safetensors files are read as they were or refused with a sentence`,
  inFolder((folder) => {
    const at = (name: string) => `${folder}/${name}`;
    const marker = at("ran");
    python(THEIRS, at("theirs.pt"), at("theirs.safetensors"));
    writePt(at("ours.pt"), checkpoint());
    writeWhole(at("ours.safetensors"), checkpoint());
    const pt = (path: string) => forgedPt(path, marker);
    const kinds: Kind[] = [
      { path: at("ours.pt"), forge: pt, guarded: true },
      { path: at("theirs.pt"), forge: pt, guarded: true },
      { path: at("ours.safetensors"), forge: () => forgedSafetensors, guarded: true },
      { path: at("theirs.safetensors"), forge: () => forgedSafetensors, guarded: false },
    ];
    const counts = { read: 0, refused: 0 };
    for (const { path, forge, guarded } of kinds) {
      const good = Deno.readFileSync(path);
      const sum = use(path);
      assert(typeof sum === "string", String(sum));
      const forged = forge(path);
      for (let i = 0; i < EACH; i++) {
        const damaged = i < DAMAGED;
        const random = dice(FIRST + i);
        const bytes = (damaged ? DAMAGE[below(random, DAMAGE.length)] : forged)(good, random);
        const what = `${path}, mutation ${i}`;
        const mutant = at(`mutant${path.slice(path.lastIndexOf("."))}`);
        Deno.writeFileSync(mutant, bytes);
        const began = threadSeconds();
        const [outcome, memory] = measured(() => use(mutant));
        assert(threadSeconds() - began < 2, `${what} took long`);
        assert(memory <= 4 * bytes.length + BASE, `${what} took ${memory >> 20} MiB of memory`);
        if (outcome instanceof UserError) {
          counts.refused++;
          assertEquals(outcome.kind, "checkpoint", what);
          assert(
            outcome.message.startsWith(mutant) && outcome.message.length < 700,
            `${what}: ${outcome.message}`,
          );
          assertMatch(outcome.message, /^\P{Cc}*$/u, what); // nothing that steers a terminal, and one line
        } else {
          counts.read++;
          if (damaged && guarded) assertEquals(outcome, sum, `${what} is read with other tensors`);
        }
      }
    }
    assertEquals(counts.read + counts.refused, 4 * EACH);
    assert(counts.read > FILES / 25 && counts.refused > 0.6 * FILES, JSON.stringify(counts));
    assert(![...Deno.readDirSync(folder)].some(({ name }) => name === "ran"), "something was executed");
  }),
);

Deno.test(
  "five hundred mutated indices of a checkpoint in several files are read as they were or refused with a sentence",
  inFolder((folder) => {
    const target = `${folder}/a.ckpt`;
    const path = `${target}/${INDEX_FILE}`;
    writeAllShards(target, 3, flattenTree(checkpoint(), "a"));
    const good = Deno.readFileSync(path);
    const sum = use(target);
    assert(typeof sum === "string", String(sum));
    const size = new Uint8Array(new BigUint64Array([BigInt(good.length)]).buffer);
    let read = 0;
    for (let i = 0; i < 500; i++) {
      const random = dice(i);
      const damaged = i < 300;
      const bytes = damaged
        ? DAMAGE[below(random, 3)](good, random)
        : forgedSafetensors(joined(size, good), random).subarray(8);
      Deno.writeFileSync(path, bytes);
      const outcome = use(target);
      if (outcome instanceof UserError) {
        assertEquals(outcome.kind, "checkpoint");
        assertMatch(outcome.message, /^\P{Cc}*$/u);
        assert(outcome.message.startsWith(target), outcome.message);
      } else {
        read++;
        assertEquals(outcome, sum, `mutation ${i}`); // its checksum, or that of a shard, tells every change
      }
    }
    assert(read < 100, `${read} were read`);
  }),
);

Deno.test(
  "the program refuses mutated files with exit code 8 and one line, and reads the others",
  inFolder(async (folder) => {
    const at = (name: string) => `${folder}/${name}`;
    writePt(at("a.pt"), checkpoint());
    writeWhole(at("a.safetensors"), checkpoint());
    let refused = 0;
    for (
      const [name, forged] of [["a.pt", forgedPt(at("a.pt"), at("ran"))], [
        "a.safetensors",
        forgedSafetensors,
      ]] as const
    ) {
      const good = Deno.readFileSync(at(name));
      for (let i = 0; i < 4; i++) {
        const random = dice(900 + i);
        Deno.writeFileSync(at(`m-${name}`), (i < 2 ? DAMAGE[i * 2] : forged)(good, random));
        const { code, stdout, stderr } = await run(["inspect", at(`m-${name}`), "--verify"]);
        assert(code === 8 || code === 0, `${name} ${i}: ${code} ${stderr}`);
        if (code === 0) {
          assertMatch(stdout, /verified/);
          continue;
        }
        refused++;
        assertEquals(stderr.trim().split("\n").length, 1, stderr);
        assert(stderr.includes(at(`m-${name}`)) && !stderr.includes("internal"), stderr);
      }
    }
    assert(refused >= 5, `${refused} refused`);
    assert(![...Deno.readDirSync(folder)].some(({ name }) => name === "ran"), "something was executed");
  }),
);
