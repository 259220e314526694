"""Runs a command and writes as JSON what it took, from the process's start to its exit. Arguments: the file to write, the command.
Processor time and memory are those of the process and of all that it waited for; memory is that of the largest one."""
import json
import resource
import subprocess
import sys
import time

began = time.perf_counter()
code = subprocess.run(sys.argv[2:]).returncode
seconds = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as out:
    json.dump({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * 1024}, out)
sys.exit(code)
