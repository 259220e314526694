// What ranks communicate by where there is no MPI: every collective of every type, against plain loops.
import { assert, assertEquals } from "@std/assert";
import type { TransportOptions } from "../../../ffi/ranks/open_transport.ts";
import { accept, closeSocket, connect, listen } from "../../../ffi/ranks/tcp.ts";
import { acceptMemory, offerMemory } from "../../../ffi/ranks/shared.ts";
import type { Report } from "./rank_thread.ts";

type Opener = (world: number) => TransportOptions[];

function offered() {
  const offer = offerMemory();
  if (typeof offer === "string") throw new Error(offer);
  return offer;
}

offered().free();
closeSocket(listen(true)!.descriptor); // libraries stay open, once they are

const shared: Opener = (world) => {
  const offers = Array.from({ length: world }, offered);
  const all = offers.map((own, rank) => acceptMemory(rank, own, offers.map(({ claim }) => claim))!);
  offers.forEach((offer) => offer.seal());
  return all.map((memory) => ({ by: "shm", memory }));
};

/** Connected as ranks do it: in turn, as each waits for the others. */
const connected: Opener = (world) => {
  const pairs = Array.from({ length: world }, () => Array<number>(world).fill(-1));
  for (let high = 1; high < world; high++) {
    for (let low = 0; low < high; low++) {
      const listener = listen(true)!;
      pairs[high][low] = connect("127.0.0.1", listener.port)!;
      for (let come; !(come = accept(listener.descriptor)) || ((pairs[low][high] = come.descriptor), false););
      closeSocket(listener.descriptor);
    }
  }
  const names = pairs.map((_, rank) => `rank ${rank}`);
  return pairs.map((descriptors, rank) => ({ by: "tcp", connections: { rank, descriptors, names } }));
};

/** Each rank is a thread here: what they share is what processes would. */
async function ranks(open: Opener, world: number): Promise<Report[]> {
  const threads = open(world).map((by) => {
    const thread = new Worker(new URL("./rank_thread.ts", import.meta.url), { type: "module" });
    const report = new Promise<Report>((resolve, reject) => {
      thread.onmessage = ({ data }) => resolve(data);
      thread.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message));
      };
    });
    thread.postMessage(by);
    return report.finally(() => thread.terminate());
  });
  return await Promise.all(threads);
}

for (const [name, open, sees] of [["shared memory", shared, true], ["TCP", connected, false]] as const) {
  for (const world of [1, 2, 3, 4]) {
    Deno.test(`${world} ranks by ${name}: every collective of every type is what plain loops give`, async () => {
      const reports = await ranks(open, world);
      assertEquals(reports.flatMap(({ wrong }) => wrong), []);
      assertEquals(reports.map(({ shared }) => shared), Array(world).fill(sees));
      assert(reports.every(({ checked }) => checked > 50), "and each rank has looked");
    });
  }
}
