// CUDA C as a library of this host: what the stand-in's NVRTC compiles with
// (tests/core/compile/cuda/host.sh).
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;

#ifdef STANDIN_HIP
#define OF_COMPILER "-D__HIP__ "
#else
#define OF_COMPILER
#endif

static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  *bytes = 0;
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *bytes = ftell(file);
  rewind(file);
  char *content = calloc(1, *bytes + 1);
  if (fread(content, 1, *bytes, file) != *bytes) *bytes = 0;
  fclose(file);
  return content;
}

/** NULL where the text is refused; the log says why, if a compiler could be started. */
static char *compiled_for_host(const char *content, size_t *bytes, char **said) {
  char folder[] = "/tmp/cuda-standin-XXXXXX", text[64], library[64], log[64];
  char *script = getenv("CUDA_STANDIN_HOST");
  if (!script || !mkdtemp(folder)) return NULL;
  snprintf(text, sizeof text, "%s/text.cu", folder);
  snprintf(library, sizeof library, "%s/text.so", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  FILE *file = fopen(text, "w");
  if (!file) return NULL;
  fputs(content, file);
  fclose(file);
  char *command[] = {"env", "-u", "LD_LIBRARY_PATH", "sh", "-c", "exec sh \"$0\" \"$1\" \"$2\" " OF_COMPILER "2> \"$3\"",
                     script, text, library, log, NULL};
  pid_t child;
  int status = 1;
  if (posix_spawnp(&child, "env", NULL, NULL, command, environ) == 0) waitpid(child, &status, 0);
  size_t length;
  *said = read_file(log, &length);
  char *code = status == 0 ? read_file(library, bytes) : NULL;
  unlink(text);
  unlink(library);
  unlink(log);
  rmdir(folder);
  return code;
}
