// What a process may take of memory, by Linux's files as sites have them, and by a real control group.
import { assert, assertEquals } from "@std/assert";
import { dirname, fromFileUrl } from "paths";
import { freeMemory, freeOf, killsForMemory, limitsOf, tightestLimit } from "../../../core/base/memory.ts";
import { HAS_GROUPS, inGroup, NEEDS_GROUPS } from "../../control_group.ts";
import { inFolder } from "../checkpoint/python.ts";

const MIB = 2 ** 20;

/** A machine's files below a folder; a path's last part is the file. */
function machine(folder: string, files: Record<string, string>): { proc: string } {
  const all = { "proc/meminfo": "MemTotal: 8192 kB\nMemAvailable: 4096 kB\n", ...files };
  for (const [path, text] of Object.entries(all)) {
    Deno.mkdirSync(dirname(`${folder}/${path}`), { recursive: true });
    Deno.writeTextFileSync(`${folder}/${path}`, text);
  }
  return { proc: `${folder}/proc` };
}

const group = (path: string, files: Record<string, string | number>) =>
  Object.fromEntries(Object.entries(files).map(([name, value]) => [`${path}/memory.${name}`, `${value}\n`]));

Deno.test("without limits it is what the kernel has available, and that is not more than the machine has", () => {
  const free = freeMemory(), kernel = limitsOf().find(({ of }) => of === "machine")!;
  assert(free > 0 && free <= freeOf(kernel) + 64 * MIB && freeOf(kernel) < kernel.limit);
});

Deno.test(
  "of version 1 (RHEL 8) the tightest group counts, of the job or a step of it, without its cache of files",
  inFolder((folder) => {
    const places = machine(folder, {
      "proc/self/cgroup":
        "9:cpuset:/slurm\n4:memory:/slurm/uid_7/job_12/step_0\n1:name=systemd:/user\n0::/user\n",
      "proc/self/mountinfo":
        `30 25 0:26 / ${folder}/cg/memory rw,nosuid shared:9 - cgroup cgroup rw,seclabel,memory\n` +
        `31 25 0:27 / ${folder}/cg/cpuset rw,nosuid shared:9 - cgroup cgroup rw,cpuset\n` +
        `32 25 0:28 / ${folder}/cg/unified rw - cgroup2 cgroup2 rw\n`,
      ...group("cg/memory", { limit_in_bytes: "9223372036854771712", usage_in_bytes: 9e9 }),
      ...group("cg/memory/slurm/uid_7/job_12", {
        limit_in_bytes: 3 * MIB,
        usage_in_bytes: 2 * MIB,
        stat: `cache 7\ntotal_inactive_file ${MIB / 4}\ntotal_active_file ${MIB / 4}\ntotal_unevictable 5`,
        oom_control: "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
      }),
      ...group("cg/memory/slurm/uid_7/job_12/step_0", {
        limit_in_bytes: "9223372036854771712",
        usage_in_bytes: 1,
        oom_control: "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
      }),
      "proc/vmstat": "pgmajfault 3\noom_kill 5\n",
    });
    assertEquals(tightestLimit(places), { of: "job", limit: 3 * MIB, used: 1.5 * MIB });
    assertEquals(freeMemory(places), 1.5 * MIB);
    assertEquals(
      killsForMemory(places),
      { job: 3, machine: 5 },
      "a group above that has counted more hides none",
    );
  }),
);

Deno.test(
  "of version 2 it is the least of all groups above, whose brake counts like their end",
  inFolder((folder) => {
    const places = (path: string) =>
      machine(folder, {
        "proc/self/cgroup": `0::${path}\n`,
        "proc/self/mountinfo": `30 25 0:26 / ${folder}/cg rw - cgroup2 cgroup2 rw,nsdelegate\n`,
      });
    machine(folder, {
      ...group("cg/job", {
        max: 3 * MIB,
        high: "max",
        current: 2 * MIB,
        stat: `anon 1\nactive_file ${MIB}\nshmem 5`,
      }),
      ...group("cg/job/step", {
        max: "max",
        high: 2.5 * MIB,
        current: 1.5 * MIB,
        events: "oom 1\noom_kill 3",
      }),
    });
    assertEquals(tightestLimit(places("/job")), { of: "job", limit: 3 * MIB, used: MIB });
    assertEquals(tightestLimit(places("/job/step")), { of: "job", limit: 2.5 * MIB, used: 1.5 * MIB });
    assertEquals(killsForMemory(places("/job/step")).job, 3);
    assertEquals(tightestLimit(places("/other")).of, "machine");
  }),
);

Deno.test(
  "a container that sees a part of the tree finds its own group in it",
  inFolder((folder) => {
    const places = machine(folder, {
      "proc/self/cgroup": "4:memory:/docker/abc/inner\n",
      "proc/self/mountinfo": `30 25 0:26 /docker/abc ${folder}/cg ro - cgroup cgroup rw,memory\n`,
      ...group("cg/inner", { limit_in_bytes: MIB, usage_in_bytes: 0 }),
    });
    assertEquals(tightestLimit(places), { of: "job", limit: MIB, used: 0 });
  }),
);

Deno.test(
  "limits of the address space and of data count with what the process has of them",
  inFolder((folder) => {
    const places = (as: string, data: string) =>
      machine(folder, {
        "proc/self/status": "VmPeak:\t 9000 kB\nVmSize:\t 1024 kB\nVmData:\t 512 kB\n",
        "proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n" +
          `Max data size             ${data.padEnd(20)} unlimited            bytes\n` +
          `Max address space         ${as.padEnd(20)} unlimited            bytes\n`,
      });
    assertEquals(freeMemory(places("unlimited", "unlimited")), 4 * MIB);
    assertEquals(tightestLimit(places(`${3 * MIB}`, "unlimited")), {
      of: "address space",
      limit: 3 * MIB,
      used: MIB,
    });
    assertEquals(tightestLimit(places(`${9 * MIB}`, `${MIB}`)), { of: "data", limit: MIB, used: MIB / 2 });
  }),
);

Deno.test({
  name: `a process in a real control group of version 1 is told its limit${NEEDS_GROUPS}`,
  ignore: !HAS_GROUPS,
  fn: () =>
    inGroup(512 * MIB, async ({ through: [program, ...through] }) => {
      const module = fromFileUrl(new URL("../../../core/base/memory.ts", import.meta.url));
      const code = `import { tightestLimit } from "${module}"; console.log(JSON.stringify(tightestLimit()));`;
      const args = [...through, Deno.execPath(), "eval", code];
      const { stdout } = await new Deno.Command(program, { args }).output();
      const { of, limit, used } = JSON.parse(new TextDecoder().decode(stdout));
      assertEquals([of, limit], ["job", 512 * MIB]);
      assert(used > 10 * MIB && used < 400 * MIB, `${used} bytes are used`);
    }),
});
