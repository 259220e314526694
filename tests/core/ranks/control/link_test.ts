// What becomes of ranks when the cable between their hosts is cut.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "paths";
import { connectHosts, HOSTS, ip, on, removeHosts, twoHostsPossible } from "../../../two_hosts.ts";

const PROGRAM = fromFileUrl(new URL("./rank.ts", import.meta.url));
/** What a rank says, and when it has met the others. */
function output(rank: Deno.ChildProcess) {
  const met = Promise.withResolvers<void>();
  const listen = async () => {
    let out = "";
    for await (const part of rank.stdout.pipeThrough(new TextDecoderStream())) {
      out += part;
      if (out.includes("\n")) met.resolve();
    }
    met.resolve(); // it has ended, and what it said is judged below
    return out;
  };
  const ended = Promise.all([rank.status, listen(), new Response(rank.stderr).text()])
    .then(([{ code }, out, err]) => ({ code, out, err }));
  return { met: met.promise, ended };
}

const possible = twoHostsPossible();

Deno.test({
  name:
    "when the link between two hosts is cut, the ranks on both end within 15 s and say so (needs root and ip)",
  ignore: !possible,
  async fn() {
    const folder = await Deno.makeTempDir();
    connectHosts();
    try {
      const ranks = HOSTS.map((_, rank) =>
        new Deno.Command("ip", {
          args: [
            ...on(rank).slice(1),
            Deno.execPath(),
            "run",
            "-A",
            "--no-check",
            "--quiet",
            PROGRAM,
            "link",
            folder,
          ],
          env: {
            NO_COLOR: "1",
            ...{ RANK: `${rank}`, WORLD_SIZE: "2", LOCAL_RANK: "0", LOCAL_WORLD_SIZE: "1" },
            ...{ GROUP_RANK: `${rank}`, GROUP_WORLD_SIZE: "2", MASTER_ADDR: HOSTS[0].address },
            TEST_LIMITS: '{"silence":8000}',
          },
          stdout: "piped",
          stderr: "piped",
        }).spawn()
      );
      const outputs = ranks.map(output);
      await Promise.all(outputs.map(({ met }) => met));
      await new Promise((resolve) => setTimeout(resolve, 1000)); // some steps
      assert(ip("-n", HOSTS[0].namespace, "link", "set", HOSTS[0].card, "down"));
      const cut = performance.now();
      const ended = await Promise.all(outputs.map(({ ended }) => ended));
      const seconds = (performance.now() - cut) / 1000;
      assertEquals(ended.map(({ code }) => code), [5, 5], JSON.stringify(ended));
      assertMatch(ended[1].out, new RegExp(`Rank 1 met rank 0 at ${HOSTS[0].address}:`));
      assertMatch(ended[0].err, /Rank 1 on \S+ was not heard of for \d+ s: its node or the network is down/);
      assertMatch(
        ended[1].err,
        /Rank 0 on \S+ was not heard of for \d+ s \(its node or the network is down\)/,
      );
      assert(seconds < 15, `${seconds} s`);
    } finally {
      removeHosts();
      await Deno.remove(folder, { recursive: true });
    }
  },
});
