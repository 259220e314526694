// CUPTI, which profiles nothing here, and NVRTC, which has g++ compile CUDA C for this host
// (tests/core/compile/cuda/host.sh).
#include "standin.h"
#ifdef STANDIN_libcupti
int cuptiSubscribe(void) { return 38; }              // it is subscribed by someone else
int cuptiActivityGetNextRecord(void) { return 12; }  // there is none
int cuptiGetResultString(int code, const char **text) { (void)code; *text = "the CUDA stand-in has no CUPTI"; return 0; }
int cuptiGetVersion(unsigned *version) { *version = 130200; return 0; }
#endif
#ifdef STANDIN_libnvrtc
#include "compiler.h"

enum { COMPILATION = 6 };
typedef struct {
  char *text, *code, *log;
  size_t code_bytes;
} Program;

/** No code of a real NVRTC, nor of another host.h, has this version: the program's cache knows them apart. */
int nvrtcVersion(int *major, int *minor) {
  const char *script = getenv("CUDA_STANDIN_HOST");
  unsigned hash = 2166136261u;
  for (int header = 0; script && header < 2; header++) {
    char path[4096];
    snprintf(path, sizeof path, "%.*s%s", (int)(strlen(script) - 2), script, header ? "h" : "sh");
    size_t bytes;
    char *content = read_file(path, &bytes);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)content[i]) * 16777619u;
    free(content);
  }
  *major = 0;
  *minor = hash & 0x7fffffff;
  return 0;
}
const char *nvrtcGetErrorString(int code) { (void)code; return "an error of the CUDA stand-in's compiler"; }

int nvrtcCreateProgram(Program **out, const char *text, const char *name, int headers, const char **content, const char **names) {
  (void)name, (void)headers, (void)content, (void)names;
  *out = calloc(1, sizeof **out);
  (*out)->text = strdup(text);
  return 0;
}
int nvrtcDestroyProgram(Program **p) {
  free((*p)->text);
  free((*p)->code);
  free((*p)->log);
  free(*p);
  *p = NULL;
  return 0;
}
int nvrtcCompileProgram(Program *p, int count, const char **options) {
  (void)count, (void)options;
  p->code = compiled_for_host(p->text, &p->code_bytes, &p->log);
  return p->code ? 0 : COMPILATION;
}
int nvrtcGetCUBINSize(Program *p, size_t *bytes) { *bytes = p->code_bytes; return 0; }
int nvrtcGetCUBIN(Program *p, char *to) { memcpy(to, p->code, p->code_bytes); return 0; }
int nvrtcGetProgramLogSize(Program *p, size_t *bytes) { *bytes = p->log ? strlen(p->log) + 1 : 0; return 0; }
int nvrtcGetProgramLog(Program *p, char *to) { strcpy(to, p->log); return 0; }
#endif
