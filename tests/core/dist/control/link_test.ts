// Two hosts, as network namespaces, and the cable between them.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";

const PROGRAM = fromFileUrl(new URL("./rank.ts", import.meta.url));
const NET = `${Deno.pid % 200}`;
const HOSTS = ["a", "b"].map((side, i) => ({
  namespace: `hpctrain-${side}-${Deno.pid}`,
  card: `hpt${side}${Deno.pid}`.slice(0, 15),
  address: `10.213.${NET}.${i + 1}`,
}));

const ip = (...args: string[]) =>
  new Deno.Command("ip", { args, stdout: "null", stderr: "null" }).outputSync().success;

/** Takes root and the right to make namespaces, which containers often lack. */
function connectHosts(): boolean {
  const [a, b] = HOSTS;
  try {
    return HOSTS.every(({ namespace }) => ip("netns", "add", namespace)) &&
      ip(
        "link",
        "add",
        a.card,
        "netns",
        a.namespace,
        "type",
        "veth",
        "peer",
        "name",
        b.card,
        "netns",
        b.namespace,
      ) &&
      HOSTS.every(({ namespace, card, address }) =>
        ip("-n", namespace, "address", "add", `${address}/24`, "dev", card) &&
        ip("-n", namespace, "link", "set", card, "up") &&
        ip("-n", namespace, "link", "set", "lo", "up")
      );
  } catch {
    return false; // no such program
  }
}

const removeHosts = () => HOSTS.forEach(({ namespace }) => ip("netns", "delete", namespace));

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

const possible = (() => {
  if (Deno.uid() !== 0) return false;
  try {
    return connectHosts();
  } catch {
    return false;
  } finally {
    try {
      removeHosts();
    } catch {
      // no such program
    }
  }
})();

Deno.test({
  name:
    "when the link between two hosts is cut, the ranks on both end within 15 s and say so (needs root and ip)",
  ignore: !possible,
  async fn() {
    const folder = await Deno.makeTempDir();
    connectHosts();
    try {
      const ranks = HOSTS.map(({ namespace }, rank) =>
        new Deno.Command("ip", {
          args: [
            "netns",
            "exec",
            namespace,
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
