// Training reaches for no network: in a namespace with a device but no route, where the kernel counts every attempt.
import { assert, assertEquals } from "@std/assert";
import { filesIn, inTemp, run, TINY } from "./program.ts";

const works = await (async () => {
  try {
    return (await new Deno.Command("unshare", { args: ["-n", "true"] }).output()).success;
  } catch {
    return false;
  }
})();
const why = works ? "" : " (needs root and unshare)";
if (!works && Deno.env.get("CI") === "true") {
  throw new Error("these tests need a network namespace: root and unshare");
}

/** The kernel's counters of the namespace, when the program has ended. */
const COUNT = `"$@"; code=$?; cat /proc/net/snmp /proc/net/snmp6 > counters; exit $code`;
const through = ["unshare", "-n", "bash", "-c", COUNT, "bash"];

/** What was sent, or would have been if there had been a way: connections, packets, look-ups of names. */
function attempts(cwd: string): Record<string, number> {
  const lines = Deno.readTextFileSync(`${cwd}/counters`).split("\n");
  const found: Record<string, number> = {};
  for (let i = 0; i + 1 < lines.length; i++) {
    const [kind, ...names] = lines[i].split(/\s+/);
    const [same, ...values] = lines[i + 1].split(/\s+/);
    if (kind !== same || !["Ip:", "Tcp:", "Udp:"].includes(kind)) continue;
    names.forEach((name, at) => found[kind + name] = Number(values[at]));
  }
  const six = /^Ip6OutNoRoutes\s+(\d+)/m.exec(lines.join("\n"))?.[1];
  const wanted = ["Ip:OutNoRoutes", "Ip:OutRequests", "Tcp:ActiveOpens", "Udp:OutDatagrams"];
  return {
    ...Object.fromEntries(wanted.map((name) => [name, found[name]])),
    "Ip6:OutNoRoutes": Number(six ?? 0),
  };
}

const NONE = {
  "Ip:OutNoRoutes": 0,
  "Ip:OutRequests": 0,
  "Tcp:ActiveOpens": 0,
  "Udp:OutDatagrams": 0,
  "Ip6:OutNoRoutes": 0,
};

Deno.test({
  name:
    `a run with its events, its W&B run, machine metrics, alerts and a profile sends nothing anywhere${why}`,
  ignore: !works,
  fn: () =>
    inTemp(async (cwd) => {
      const flags = [
        "--run-name=r",
        "--profile-training",
        "--profile-steps=1-2",
        "--on-event=cat > /dev/null",
      ];
      const env = { DENO_NO_UPDATE_CHECK: "1" }; // where the sources are run, Deno itself would ask for a newer one
      const { code, stdout, stderr } = await run([...TINY, ...flags], { cwd, through, env });
      assertEquals([code, stderr], [0, ""], stdout);
      assert(filesIn(cwd).some((path) => path.endsWith(".wandb")), "a W&B run was written");
      assertEquals(attempts(cwd), NONE);
    }),
});

Deno.test({
  name: `one attempt to connect is seen by what the test above looks at${why}`,
  ignore: !works,
  fn: () =>
    inTemp(async (cwd) => {
      const reach = new Deno.Command(through[0], {
        args: [...through.slice(1), "bash", "-c", "echo > /dev/tcp/192.0.2.1/80"],
        cwd,
        stderr: "null",
      });
      assertEquals((await reach.output()).code, 1);
      assertEquals(attempts(cwd), { ...NONE, "Ip:OutNoRoutes": 1 });
    }),
});
